"""Exports any functional Keras model as a SavedModel version."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_attention import validation
from keras_attention.export import _model_card
from keras_attention.export._tf_functions import append_eos, make_signature
from keras_attention.export._type_aliases import JSONValue
from keras_attention.export._version_writer import (
    ServedModule,
    VersionContents,
    resolve_model_name,
    write_version,
)
from keras_attention.export._warmup_requests import (
    WARMUP_BATCH_SIZES,
    WarmupRequest,
    make_text_of_length,
)
from keras_attention.export.tokenizers import Tokenizer

OWNER = "export_model"
TYPICAL_SIZE = 16  # size of an unknown dimension in warm-up requests


@dataclasses.dataclass(frozen=True)
class TextInput:
    """Replaces an input of ids with an input of text.

    Args:
        tokenizer: A `Tokenizer`.
        max_length: Positive int, the maximum number of ids, EOS included; longer texts are
            truncated. None for no limit.
        add_eos: Whether EOS, id 3, is appended to the ids, as in translators.

    Raises:
        ValueError: If `tokenizer` is not a `Tokenizer` or `max_length` is not positive.
    """

    tokenizer: Tokenizer
    max_length: int | None = 512
    add_eos: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tokenizer, Tokenizer):
            raise ValueError(
                "TextInput expects a tokenizer of keras_attention.export.tokenizers. "
                f"Received: tokenizer={type(self.tokenizer).__name__}"
            )
        if self.max_length is not None:
            validation.check_positive_int("TextInput", "max_length", self.max_length)

    def encode_padded(self, text: tf.Tensor, static_width: int | None) -> tf.Tensor:
        """Returns the ids of texts `(batch,)`, padded with 0.

        Args:
            text: String tensor of shape `(batch,)`.
            static_width: The number of ids of every text, or None for that of the longest text.

        Returns:
            Int tensor of shape `(batch, length)`.
        """
        limits = [limit for limit in (self.max_length, static_width) if limit is not None]
        limit = min(limits) - self.add_eos if limits else None
        ids, length = self.tokenizer.encode(text, limit)
        if self.add_eos:
            ids = append_eos(ids, length)
        # A model reads at least one position, even if it is padding.
        width = static_width or tf.maximum(tf.shape(ids)[1], 1)
        return tf.pad(ids, [[0, 0], [0, width - tf.shape(ids)[1]]])


def export_model(
    model: keras.Model,
    directory: str | os.PathLike[str],
    *,
    tokenizers: Mapping[str, Tokenizer | TextInput] | None = None,
    version: int | None = None,
    name: str | None = None,
    examples: Mapping[str, npt.ArrayLike] | None = None,
    descriptions: Mapping[str, str] | None = None,
    run: Mapping[str, JSONValue] | None = None,
) -> pathlib.Path:
    """Writes a functional Keras model as a SavedModel version for TensorFlow Serving.

    Use it for models that are not translators, such as classifiers, document readers, captioners
    and Neural Turing Machines. The only signature, `serving_default`, has the model's inputs and
    outputs under their names. A model that returns a dict names its outputs, attention weights
    included. Integers and booleans become int32, strings stay strings, all others become float32.
    Like `export_translator`, the function writes the version into a temporary folder, checks it,
    runs its warm-up requests once, and renames it.

    Args:
        model: A functional `keras.Model`. Dimension 0 of every input and output is the batch.
        directory: Base directory of the model. The version becomes a folder in it.
        tokenizers: None, or a dict of the inputs to read from text: `{"words": tokenizer}`, or
            a `TextInput` for different limits. Ids `(batch, length)` become texts `(batch,)`; ids
            `(batch, sentences, length)` become texts `(batch, sentences)`, where `""` is padding.
        version: Positive int; None for the highest existing version plus 1.
        name: Name of the model in a server; None for the name of `directory`.
        examples: None, or a dict with an array for each input, for the warm-up requests. An
            array has the shape of a request and at least one example. By default numbers are 0,
            texts are words of the tokenizer or, without one, empty, and unknown dimensions have
            size 16.
        descriptions: None, or a dict of one line for each input and output, for the model card.
        run: Settings of the training run, for the model card; paths are shortened to file names.

    Returns:
        The path of the version, `<directory>/<version>`.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If `model` is not functional, an argument names an unknown input or output,
            or `validate_export` reports a problem.

    Example:

    >>> import keras, tempfile
    >>> from keras_attention.export import export_model
    >>> inputs = keras.Input((None, 3), name="frames")
    >>> pooled = keras.layers.GlobalMaxPooling1D(name="pooled")(inputs)
    >>> model = keras.Model({"frames": inputs}, {"pooled": pooled})
    >>> export_model(model, tempfile.mkdtemp()).name
    '1'

    Reference: TensorFlow Serving, https://www.tensorflow.org/tfx/serving.
    """
    if version is not None:
        validation.check_positive_int(OWNER, "version", version)
    name = resolve_model_name(OWNER, name, directory)
    inputs, outputs = _name_tensors(model)
    text_inputs = _make_text_inputs(tokenizers or {}, inputs)
    specs = [_make_spec(key, tensor, key in text_inputs) for key, tensor in inputs.items()]
    unknown = sorted(set(descriptions or {}) - set(inputs) - set(outputs))
    if unknown:
        raise ValueError(
            f"{OWNER} expects `descriptions` of inputs and outputs, {sorted([*inputs, *outputs])}. "
            f"Received: descriptions of {', '.join(unknown)}"
        )

    def call_model(*values):
        feeds = dict(zip(inputs, values, strict=True))
        for key, text_input in text_inputs.items():
            feeds[key] = _encode_input(text_input, feeds[key], inputs[key].shape)
        feeds = {key: tf.cast(value, inputs[key].dtype) for key, value in feeds.items()}
        arguments = keras.tree.pack_sequence_as(model.input, list(feeds.values()))
        return _cast_outputs(keras.tree.flatten(model(arguments, training=False)), outputs)

    functions = {"serving_default": make_signature(call_model, *specs)}
    used_tokenizers = {key: text_input.tokenizer for key, text_input in text_inputs.items()}
    signature_description = {
        "description": "The outputs of the model for its inputs.",
        "inputs": {key: (descriptions or {}).get(key, "") for key in inputs},
        "outputs": {key: (descriptions or {}).get(key, "") for key in outputs},
    }
    options = {
        key: {"max_length": text_input.max_length, "add_eos": text_input.add_eos}
        for key, text_input in text_inputs.items()
    }
    card = _model_card.draft_card(
        name,
        "model",
        model,
        used_tokenizers,
        {"serving_default": signature_description},
        options=options,
        xla=None,
        run=run,
    )
    contents = VersionContents(
        ServedModule(
            "model", [variable.value for variable in model.variables], used_tokenizers, functions
        ),
        functions,
        card,
        _make_requests(specs, text_inputs, examples),
    )
    return write_version(OWNER, contents, directory, version)


def _name_tensors(model):
    """Returns dicts of the inputs and of the outputs of a functional model, by name."""
    if not isinstance(model, keras.Model) or not hasattr(model, "output_names"):
        raise ValueError(
            f"{OWNER} expects `model` to be a functional keras.Model; wrap any other model, "
            "keras.Model(inputs, model(inputs)). "
            f"Received: model of type {type(model).__name__}"
        )
    inputs = _key_by_name("inputs", model.input, model.inputs, [t.name for t in model.inputs])
    outputs = _key_by_name("outputs", model.output, model.outputs, model.output_names)
    for key, tensor in (*inputs.items(), *outputs.items()):
        if len(tensor.shape) < 1 or tensor.shape[0] is not None:
            raise ValueError(
                f"{OWNER} expects dimension 0 of every input and output to be the batch, of "
                f"unknown size. Received: {key} of shape {tuple(tensor.shape)}"
            )
    return inputs, outputs


def _key_by_name(side, structure, tensors, names):
    """Returns tensors keyed by the model's own dict keys if it has them, else by Keras's names."""
    if isinstance(structure, dict) and len(structure) == len(tensors):
        # Flatten the keys as Keras flattens the values, so that the orders match.
        names = keras.tree.flatten({key: key for key in structure})
    if len(set(names)) < len(names):
        raise ValueError(
            f"{OWNER} expects {side} with different names; give the model a dict of them. "
            f"Received: {side} named {', '.join(names)}"
        )
    return dict(zip(names, tensors, strict=True))


def _make_text_inputs(tokenizers, inputs):
    unknown = sorted(set(tokenizers) - set(inputs))
    if unknown:
        raise ValueError(
            f"{OWNER} expects `tokenizers` for the inputs {', '.join(inputs)}. "
            f"Received: tokenizers for {', '.join(unknown)}"
        )
    text_inputs = {
        key: value if isinstance(value, TextInput) else TextInput(value)
        for key, value in tokenizers.items()
    }
    for key in text_inputs:
        if len(inputs[key].shape) not in (2, 3):
            raise ValueError(
                f"{OWNER} expects an input with a tokenizer to have the shape (batch, length) or "
                f"(batch, sentences, length). Received: {key} of shape {tuple(inputs[key].shape)}"
            )
    return text_inputs


def _make_spec(key, tensor, is_text):
    if is_text:
        return tf.TensorSpec(tensor.shape[:-1], tf.string, name=key)
    return tf.TensorSpec(tensor.shape, _get_served_dtype(tensor), name=key)


def _get_served_dtype(tensor):
    """Returns int32, float32 or string, as which a request or an answer holds a tensor."""
    dtype = tf.as_dtype(tensor.dtype)
    if dtype == tf.string:
        return dtype
    return tf.float32 if dtype.is_floating else tf.int32


def _encode_input(text_input, text, shape):
    if len(shape) == 2:
        return text_input.encode_padded(text, shape[-1])
    # (batch, sentences): encode every sentence as an example; empty ones get no EOS.
    flat = tf.reshape(text, [-1])
    ids = text_input.encode_padded(flat, shape[-1])
    ids = tf.where((flat == "")[:, None], 0, ids)
    return tf.reshape(ids, tf.concat([tf.shape(text), tf.shape(ids)[1:]], axis=0))


def _cast_outputs(values, outputs):
    """Returns the outputs by name, as int32, float32 or string."""
    return {
        key: tf.ensure_shape(tf.cast(value, _get_served_dtype(tensor)), tensor.shape)
        for (key, tensor), value in zip(outputs.items(), values, strict=True)
    }


def _make_requests(specs, text_inputs, examples):
    if examples is None:
        rows = {spec.name: _make_example(spec, text_inputs.get(spec.name)) for spec in specs}
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
                f"{OWNER} expects `examples` with at least one example of every input. "
                f"Received: no example of {', '.join(empty)}"
            )
    return [
        WarmupRequest(
            "serving_default", {key: np.repeat(row, n, axis=0) for key, row in rows.items()}
        )
        for n in WARMUP_BATCH_SIZES
    ]


def _make_example(spec, text_input):
    shape = [1, *(TYPICAL_SIZE if size is None else size for size in spec.shape[1:])]
    if text_input is None:
        return np.full(shape, b"" if spec.dtype == tf.string else 0, spec.dtype.as_numpy_dtype)
    length = min(TYPICAL_SIZE, text_input.max_length or TYPICAL_SIZE)
    return np.full(shape, make_text_of_length(text_input.tokenizer, length).encode(), object)
