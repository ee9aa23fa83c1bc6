"""Static checks of an exported version: what a stock model server would stumble over, and where."""

import os
import pathlib

import tensorflow as tf

from keras_attention.export import model_card, saved
from keras_attention.export.manifest import MANIFEST_FILE, check_manifest
from keras_attention.export.server_ops import compiled_names, op_findings, state_findings
from keras_attention.export.validate_files import (
    asset_findings,
    variable_findings,
    warmup_findings,
)
from keras_attention.export.validate_paths import path_findings

DTYPES = (tf.float32, tf.int32, tf.string)


def validate_export(path: str | os.PathLike) -> list[str]:
    """Returns what is wrong with an exported version, one line a finding; none if it is fine.

    It reads files only: nothing is loaded or run. The manifest is checked first. If it finds a
    file that is damaged, missing or added, the list says so and nothing else is read. Otherwise
    checked are

    * the ops: stock TensorFlow 2.20 and TensorFlow Text, none that calls Python;
    * compilation by XLA, which a server refuses unless started for it: only where the model
      card says so;
    * the signatures: plain tensors of float32, int32 or string with the batch as unknown
      dimension 0, `serving_default` among them;
    * no signature draws random numbers from a state, or writes a variable: what a request is
      answered would depend on those before it;
    * the variables: all there, as many bytes as the card says (without one, none stored twice);
    * the assets: all there, inside the version;
    * the warm-up file: readable, at most 1,000 requests, each for a signature and outputs that
      there are, with inputs of its dtypes and shapes;
    * paths: no text of the graph is the absolute path of a file, no op opens a file that is no
      asset, and neither the graph nor what is beside it holds a folder of this machine.

    Args:
        path: Directory of one version, with `saved_model.pb` in it.

    Returns:
        List of strings.

    Raises:
        FileNotFoundError: If there is no `saved_model.pb`.
    """
    path = pathlib.Path(path)
    has_manifest = (path / MANIFEST_FILE).exists()
    if not has_manifest and not (path / "saved_model.pb").exists():
        raise FileNotFoundError(f"{path} is not an exported version: it has no saved_model.pb.")
    findings = check_manifest(path)
    if has_manifest:
        return findings or list(_static_findings(path))
    try:
        return findings + list(_static_findings(path))
    except Exception as error:  # a damaged graph may be wrong in any way
        return [*findings, f"the version cannot be checked: {type(error).__name__}: {error}"]


def _static_findings(path):
    """Yields what is wrong with a version whose files are whole."""
    try:
        graph = saved.read_graph(path)
    except (OSError, ValueError) as error:
        yield str(error)
        return
    yield from op_findings(graph.graph_def)
    card = None
    try:
        card = model_card.read(path)
    except (OSError, RecursionError, ValueError) as error:
        yield f"{model_card.JSON_FILE} cannot be read: {error}"
    yield from _compilation_findings(graph, card)
    yield from _signature_findings(graph.signature_def)
    yield from state_findings(graph)
    yield from variable_findings(path, card)
    yield from asset_findings(path, graph)
    yield from warmup_findings(path, graph.signature_def)
    yield from path_findings(path, graph)


def _compilation_findings(graph, card):
    if not graph.meta_info_def.stripped_default_attrs:
        yield "default attributes are written out: an older server may not know them"
    if not (card or {}).get("xla"):
        for name in compiled_names(graph.graph_def):
            yield f"{name} asks for XLA, which a server refuses by default"


def _signature_findings(signature_def):
    if "serving_default" not in signature_def:
        yield "there is no signature serving_default"
    for name, signature in sorted(signature_def.items()):
        if name == "__saved_model_init_op":
            continue
        if not signature.inputs:
            yield f"signature {name} has no input and cannot be called over REST"
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for key, info in sorted(tensors.items()):
                yield from _tensor_findings(f"signature {name}, {side} {key}:", info)


def _tensor_findings(where, info):
    if info.WhichOneof("encoding") != "name":
        yield f"{where} a ragged or sparse tensor cannot be fetched"
        return
    if tf.as_dtype(info.dtype) not in DTYPES:
        yield f"{where} dtype {tf.as_dtype(info.dtype).name}, expected float32, int32 or string"
    if info.tensor_shape.unknown_rank or not info.tensor_shape.dim:
        yield f"{where} expected a known rank of at least 1"
    elif info.tensor_shape.dim[0].size != -1:
        size = info.tensor_shape.dim[0].size
        yield f"{where} dimension 0 is {size}, expected the unknown batch"
