"""Any functional Keras model as one SavedModel version: its inputs in, its outputs out."""

import dataclasses
import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_attention import checks
from keras_attention.export import model_card
from keras_attention.export.graphs import end_after, for_any_batch, traced
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.warmup import BATCH_SIZES, Request, text_of_length
from keras_attention.export.writing import Served, Version, checked_name, write_version

OWNER = "export_model"
TYPICAL_SIZE = 16  # of an unknown dimension, in warm-up requests


@dataclasses.dataclass(frozen=True)
class TextInput:
    """How an input of ids is read from text.

    Args:
        tokenizer: A `Tokenizer`.
        max_length: Positive int, ids that are read, the end mark counted; the rest of a longer
            text is cut off. None for no limit.
        end: Whether the end mark, 3, follows the ids, as it does in translators.

    Raises:
        ValueError: If an argument is of another kind.
    """

    tokenizer: Tokenizer
    max_length: int | None = 512
    end: bool = False

    def __post_init__(self):
        if not isinstance(self.tokenizer, Tokenizer):
            raise ValueError(
                "TextInput expects a tokenizer of keras_attention.export.tokenizers. "
                f"Received: tokenizer={type(self.tokenizer).__name__}"
            )
        if self.max_length is not None:
            checks.positive_int("TextInput", "max_length", self.max_length)

    def ids(self, text, columns: int | None):
        """Returns ids `(batch, length)`, padded with 0, or exactly `columns` wide."""
        limits = [limit for limit in (self.max_length, columns) if limit is not None]
        limit = min(limits) - self.end if limits else None
        ids, length = self.tokenizer.encode(text, limit)
        if self.end:
            ids = end_after(ids, length)
        # A model reads at least one position, if only padding.
        width = columns or tf.maximum(tf.shape(ids)[1], 1)
        return tf.pad(ids, [[0, 0], [0, width - tf.shape(ids)[1]]])


def export_model(
    model: keras.Model,
    directory: str | os.PathLike,
    *,
    tokenizers: dict | None = None,
    version: int | None = None,
    name: str | None = None,
    examples: dict | None = None,
    meanings: dict | None = None,
    run: dict | None = None,
) -> pathlib.Path:
    """Writes a functional Keras model as a SavedModel version for a TensorFlow model server.

    For models that are not translators: classifiers, readers, captioners, memory machines. The
    one signature, `serving_default`, has the model's inputs and outputs under their names; give
    a model that returns a dict to name them, attention weights among them. What is whole is
    int32, bool included, text stays text, everything else is float32. The version is written
    beside its name, checked and asked once, and then renamed, as `export_translator` does it.

    Args:
        model: A functional `keras.Model`. Dimension 0 of every input and output is the batch.
        directory: Base directory of the model; the version is a folder in it.
        tokenizers: None, or dict of inputs that are read from text: `{"words": tokenizer}`, or
            a `TextInput` for other limits. An input of ids `(batch, length)` becomes one of
            texts `(batch,)`; one of `(batch, sentences, length)`, of texts
            `(batch, sentences)`, where `""` is padding.
        version: Positive int; None for the one after the highest that is there.
        name: Name of the model in a server; None for the name of `directory`.
        examples: None, or dict of arrays, one an input, for the warm-up: what a request would
            hold, with at least one row. By default zeros, ones of text, 16 wherever a
            dimension is unknown.
        meanings: None, or dict of a line for each input and output, for the model card.
        run: Settings of the training run, for the model card; paths are cut to file names.

    Returns:
        The path of the version, `<directory>/<version>`.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If the model is not such a model, an argument names what it has not got, or
            `validate_export` finds something.

    Example:

    >>> import keras, tempfile
    >>> from keras_attention.export import export_model
    >>> inputs = keras.Input((None, 3), name="frames")
    >>> pooled = keras.layers.GlobalMaxPooling1D(name="pooled")(inputs)
    >>> model = keras.Model({"frames": inputs}, {"pooled": pooled})
    >>> export_model(model, tempfile.mkdtemp()).name
    '1'

    Reference: what a server asks of an export, https://www.tensorflow.org/tfx/serving.
    """
    if version is not None:
        checks.positive_int(OWNER, "version", version)
    name = checked_name(OWNER, name, directory)
    inputs, outputs = _named_tensors(model)
    texts = _text_inputs(tokenizers or {}, inputs)
    specs = [_spec(key, tensor, key in texts) for key, tensor in inputs.items()]
    for key in sorted(set(meanings or {}) - set(inputs) - set(outputs)):
        raise ValueError(
            f"{OWNER} expects `meanings` of inputs and outputs, {sorted([*inputs, *outputs])}. "
            f"Received: a meaning of {key!r}"
        )

    def answer(*values):
        fed = dict(zip(inputs, values, strict=True))
        for key, text in texts.items():
            fed[key] = _ids_of(text, fed[key], inputs[key].shape)
        fed = {key: tf.cast(value, inputs[key].dtype) for key, value in fed.items()}
        arguments = keras.tree.pack_sequence_as(model.input, list(fed.values()))
        return _plain(keras.tree.flatten(model(arguments, training=False)), outputs)

    functions = {"serving_default": traced(lambda *values: for_any_batch(answer, *values), *specs)}
    used = {key: text.tokenizer for key, text in texts.items()}
    told = {
        "meaning": "What the model says of its inputs.",
        "inputs": {key: (meanings or {}).get(key, "") for key in inputs},
        "outputs": {key: (meanings or {}).get(key, "") for key in outputs},
    }
    options = {key: {"max_length": t.max_length, "end": t.end} for key, t in texts.items()}
    card = model_card.beginning(
        name, "model", model, used, {"serving_default": told}, options=options, xla=None, run=run
    )
    contents = Version(
        Served("model", [variable.value for variable in model.variables], used, functions),
        functions,
        card,
        _requests(specs, texts, examples),
    )
    return write_version(OWNER, contents, directory, version)


