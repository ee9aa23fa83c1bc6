"""Checks a version for paths of the machine that wrote it, and for ops that read its files.

A server has the files of the version only. Ops may read assets: SavedModel stores the path of each
asset in a variable, which loading sets.
"""

import collections.abc
import os
import pathlib
import re
import sys

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.framework import tensor_pb2

from keras_attention.export._supported_ops import iterate_nodes, list_called_functions
from keras_attention.export._warmup_requests import WARMUP_FILE

# The index of the input that names the file, for each op that opens one.
FILE_INPUTS = {
    **dict.fromkeys(("ReadFile", "WriteFile", "MatchingFiles", "TextLineDataset"), 0),
    **dict.fromkeys(("TFRecordDataset", "TFRecordDatasetV2", "LoadDataset"), 0),
    **dict.fromkeys(("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2"), 0),
    **dict.fromkeys(("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"), 1),
}
POSIX = re.compile(r"(?:file://)?((?:/[\w.+@~, =-]+){2,})/?")
WINDOWS = re.compile(r'(?:[A-Za-z]:[\\/]|\\\\)((?:[^\\/:*?"<>|\r\n]+[\\/])+[^\\/:*?"<>|\r\n]*)')
# Such a string counts as a path if it begins with one of these folders or ends with an extension:
# "/m/02mk9" does neither.
ROOTS = frozenset(
    {
        *("content", "data", "datasets", "dbfs", "etc", "home", "kaggle", "lustre", "media", "mnt"),
        *("nfs", "opt", "private", "program files", "programdata", "projects", "root", "scratch"),
        *("shared", "srv", "storage", "temp", "tmp", "users", "usr", "var", "volumes", "windows"),
        *("work", "workspace", "workspaces"),
    }
)
EXTENSION = re.compile(r".*\w\.[A-Za-z]\w{0,9}")


def find_path_problems(path, graph):
    """Yields the absolute paths in a version, and the ops that read files other than assets.

    Args:
        path: Directory of the version.
        graph: Its `MetaGraphDef`.
    """
    texts = (_get_constant(node) for node in iterate_nodes(graph.graph_def))
    for text in sorted({text for text in texts if text is not None and is_machine_path(text)}):
        yield f"saved_model.pb holds the absolute path {text}"
    yield from _find_file_reads(graph)
    yield from _find_machine_folders(path, graph)


def is_machine_path(text: str) -> bool:
    """Returns whether a whole string is an absolute path of a file or folder."""
    found = POSIX.fullmatch(text) or WINDOWS.fullmatch(text)
    if not found:
        return False
    parts = re.split(r"[\\/]", found[1].strip("/\\"))
    return parts[0].lower() in ROOTS or EXTENSION.fullmatch(parts[-1]) is not None


def _get_constant(node):
    """Returns the text of a scalar constant; None for other nodes."""
    if node.op != "Const" or node.attr["dtype"].type != tf.string.as_datatype_enum:
        return None
    tensor = node.attr["value"].tensor
    if tensor.tensor_shape.dim or len(tensor.string_val) != 1:
        return None
    try:
        return tensor.string_val[0].decode()
    except UnicodeDecodeError:
        return None


def _find_file_reads(graph):
    flow = _StringDataflow(graph)
    found = set()
    for function, node in flow.nodes():
        if node.op in FILE_INPUTS:
            sources = flow.sources(function, node.input[FILE_INPUTS[node.op]])
            if not sources or sources - {_ASSET}:
                listed_sources = sorted(source for source in sources - {_ASSET} if source)
                found.add((node.op, f" ({', '.join(listed_sources)})" if listed_sources else ""))
    for op, listed_sources in sorted(found):
        yield f"op {op} opens a file that is not an asset of the version{listed_sources}"


_ASSET = object()


