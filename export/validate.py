"""Static checks of an exported version: what a stock model server would stumble over, and where."""

import os
import pathlib
import sys

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

# What TensorFlow Text registers with a stock server, for the tokenizers there are.
TEXT_OPS = frozenset(
    {
        "CaseFoldUTF8",
        "FastBertNormalize",
        "FastWordpieceTokenizeWithOffsets",
        "NormalizeUTF8",
        "NormalizeUTF8WithOffsetsMap",
        "RegexSplitWithOffsets",
        "SentencepieceDetokenizeOp",
        "SentencepieceIdToStringOp",
        "SentencepieceOp",
        "SentencepieceStringToIdOp",
        "SentencepieceTokenizeOp",
        "SentencepieceTokenizeWithOffsetsOp",
        "SentencepieceVocabSizeOp",
        "TFText>FastWordpieceDetokenize",
        "TFText>WhitespaceTokenizeWithOffsetsV2",
        "WhitespaceTokenizeWithOffsets",
        "WordpieceTokenizeWithOffsets",
    }
)
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless", "StatefulPyFunc"})
DTYPES = (tf.float32, tf.int32, tf.string)


def validate_export(path: str | os.PathLike) -> list[str]:
    """Returns what is wrong with an exported version, one line a finding; none if it is fine.

    It reads files only: nothing is loaded or run. Checked are the ops (stock TensorFlow and
    TensorFlow Text, none that calls Python), compilation by XLA (a server refuses it unless
    started for it), the signatures (plain tensors of float32, int32 or string with the batch
    as unknown dimension 0, `serving_default` among them), the files of variables and assets,
    and paths of this machine inside the graph.

    Args:
        path: Directory of one version, with `saved_model.pb` in it.

    Returns:
        List of strings.

    Raises:
        FileNotFoundError: If there is no `saved_model.pb`.
    """
    path = pathlib.Path(path)
    try:
        content = (path / "saved_model.pb").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"{path} is not an exported version: it has no saved_model.pb."
        ) from None
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(content)
    except DecodeError:
        return ["saved_model.pb is damaged: it is not a SavedModel message"]
    if len(saved_model.meta_graphs) != 1:
        return [f"saved_model.pb holds {len(saved_model.meta_graphs)} graphs, expected 1"]
    graph = saved_model.meta_graphs[0]
    return [
        *_op_findings(graph.graph_def),
        *_signature_findings(graph.signature_def),
        *_file_findings(path, graph),
        *_path_findings(content),
    ]


def graph_ops(graph_def) -> set[str]:
    """Returns the names of the ops in a graph and its functions, calls of functions left out."""
    functions = {function.signature.name for function in graph_def.library.function}
    return {node.op for node in _nodes(graph_def)} - functions


def _nodes(graph_def):
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _op_findings(graph_def):
    for op in sorted(graph_ops(graph_def)):
        if op in PYTHON_OPS:
            yield f"op {op} calls Python, which a server does not have"
        elif op not in TEXT_OPS and not hasattr(tf.raw_ops, op):
            yield f"op {op} is neither TensorFlow's nor TensorFlow Text's: a stock server lacks it"
    compiled = {f.signature.name for f in graph_def.library.function if _compiled(f.attr)}
    compiled |= {node.name for node in _nodes(graph_def) if _compiled(node.attr)}
    for name in sorted(compiled):
        yield f"{name} asks for XLA, which a server refuses by default"


def _compiled(attributes):
    return "_XlaMustCompile" in attributes and attributes["_XlaMustCompile"].b


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


def _file_findings(path, graph):
    if not (path / "variables" / "variables.index").is_file():
        yield "variables/variables.index is missing"
    for asset in graph.asset_file_def:
        if not (path / "assets" / asset.filename).is_file():
            yield f"assets/{asset.filename} is missing"


def _path_findings(content):
    for folder in sorted(_machine_paths()):
        if f"{folder}/".encode() in content:
            yield f"saved_model.pb holds the path {folder} of this machine"


def _machine_paths():
    here = pathlib.Path(__file__).resolve()
    folders = {str(pathlib.Path.home()), os.getcwd(), sys.prefix}
    folders |= {str(here.parents[1]), str(pathlib.Path(tf.__file__).parents[1])}
    return folders - {"/"}
