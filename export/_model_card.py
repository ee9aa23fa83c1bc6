"""The model card: a description of a version and its signatures, as Markdown and as JSON.

assets.extra/model_card.json    for programs; `validate_export` reads it
assets.extra/model_card.md      the same for people
"""

import importlib.metadata
import json
import os
import pathlib
import re

import tensorflow as tf

from keras_attention.export._saved_model_file import read_meta_graph
from keras_attention.export.tokenizers._storage import describe

JSON_FILE = pathlib.PurePath("assets.extra", "model_card.json")
MARKDOWN_FILE = pathlib.PurePath("assets.extra", "model_card.md")
SCHEMA_VERSION = 1
PACKAGES = ("keras-attention-layers", "keras", "tensorflow", "tensorflow-text")


def draft_card(
    name, kind, model, tokenizers, descriptions, *, options, xla, run, more_variables=()
) -> dict:
    """Returns the part of a model card that is known before the model is saved.

    Args:
        name: Name of the model.
        kind: Kind of the model, such as `"translator"`.
        model: The Keras model.
        tokenizers: Dict from an input, or a side of a translator, to its tokenizer.
        descriptions: Dict, signature -> {"description", "inputs", "outputs"}. The last two are
            dicts from a tensor's name to one line.
        options: Dict of the options that the export fixed.
        xla: None, or the fields of an `XLABuckets` as a dict.
        run: Settings of the run, or None.
        more_variables: Keras variables that are stored beside those of the model.

    Returns:
        Dict of JSON values.
    """
    variables = [variable.value for variable in (*model.variables, *more_variables)]
    return {
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "kind": kind,
        "model": model.name,
        "parameters": {
            "count": sum(variable.shape.num_elements() for variable in variables),
            "bytes": sum(v.shape.num_elements() * v.dtype.size for v in variables),
        },
        "signatures": descriptions,
        "tokenizers": {
            key: _describe_tokenizer(value) for key, value in sorted(tokenizers.items())
        },
        "options": {key: _serialize_option(value) for key, value in options.items()},
        "xla": xla,
        "versions": {package: _get_package_version(package) for package in PACKAGES},
        "run": strip_paths(run),
    }


def complete_card(card: dict, directory: str | os.PathLike[str], requests) -> dict:
    """Returns `card` with the dtypes and shapes of the SavedModel in `directory`.

    Args:
        card: What `draft_card` returned.
        directory: Directory of the version, with its SavedModel.
        requests: The warm-up requests.
    """
    signatures = {}
    for name, saved in sorted(read_meta_graph(directory).signature_def.items()):
        if name not in card["signatures"]:
            continue
        description = card["signatures"][name]
        signatures[name] = {
            "description": description["description"],
            "inputs": _describe_tensors(saved.inputs, description["inputs"]),
            "outputs": _describe_tensors(saved.outputs, description["outputs"]),
        }
    return card | {"signatures": signatures, "warmup_requests": len(requests)}


def write(directory: str | os.PathLike[str], card: dict) -> None:
    """Writes a complete card as JSON and as Markdown into the version in `directory`."""
    directory = pathlib.Path(directory)
    (directory / JSON_FILE).parent.mkdir(exist_ok=True)
    text = json.dumps(card, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    (directory / JSON_FILE).write_text(text, encoding="utf-8")
    (directory / MARKDOWN_FILE).write_text(render_markdown(card), encoding="utf-8")


def read(directory: str | os.PathLike[str]) -> dict | None:
    """Returns the card of the version in `directory`, or None if it has none.

    Raises:
        ValueError: If the file is not a model card.
    """
    try:
        text = (pathlib.Path(directory) / JSON_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    card = json.loads(text)
    if not isinstance(card, dict) or card.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"it is not a model card of schema version {SCHEMA_VERSION}")
    parameters = card.get("parameters", {})
    if not isinstance(parameters, dict):
        raise ValueError(f"it expects `parameters` to be an object. Received: {parameters!r}")
    return card


def render_markdown(card: dict) -> str:
    """Returns a complete card as Markdown."""
    parameters = card["parameters"]
    lines = [f"# {card['name']}", ""]
    lines.append(
        f"A {card['kind']}, Keras model `{card['model']}`: {parameters['count']:,} parameters, "
        f"{parameters['bytes'] / 1e6:.1f} MB."
    )
    for name, signature in card["signatures"].items():
        lines += ["", f"## `{name}`", "", signature["description"], ""]
        lines += ["| | tensor | dtype | shape | description |", "|---|---|---|---|---|"]
        for side in ("inputs", "outputs"):
            for key, tensor in signature[side].items():
                cells = (
                    side[:-1],
                    f"`{key}`",
                    tensor["dtype"],
                    _format_shape(tensor),
                    tensor["description"],
                )
                lines.append("| " + " | ".join(cells) + " |")
    for title, key in (("Tokenizers", "tokenizers"), ("Fixed at export", "options")):
        lines += _format_list(title, card[key])
    if card["xla"]:
        lines += ["", "## XLA", "", XLA.format(**card["xla"])]
    lines += _format_list("Written with", card["versions"])
    lines += _format_list("Trained with", card["run"] or {})
    return "\n".join(lines) + "\n"


XLA = """\
XLA compiles the searches for batches of {batch_sizes} examples and sources of {source_lengths}
tokens; the graph pads to these sizes. A server refuses them unless it is started with
`--xla_cpu_compilation_enabled` (`--xla_gpu_compilation_enabled` on a GPU). The warm-up compiles
all of them before the version goes live. Products with kernels are computed in {precision}."""


# A file's URL is a path.
_PATH_OR_URL = re.compile(
    r"(?P<url>\b(?!file:)[A-Za-z][\w+.-]*://\S*)"
    r"|(?<![\w.])(?:~|\.{1,2})?/(?:[^\s/]+/)+(?P<name>[^\s/]*)"
)


def strip_paths(value):
    """Returns settings in which every path is shortened to its file name; URLs are kept."""
    if isinstance(value, dict):
        return {key: strip_paths(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [strip_paths(entry) for entry in value]
    if isinstance(value, str):
        return _PATH_OR_URL.sub(lambda found: found["url"] or found["name"], value)
    return value


def _format_list(title, entries):
    if not entries:
        return []
    return ["", f"## {title}", ""] + [f"- {key}: {_format_value(v)}" for key, v in entries.items()]


def _format_value(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {_format_value(entry)}" for key, entry in value.items())
    return "none" if value is None else str(value)


def _describe_tensors(saved, descriptions):
    tensors = {}
    for name in sorted(saved, key=lambda key: (list(descriptions).index(key), key)):
        info = saved[name]
        tensors[name] = {
            "dtype": tf.as_dtype(info.dtype).name,
            "shape": [None if d.size < 0 else d.size for d in info.tensor_shape.dim],
            "description": descriptions[name],
        }
    return tensors


def _format_shape(tensor):
    batch, *others = ["?" if size is None else str(size) for size in tensor["shape"]]
    return "(" + ", ".join(["batch" if batch == "?" else batch, *others]) + ")"


def _describe_tokenizer(tokenizer):
    description = describe(tokenizer)
    kept_keys = ("kind", "vocabulary_size", "normalization", "lowercase", "special_ids", "sha256")
    return {key: description[key] for key in kept_keys} | {"symbols": len(description["symbols"])}


def _serialize_option(value):
    if hasattr(value, "get_config"):
        return {"class": type(value).__name__, **value.get_config()}
    if isinstance(value, tuple):
        return list(value)
    plain = isinstance(value, (int, float, str, list, dict, type(None)))
    return value if plain else {"class": type(value).__name__}


def _get_package_version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