def _named_tensors(model):
    """The inputs and outputs of a functional model, by name."""
    if not isinstance(model, keras.Model) or not hasattr(model, "output_names"):
        raise ValueError(
            f"{OWNER} expects `model` to be a functional keras.Model; wrap another one, "
            "keras.Model(inputs, model(inputs)). "
            f"Received: model of type {type(model).__name__}"
        )
    inputs = _by_name("inputs", model.input, model.inputs, [t.name for t in model.inputs])
    outputs = _by_name("outputs", model.output, model.outputs, model.output_names)
    for key, tensor in (*inputs.items(), *outputs.items()):
        if len(tensor.shape) < 1 or tensor.shape[0] is not None:
            raise ValueError(
                f"{OWNER} expects every input and output to begin with the batch, of unknown "
                f"size. Received: {key} of shape {tuple(tensor.shape)}"
            )
    return inputs, outputs


def _by_name(side, structure, tensors, names):
    """`tensors` under the keys of a dict, or under the names that Keras has for them."""
    if isinstance(structure, dict) and len(structure) == len(tensors):
        names = keras.tree.flatten({key: key for key in structure})
    if len(set(names)) < len(names):
        raise ValueError(
            f"{OWNER} expects {side} with names of their own; give the model a dict of them. "
            f"Received: {side} named {', '.join(names)}"
        )
    return dict(zip(names, tensors, strict=True))


def _text_inputs(tokenizers, inputs):
    unknown = sorted(set(tokenizers) - set(inputs))
    if unknown:
        raise ValueError(
            f"{OWNER} expects `tokenizers` of the inputs {', '.join(inputs)}. "
            f"Received: tokenizers of {', '.join(unknown)}"
        )
    texts = {
        key: value if isinstance(value, TextInput) else TextInput(value)
        for key, value in tokenizers.items()
    }
    for key in texts:
        if len(inputs[key].shape) not in (2, 3):
            raise ValueError(
                f"{OWNER} expects an input read from text to be of ids, (batch, length) or "
                f"(batch, sentences, length). Received: {key} of shape {tuple(inputs[key].shape)}"
            )
    return texts


def _spec(key, tensor, is_text):
    if is_text:
        return tf.TensorSpec(tensor.shape[:-1], tf.string, name=key)
    whole = not tf.as_dtype(tensor.dtype).is_floating
    return tf.TensorSpec(tensor.shape, tf.int32 if whole else tf.float32, name=key)


def _ids_of(text_input, text, shape):
    if len(shape) == 2:
        return text_input.ids(text, shape[-1])
    # (batch, sentences): each a row of its own, empty ones without an end mark.
    flat = tf.reshape(text, [-1])
    ids = text_input.ids(flat, shape[-1])
    ids = tf.where((flat == "")[:, None], 0, ids)
    return tf.reshape(ids, tf.concat([tf.shape(text), tf.shape(ids)[1:]], axis=0))


def _plain(values, outputs):
    """Named outputs, int32, float32 or text."""
    cast = {}
    for (key, tensor), value in zip(outputs.items(), values, strict=True):
        kind = tf.as_dtype(tensor.dtype)
        if kind != tf.string:
            value = tf.cast(value, tf.float32 if kind.is_floating else tf.int32)
        cast[key] = tf.ensure_shape(value, tensor.shape)
    return cast


def _requests(specs, texts, examples):
    if examples is None:
        rows = {spec.name: _example(spec, texts.get(spec.name)) for spec in specs}
    else:
        names = [spec.name for spec in specs]
        if set(examples) != set(names):
            raise ValueError(
                f"{OWNER} expects `examples` for the inputs {', '.join(names)}. "
                f"Received: {', '.join(sorted(examples))}"
            )
        rows = {
            spec.name: np.asarray(examples[spec.name])[:1].astype(spec.dtype.as_numpy_dtype)
            for spec in specs
        }
        empty = [name for name, row in rows.items() if not len(row)]
        if empty:
            raise ValueError(
                f"{OWNER} expects `examples` with at least one row of every input. "
                f"Received: no row of {', '.join(empty)}"
            )
    return [
        Request("serving_default", {key: np.repeat(row, n, axis=0) for key, row in rows.items()})
        for n in BATCH_SIZES
    ]


def _example(spec, text):
    shape = [1, *(TYPICAL_SIZE if size is None else size for size in spec.shape[1:])]
    if text is None:
        return np.zeros(shape, spec.dtype.as_numpy_dtype)
    limit = min(TYPICAL_SIZE, text.max_length or TYPICAL_SIZE)
    return np.full(shape, text_of_length(text.tokenizer, limit).encode(), object)
