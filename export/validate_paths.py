"""Static checks for paths: what a version says of the machine that wrote it, or reads there.

A server has the files of the version and no others. What it may read are assets: SavedModel
keeps the place of each in a variable that loading fills in.
"""

import collections.abc
import os
import pathlib
import re
import sys

import tensorflow as tf
from google.protobuf import message

from keras_attention.export.server_ops import called_functions, nodes

# Of each op that opens a file, which input names it.
FILE_INPUTS = {
    **dict.fromkeys(("ReadFile", "WriteFile", "MatchingFiles", "TextLineDataset"), 0),
    **dict.fromkeys(("TFRecordDataset", "TFRecordDatasetV2", "LoadDataset"), 0),
    **dict.fromkeys(("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2"), 0),
    **dict.fromkeys(("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"), 1),
}
POSIX = re.compile(r"(?:file://)?((?:/[\w.+@~, =-]+){2,})/?")
WINDOWS = re.compile(r'(?:[A-Za-z]:[\\/]|\\\\)((?:[^\\/:*?"<>|\r\n]+[\\/])+[^\\/:*?"<>|\r\n]*)')
# A string of that form is taken for a path if it begins or ends as paths do: "/m/02mk9" is none.
ROOTS = frozenset(
    {
        *("content", "data", "datasets", "dbfs", "etc", "home", "kaggle", "lustre", "media", "mnt"),
        *("nfs", "opt", "private", "program files", "programdata", "projects", "root", "scratch"),
        *("shared", "srv", "storage", "temp", "tmp", "users", "usr", "var", "volumes", "windows"),
        *("work", "workspace", "workspaces"),
    }
)
EXTENSION = re.compile(r".*\w\.[A-Za-z]\w{0,9}")


def path_findings(path, graph):
    """Yields the paths of machines in a version, and the ops that read what is no asset.

    Args:
        path: Of the version.
        graph: Its `MetaGraphDef`.
    """
    texts = (_constant(node) for node in nodes(graph.graph_def))
    for text in sorted({text for text in texts if text is not None and is_machine_path(text)}):
        yield f"saved_model.pb holds the path {text} of a machine"
    yield from _reading_findings(graph)
    yield from _folder_findings(path, graph)


def is_machine_path(text: str) -> bool:
    """Returns whether a string is, as a whole, an absolute path of a file or folder."""
    found = POSIX.fullmatch(text) or WINDOWS.fullmatch(text)
    if not found:
        return False
    parts = re.split(r"[\\/]", found[1].strip("/\\"))
    return parts[0].lower() in ROOTS or EXTENSION.fullmatch(parts[-1]) is not None


def _constant(node):
    """The text of a scalar constant, None for any other node."""
    if node.op != "Const" or node.attr["dtype"].type != tf.string.as_datatype_enum:
        return None
    tensor = node.attr["value"].tensor
    if tensor.tensor_shape.dim or len(tensor.string_val) != 1:
        return None
    try:
        return tensor.string_val[0].decode()
    except UnicodeDecodeError:
        return None


def _reading_findings(graph):
    flow = _Flow(graph)
    found = set()
    for function, node in flow.nodes():
        if node.op in FILE_INPUTS:
            sources = flow.sources(function, node.input[FILE_INPUTS[node.op]])
            if not sources or sources - {_ASSET}:
                told = sorted(source for source in sources - {_ASSET} if source)
                found.add((node.op, f" ({', '.join(told)})" if told else ""))
    for op, told in sorted(found):
        yield f"op {op} opens a file that is no asset of the version{told}"


_ASSET = object()


class _Flow:
    """Where the strings of a graph come from, across its functions."""

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
            for name in called_functions(node):
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
        """The set of texts that a tensor is made of; `_ASSET` for an asset, "" if unknown."""
        found, waiting, seen = set(), [(function, tensor)], set()
        while waiting:
            function, tensor = place = waiting.pop()
            name = tensor.partition(":")[0]
            if place in seen or name.startswith("^"):
                continue
            seen.add(place)
            if name in self._parameters[function]:
                waiting += self._given(function, name)
            elif function is None and name in self._assets:
                found.add(_ASSET)
            elif node := self._bodies[function].get(name):
                waiting += [(function, input_) for input_ in node.input]
                if not node.input and node.attr["dtype"].type == tf.string.as_datatype_enum:
                    found.add(_constant(node) or "")
        return found

    def _given(self, function, name):
        """What the callers of a function give for a parameter: their last inputs are its own."""
        parameters = self._parameters[function]
        back = parameters.index(name) - len(parameters)
        for caller, node in self._callers.get(function, ()):
            inputs = [input_ for input_ in node.input if not input_.startswith("^")]
            if -back <= len(inputs):
                yield caller, inputs[back]


def _folder_findings(path, graph):
    """What holds folders of this machine, inside of longer texts too."""
    # `models.config` names the folder of a container, /models, on purpose.
    beside = [file for file in (path / "assets.extra").glob("*") if file.is_file()]
    beside = [file for file in beside if file.name != "models.config"]
    texts = {"saved_model.pb": set(_texts(graph))}
    texts |= {str(file.relative_to(path)): {file.read_bytes()} for file in sorted(beside)}
    for name, held in texts.items():
        for folder in sorted(_machine_paths()):
            # Where a path can begin: names of nodes have such parts within.
            pattern = re.compile(rb"(?<![\w./-])" + re.escape(folder.encode()) + b"/")
            if any(pattern.search(text) for text in held):
                yield f"{name} holds the path {folder} of this machine"


def _texts(value):
    """Yields every text of a message, as bytes, by itself: in a file its length precedes it."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, message.Message):
        for _, part in value.ListFields():
            yield from _texts(part)
    elif isinstance(value, collections.abc.Mapping):
        yield from _texts(list(value))
        yield from _texts(list(value.values()))
    elif not isinstance(value, (int, float)):
        for part in value:
            yield from _texts(part)


def _machine_paths():
    here = pathlib.Path(__file__).resolve()
    folders = {str(pathlib.Path.home()), os.getcwd(), sys.prefix}
    folders |= {str(here.parents[1]), str(pathlib.Path(tf.__file__).parents[1])}
    return folders - {"/"}