class _StringDataflow:
    """Finds the sources of the strings of a graph, across its functions."""

    def __init__(self, graph):
        definition = graph.graph_def
        self._parameters = {None: []}
        self._bodies = {None: {node.name: node for node in definition.node}}
        for function in definition.library.function:
            name = function.signature.name
            self._parameters[name] = [argument.name for argument in function.signature.input_arg]
            self._bodies[name] = {node.name: node for node in function.node_def}
        self._callers = {}
        for function, node in self.nodes():
            for name in list_called_functions(node):
                self._callers.setdefault(name, []).append((function, node))
        holders = {asset.tensor_info.name.partition(":")[0] for asset in graph.asset_file_def}
        self._assets = holders | {
            node.input[0]
            for node in definition.node
            if node.op == "AssignVariableOp" and node.input[1] in holders
        }

    def nodes(self):
        """Yields every node with the name of its function, None for the graph itself."""
        for function, body in self._bodies.items():
            yield from ((function, node) for node in body.values())

    def sources(self, function, tensor):
        """Returns the texts that a tensor is made of: `_ASSET` for an asset, "" if unknown."""
        found, pending, seen = set(), [(function, tensor)], set()
        while pending:
            function, tensor = place = pending.pop()
            name = tensor.partition(":")[0]
            if place in seen or name.startswith("^"):
                continue
            seen.add(place)
            if name in self._parameters[function]:
                pending += self._find_caller_inputs(function, name)
            elif function is None and name in self._assets:
                found.add(_ASSET)
            elif node := self._bodies[function].get(name):
                pending += [(function, input_) for input_ in node.input]
                if not node.input and node.attr["dtype"].type == tf.string.as_datatype_enum:
                    found.add(_get_constant(node) or "")
        return found

    def _find_caller_inputs(self, function, name):
        """Yields the callers' inputs for a parameter; a call ends with the function's inputs."""
        parameters = self._parameters[function]
        back = parameters.index(name) - len(parameters)
        for caller, node in self._callers.get(function, ()):
            inputs = [input_ for input_ in node.input if not input_.startswith("^")]
            if -back <= len(inputs):
                yield caller, inputs[back]


def _find_machine_folders(path, graph):
    """Yields the files that hold folders of this machine, also inside longer texts."""
    # `models.config` names a folder of the container, /models, on purpose. The texts of warm-up
    # requests are made of the vocabulary.
    extra_files = [file for file in (path / "assets.extra").glob("*") if file.is_file()]
    exempt = ("models.config", WARMUP_FILE.name)
    extra_files = [file for file in extra_files if file.name not in exempt]
    folders = sorted(_list_machine_folders())
    # To walk through the messages takes seconds, and rarely one of them holds a folder.
    serialized = graph.SerializeToString()
    is_held = any(f"{folder}/".encode() in serialized for folder in folders)
    texts = {"saved_model.pb": set(_iterate_texts(graph)) if is_held else set()}
    texts |= {str(file.relative_to(path)): {file.read_bytes()} for file in sorted(extra_files)}
    for name, held in texts.items():
        for folder in folders:
            # Match only where a path can begin: names of nodes may contain such parts.
            pattern = re.compile(rb"(?<![\w./-])" + re.escape(folder.encode()) + b"/")
            if any(pattern.search(text) for text in held):
                yield f"{name} holds the path {folder} of this machine"


def _iterate_texts(value):
    """Yields the texts of a message as bytes, without the length before each in the file.

    Those of tensors that are not scalars are left out: words of a vocabulary may be paths.
    """
    if isinstance(value, tensor_pb2.TensorProto) and value.tensor_shape.dim:
        return
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, message.Message):
        for _, part in value.ListFields():
            yield from _iterate_texts(part)
    elif isinstance(value, collections.abc.Mapping):
        yield from _iterate_texts(list(value))
        yield from _iterate_texts(list(value.values()))
    elif not isinstance(value, (int, float)):
        for part in value:
            yield from _iterate_texts(part)


def _list_machine_folders():
    here = pathlib.Path(__file__).resolve()
    folders = {str(pathlib.Path.home()), os.getcwd(), sys.prefix}
    folders |= {str(here.parents[1]), str(pathlib.Path(tf.__file__).parents[1])}
    return folders - {"/"}
