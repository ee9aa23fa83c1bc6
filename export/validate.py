"""Checks the compatibility of an exported version with an unmodified TensorFlow Serving."""

import os
import pathlib

import tensorflow as tf

from keras_attention.export import _model_card, _saved_model_file
from keras_attention.export._digest_manifest import MANIFEST_FILE, find_manifest_problems
from keras_attention.export._external_paths import find_path_problems
from keras_attention.export._supported_ops import (
    find_op_problems,
    find_state_problems,
    find_xla_names,
)
from keras_attention.export._validate_files import (
    find_asset_problems,
    find_variable_problems,
    find_warmup_problems,
)

DTYPES = (tf.float32, tf.int32, tf.string)


def validate_export(path: str | os.PathLike[str]) -> list[str]:
    """Returns the problems of an exported version, one line for each; an empty list if it is fine.

    It reads files only: nothing is loaded or run. The manifest is checked first. If a file is
    damaged, missing or added, the list says so and nothing else is read. Otherwise the function
    checks

    * the ops: stock TensorFlow 2.20 and TensorFlow Text, none that calls Python;
    * compilation by XLA, which a server refuses unless a flag allows it: only if the model card
      says so;
    * the signatures: plain tensors of float32, int32 or string with the batch as unknown
      dimension 0, `serving_default` among them;
    * no signature draws random numbers from a state, or writes a variable: a response would
      depend on the requests before it;
    * the variables: all there, as many bytes as the card says (without one, none stored twice);
    * the assets: all there, inside the version;
    * the warm-up file: readable, at most 1,000 requests, each for an existing signature and
      existing outputs, with inputs of its dtypes and shapes;
    * paths: no text of the graph is the absolute path of a file, no op opens a file that is not
      an asset, and no file of the version names a folder of this machine, vocabularies and
      the texts of warm-up requests aside.

    Args:
        path: Directory of one version, with `saved_model.pb` in it.

    Returns:
        List of strings.

    Raises:
        FileNotFoundError: If there is no such directory.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not an exported version: it does not exist.")
    has_manifest = (path / MANIFEST_FILE).exists()
    problems = find_manifest_problems(path)
    if has_manifest:
        return problems or list(_find_static_problems(path))
    try:
        return problems + list(_find_static_problems(path))
    except Exception as error:  # a damaged graph can raise any error
        return [*problems, f"the version cannot be checked: {type(error).__name__}: {error}"]


def _find_static_problems(path):
    """Yields the problems of a version whose files match the manifest."""
    try:
        graph = _saved_model_file.read_meta_graph(path)
    except (OSError, ValueError) as error:
        yield str(error)
        return
    yield from find_op_problems(graph.graph_def)
    card = None
    try:
        card = _model_card.read(path)
    except (OSError, RecursionError, ValueError) as error:
        yield f"{_model_card.JSON_FILE} cannot be read: {error}"
    yield from _find_xla_problems(graph, card)
    yield from _find_signature_problems(graph.signature_def)
    yield from find_state_problems(graph)
    yield from find_variable_problems(path, card)
    yield from find_asset_problems(path, graph)
    yield from find_warmup_problems(path, graph.signature_def)
    yield from find_path_problems(path, graph)


def _find_xla_problems(graph, card):
    if not graph.meta_info_def.stripped_default_attrs:
        yield "default attributes are not stripped: an older server may not support them"
    if not (card or {}).get("xla"):
        for name in find_xla_names(graph.graph_def):
            yield f"{name} requires XLA, which a server refuses by default"


def _find_signature_problems(signature_def):
    if "serving_default" not in signature_def:
        yield "there is no signature serving_default"
    for name, signature in sorted(signature_def.items()):
        if name == "__saved_model_init_op":
            continue
        if not signature.inputs:
            yield f"signature {name} has no input and cannot be called over REST"
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for key, info in sorted(tensors.items()):
                yield from _find_tensor_problems(f"signature {name}, {side} {key}:", info)


def _find_tensor_problems(where, info):
    if info.WhichOneof("encoding") != "name":
        yield f"{where} a ragged or sparse tensor, which a server cannot return"
        return
    if tf.as_dtype(info.dtype) not in DTYPES:
        yield f"{where} dtype {tf.as_dtype(info.dtype).name}, expected float32, int32 or string"
    if info.tensor_shape.unknown_rank or not info.tensor_shape.dim:
        yield f"{where} expected a known rank of at least 1"
    elif info.tensor_shape.dim[0].size != -1:
        size = info.tensor_shape.dim[0].size
        yield f"{where} dimension 0 is {size}, expected the unknown batch"
