"""The toy translator, exported, and what Python says it answers: no server involved."""

import fcntl
import functools
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from toy_translator import toy_translator

from keras_attention.export import (
    SearchOptions,
    _warmup_requests,
    export_translator,
    tokenizers,
    versions,
)
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export._warmup_requests import WARMUP_FILE
from keras_attention.export.serving import _tensor_protos

SOURCE_LIMIT = 13
BEAM_WIDTH = 3
MAX_LENGTH = 7


def toy_parts():
    """The model, always with the same weights, and the tokenizers of both sides."""
    source = tokenizers.train("characters", ["<de> abc defg", "hij klm"], symbols=["<de>"])
    target = tokenizers.train("words", ["one two three four five six seven"])
    return toy_translator(source.vocabulary_size, target.vocabulary_size + 3), source, target


def write_toy(
    base, beam_width=BEAM_WIDTH, max_length=MAX_LENGTH, max_source_length=SOURCE_LIMIT
) -> pathlib.Path:
    """Exports a toy; by default with beam 3, outputs of 7 tokens and sources of 13 at most."""
    model, source, target = toy_parts()
    search = SearchOptions(beam_width, max_length, max_source_length)
    return export_translator(model, base, source=source, target=target, search=search)


def export_shared_toy(tmp_path_factory) -> pathlib.Path:
    """Exports the toy once for all processes of a test run, for that takes seconds.

    Its warm-up file is moved away (`warm_up_file`), so that a server starts at once, and the export
    does not answer it: tests ask the same and more.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    with open(base / "toy.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "shared").exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_warmup_requests, "replay_requests", lambda path, requests: [])
                path = write_toy(base / "writing" / "toy")
            (path / WARMUP_FILE).rename(base / "writing" / WARMUP_FILE.name)
            write_manifest(path)
            (base / "writing").rename(base / "shared")
    (path,) = versions.find_versions(base / "shared" / "toy").values()
    return path


def warm_up_file(path) -> pathlib.Path:
    """Returns where the warm-up file of the shared toy is."""
    return path.parent.parent / WARMUP_FILE.name


def with_warm_up(path, base) -> pathlib.Path:
    """Copies the shared toy into `base`, with its warm-up file, and returns the version's path."""
    copy = shutil.copytree(path, base / path.name)
    shutil.copy(warm_up_file(path), copy / WARMUP_FILE)
    write_manifest(copy)
    return copy


class Offline:
    """The exported version, asked through `tf.saved_model.load`, row by row.

    Args:
        path: Directory of the version.
    """

    def __init__(self, path):
        self._loaded = tf.saved_model.load(str(path))

    @property
    def names(self):
        """The signatures' names."""
        return list(self._loaded.signatures)

    def __call__(self, signature, **inputs) -> dict[str, np.ndarray]:
        """Returns the outputs for whole batches."""
        found = self._loaded.signatures[signature](
            **{name: tf.constant(array) for name, array in inputs.items()}
        )
        return {name: tensor.numpy() for name, tensor in found.items()}

    @functools.lru_cache(maxsize=100_000)  # noqa: B019  lives as long as the tests
    def text(self, signature, *row) -> dict[str, np.ndarray]:
        """Returns what a signature of one or two texts says to a row alone, without its batch."""
        names = ("text", "target")[: len(row)]
        inputs = {
            name: _tensor_protos.encode_strings([text])
            for name, text in zip(names, row, strict=True)
        }
        return {name: array[0] for name, array in self(signature, **inputs).items()}


def same_row(alone: dict, found: dict) -> bool:
    """Whether a row's outputs are those it has alone, but for padding to a longer neighbor.

    Strings and integers must be equal, floats equal to 1e-5; what is wider than alone must
    be padding there: zeros and empty strings.
    """
    return set(alone) == set(found) and all(_same(alone[name], found[name]) for name in alone)


def _same(alone, found):
    alone, found = np.asarray(alone), np.asarray(found)
    if alone.ndim != found.ndim or any(
        wide < narrow for wide, narrow in zip(found.shape, alone.shape, strict=True)
    ):
        return False
    inside = tuple(slice(0, size) for size in alone.shape)
    kept = found[inside]
    if alone.dtype.kind == "f":
        equal = np.isfinite(found).all() and np.allclose(kept, alone, rtol=1e-5, atol=1e-5)
    else:
        equal = np.array_equal(kept, alone)
    rest = np.ones(found.shape, bool)
    rest[inside] = False
    padding = found[rest]
    return bool(equal and (padding == (b"" if found.dtype.kind == "O" else 0)).all())
