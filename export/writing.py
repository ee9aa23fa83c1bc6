"""One version of a model, written beside its name and renamed once it is known to answer."""

import dataclasses
import os
import pathlib

import tensorflow as tf

from keras_attention.export import configs, files, manifest, model_card, versions, warmup
from keras_attention.export.validate import validate_export


class Served(tf.Module):
    """What a SavedModel of ours holds: variables, what the graphs look things up in, graphs.

    Args:
        name: Name of the module.
        variables: The model's `tf.Variable`s, raw: a Keras variable or a Keras model as an
            attribute would be stored beside them once more.
        tokenizers: Dict of tokenizers; their tables and models must be attributes to be saved.
        signatures: Dict of `tf.function`s.
    """

    def __init__(self, name, variables, tokenizers, signatures):
        super().__init__(name=name)
        self.parameters = variables
        self.tokenizers = tokenizers
        for key, function in signatures.items():
            setattr(self, key, function)


@dataclasses.dataclass(frozen=True)
class Version:
    """What `write_version` writes.

    Attributes:
        served: A `Served`.
        signatures: Dict of its `tf.function`s, by the names clients use.
        card: Dict, the beginning of the model card: see `model_card.complete`.
        requests: List of `warmup.Request`.
        batch_sizes: Batch sizes for the example of a batching configuration.
        pads: Whether the server may pad inputs of different lengths.
    """

    served: Served
    signatures: dict
    card: dict
    requests: list
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    pads: bool = False


def write_version(
    owner: str, version: Version, directory: str | os.PathLike, number: int | None
) -> pathlib.Path:
    """Writes a version, checks it, lets it answer its warm-up requests, and renames it.

    Args:
        owner: Name of the function the user called.
        version: What is written.
        directory: Base directory of the model.
        number: Version, None for the next one that is free when all is written.

    Returns:
        The path of the version.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If a server could not load it, or not answer from it.
    """
    path = versions.new_version(directory, number)

    def next_path():
        nonlocal path
        path = versions.new_version(directory)
        return path

    # Nothing in a version tells its number: where none was asked for, another export may take it.
    with files.new_directory(path, next_path if number is None else None) as beside:
        # Functions as they are: asked for their concrete ones, they would be traced once more.
        tf.saved_model.save(version.served, str(beside), version.signatures, _OPTIONS)
        card = model_card.complete(version.card, beside, version.requests)
        model_card.write(beside, card)
        configs.write(beside, card["name"], version.batch_sizes, version.pads)
        warmup.write_requests(beside, version.requests, card["name"])
        manifest.write_manifest(beside)
        findings = validate_export(beside)
        if findings:
            raise ValueError(
                f"{owner} expects a model that a stock server can run, without Python in its "
                f"layers, and without XLA unless asked for. Received: {'; '.join(findings)}"
            )
        try:
            warmup.replay(beside, version.requests)
        except ValueError as error:
            raise ValueError(
                f"{owner} expects a model that answers its warm-up requests with finite numbers; "
                f"a server would not load it. Received: {error}"
            ) from error
    return path


def checked_name(owner: str, name: str | None, directory: str | os.PathLike) -> str:
    """Returns the model's name: as given, or that of its base directory.

    Raises:
        ValueError: If it holds anything but letters, digits, `_`, `-` and `.`.
    """
    if name is None:
        name = pathlib.Path(os.path.abspath(directory)).name
        return "".join(c if c in _NAME_CHARACTERS else "_" for c in name) or "model"
    if not isinstance(name, str) or not name or set(name) - _NAME_CHARACTERS:
        raise ValueError(
            f"{owner} expects `name` to be of letters, digits, `_`, `-` and `.`, as it becomes a "
            f"part of addresses. Received: name={name!r}"
        )
    return name


# A server derives nothing, and graphs of gradients would take most of the time and the room.
_OPTIONS = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
