"""The model card: what a version is and what it answers to, as Markdown and as JSON.

assets.extra/model_card.json    for programs: `validate_export` reads it
assets.extra/model_card.md      the same for people
"""

import importlib.metadata
import json
import os
import pathlib
import re

import tensorflow as tf

from keras_attention.export.saved import read_graph
from keras_attention.export.tokenizers.storage import describe

JSON_FILE = pathlib.PurePath("assets.extra", "model_card.json")
MARKDOWN_FILE = pathlib.PurePath("assets.extra", "model_card.md")
SCHEMA_VERSION = 1
PACKAGES = ("keras-attention-layers", "keras", "tensorflow", "tensorflow-text")


def beginning(name, kind, model, tokenizers, meanings, *, options, xla, run) -> dict:
    """Returns what is known of a model before it is written.

    Args:
        name: Name of the model.
        kind: What it is, `"translator"` say.
        model: The Keras model.
        tokenizers: Dict of tokenizers by the input that they read.
        meanings: Dict, signature -> {"meaning", "inputs", "outputs"}, the last two dicts of a
            line each.
        options: Dict of what was fixed at export.
        xla: None, or the dict of a `Compilation`.
        run: Settings of the run, or None.

    Returns:
        Dict that JSON can hold.
    """
    variables = [variable.value for variable in model.variables]
    return {
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "kind": kind,
        "model": model.name,
        "parameters": {
            "count": sum(variable.shape.num_elements() for variable in variables),
            "bytes": sum(v.shape.num_elements() * v.dtype.size for v in variables),
        },
        "signatures": meanings,
        "tokenizers": {key: _tokenizer(value) for key, value in sorted(tokenizers.items())},
        "options": {key: _option(value) for key, value in options.items()},
        "xla": xla,
        "versions": {package: _version(package) for package in PACKAGES},
        "run": without_paths(run),
    }


def complete(card: dict, directory: str | os.PathLike, requests) -> dict:
    """Returns `card` with the dtypes and shapes of what was saved in `directory`.

    Args:
        card: What `beginning` returned.
        directory: Of the version, with its SavedModel in it.
        requests: The warm-up requests.
    """
    signatures = {}
    for name, saved in sorted(read_graph(directory).signature_def.items()):
        if name not in card["signatures"]:
            continue
        told = card["signatures"][name]
        signatures[name] = {
            "meaning": told["meaning"],
            "inputs": _tensors(saved.inputs, told["inputs"]),
            "outputs": _tensors(saved.outputs, told["outputs"]),
        }
    return card | {"signatures": signatures, "warmup_requests": len(requests)}


def write(directory: str | os.PathLike, card: dict) -> None:
    """Writes both forms of a complete card into the version in `directory`."""
    directory = pathlib.Path(directory)
    (directory / JSON_FILE).parent.mkdir(exist_ok=True)
    text = json.dumps(card, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    (directory / JSON_FILE).write_text(text, encoding="utf-8")
    (directory / MARKDOWN_FILE).write_text(markdown(card), encoding="utf-8")


def read(directory: str | os.PathLike) -> dict | None:
    """Returns the card of the version in `directory`, None if it has none.

    Raises:
        ValueError: If the file is not a card.
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
        raise ValueError(f"its `parameters` are expected to be an object. Received: {parameters!r}")
    return card


def markdown(card: dict) -> str:
    """Returns a complete card as Markdown."""
    parameters = card["parameters"]
    lines = [f"# {card['name']}", ""]
    lines.append(
        f"A {card['kind']}, Keras model `{card['model']}`: {parameters['count']:,} parameters, "
        f"{parameters['bytes'] / 1e6:.1f} MB."
    )
    for name, signature in card["signatures"].items():
        lines += ["", f"## `{name}`", "", signature["meaning"], ""]
        lines += ["| | tensor | dtype | shape | meaning |", "|---|---|---|---|---|"]
        for side in ("inputs", "outputs"):
            for key, tensor in signature[side].items():
                cells = (side[:-1], f"`{key}`", tensor["dtype"], _shape(tensor), tensor["meaning"])
                lines.append("| " + " | ".join(cells) + " |")
    for title, key in (("Tokenizers", "tokenizers"), ("Fixed at export", "options")):
        lines += _listed(title, card[key])
    if card["xla"]:
        lines += ["", "## XLA", "", XLA.format(**card["xla"])]
    lines += _listed("Written with", card["versions"])
    lines += _listed("Trained with", card["run"] or {})
    return "\n".join(lines) + "\n"


XLA = """\
The searches are compiled programs for batches of {batch_sizes} rows and sources of
{source_lengths} tokens, which the graph pads to. A server refuses them unless it is started with
`--xla_cpu_compilation_enabled` (`--xla_gpu_compilation_enabled` on a GPU); the warm-up compiles
all of them before the version goes live. Products with weights are computed in {precision}."""


def without_paths(value):
    """Returns settings with every path of a machine cut down to the name of the file."""
    if isinstance(value, dict):
        return {key: without_paths(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(entry) for entry in value]
    if isinstance(value, str):
        return re.sub(r"(?<![\w.])(?:~|\.{1,2})?/(?:[^\s/]+/)+([^\s/]*)", r"\1", value)
    return value


def _listed(title, entries):
    if not entries:
        return []
    return ["", f"## {title}", ""] + [f"- {key}: {_words(v)}" for key, v in entries.items()]


def _words(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(entry)}" for key, entry in value.items())
    return "none" if value is None else str(value)


def _tensors(saved, meanings):
    tensors = {}
    for name in sorted(saved, key=lambda key: (list(meanings).index(key), key)):
        info = saved[name]
        tensors[name] = {
            "dtype": tf.as_dtype(info.dtype).name,
            "shape": [None if d.size < 0 else d.size for d in info.tensor_shape.dim],
            "meaning": meanings[name],
        }
    return tensors


def _shape(tensor):
    batch, *others = ["?" if size is None else str(size) for size in tensor["shape"]]
    return "(" + ", ".join(["batch" if batch == "?" else batch, *others]) + ")"


def _tokenizer(tokenizer):
    told = describe(tokenizer)
    kept = ("kind", "vocabulary_size", "normalization", "lowercase", "special_ids", "sha256")
    return {key: told[key] for key in kept} | {"symbols": len(told["symbols"])}


def _option(value):
    if hasattr(value, "get_config"):
        return {"class": type(value).__name__, **value.get_config()}
    if isinstance(value, tuple):
        return list(value)
    plain = isinstance(value, (int, float, str, list, dict, type(None)))
    return value if plain else {"class": type(value).__name__}


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
