"""Writes one version of a model into a hidden folder, tests it and renames it."""

import dataclasses
import os
import pathlib

import tensorflow as tf

from keras_attention.data import atomic_files
from keras_attention.export import (
    _digest_manifest,
    _model_card,
    _serving_configs,
    _warmup_requests,
    versions,
)
from keras_attention.export.serving.errors import ServingError
from keras_attention.export.validate import validate_export


class ServedModule(tf.Module):
    """The content of an exported SavedModel: variables, tokenizers and signatures.

    Args:
        name: Name of the module.
        variables: The `tf.Variable`s of the model. With a Keras variable or model as an attribute,
            SavedModel would store every variable twice.
        tokenizers: Dict of tokenizers. They are attributes so that SavedModel stores their tables
            and models.
        signatures: Dict of `tf.function`s.
    """

    def __init__(self, name, variables, tokenizers, signatures):
        super().__init__(name=name)
        self.parameters = variables
        self.tokenizers = tokenizers
        for key, function in signatures.items():
            setattr(self, key, function)


@dataclasses.dataclass(frozen=True)
class VersionContents:
    """The content of a version, for `write_version`.

    Attributes:
        module: A `ServedModule`.
        signatures: Dict of its `tf.function`s by signature name.
        card: Dict, the result of `_model_card.draft_card`.
        requests: List of `WarmupRequest`.
        batch_sizes: Batch sizes of the example batching configuration.
        pad_inputs: Whether the server may pad inputs of different lengths.
    """

    module: ServedModule
    signatures: dict
    card: dict
    requests: list
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    pad_inputs: bool = False


def write_version(
    owner: str, version: VersionContents, directory: str | os.PathLike[str], number: int | None
) -> pathlib.Path:
    """Writes a version, checks it, runs its warm-up requests, and renames it.

    Args:
        owner: Name of the function that the user called.
        version: The content of the version.
        directory: Base directory of the model.
        number: Number of the version, or None for the next free one at the time of the rename.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If a server could not load the version or could not run its warm-up requests.
    """
    path = versions.make_version_path(directory, number)

    def next_path():
        nonlocal path
        path = versions.make_version_path(directory)
        return path

    # No file of a version holds its number, so it may change until the rename if none was given.
    with atomic_files.create_directory(
        path, next_path if number is None else None
    ) as temporary_path:
        # Pass the functions themselves: getting concrete functions would trace them again.
        tf.saved_model.save(version.module, str(temporary_path), version.signatures, _OPTIONS)
        card = _model_card.complete_card(version.card, temporary_path, version.requests)
        _model_card.write(temporary_path, card)
        _serving_configs.write(
            temporary_path, card["name"], version.batch_sizes, version.pad_inputs
        )
        _warmup_requests.write_requests(temporary_path, version.requests, card["name"])
        _digest_manifest.write_manifest(temporary_path)
        problems = validate_export(temporary_path)
        if problems:
            raise ValueError(
                f"{owner} expects a model that an unmodified TensorFlow Serving can run: without "
                f"Python in its layers, and without XLA unless `xla` is given. "
                f"Received: {'; '.join(problems)}"
            )
        try:
            _warmup_requests.replay_requests(temporary_path, version.requests)
        except (ServingError, ValueError) as error:
            raise ValueError(
                f"{owner} expects a model that returns finite numbers for its warm-up requests; "
                f"a server would not load this one. Received: {error}"
            ) from error
    return path


def resolve_model_name(owner: str, name: str | None, directory: str | os.PathLike[str]) -> str:
    """Returns the model's name: `name`, or the name of its base directory.

    Raises:
        ValueError: If `name` has characters other than letters, digits, `_`, `-` and `.`.
    """
    if name is None:
        name = pathlib.Path(os.path.abspath(directory)).name
        return "".join(c if c in _NAME_CHARACTERS else "_" for c in name) or "model"
    if not isinstance(name, str) or not name or set(name) - _NAME_CHARACTERS:
        raise ValueError(
            f"{owner} expects `name` to consist of letters, digits, `_`, `-` and `.`: it is "
            f"a part of URLs. Received: name={name!r}"
        )
    return name


# A server computes no gradients; their graphs would take most of the time and the space.
_OPTIONS = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
