"""Hierarchical attention, Yang et al. 2016 (https://aclanthology.org/N16-1174).

    h_it = word_encoder(x_i)_t          s_i = sum_t a_it h_it     a_it = softmax_t(u_it . u_w)
    h_i  = sentence_encoder(s)_i        v   = sum_i a_i h_i       a_i  = softmax_i(u_i . u_s)
    u_it = tanh(W_w h_it + b_w)         u_i = tanh(W_s h_i + b_s)               section 2.2

Code name -> paper name: `inputs` -> x_it (embedded words), the result -> v, `word_weights` ->
a_it, `sentence_weights` -> a_i. Words are numbered 1 to T, sentences 1 to L.
"""

import inspect
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.initializers import copy_layer
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
)
from keras_attention.normalizers.base import Normalizer
from keras_attention.pooling.attention_pooling import AttentionPooling


@keras.saving.register_keras_serializable(package="keras_attention")
class HierarchicalAttention(Layer):
    """Encodes a document on two levels: words into sentences, sentences into one vector.

    Use it for documents whose label depends on a few words in a few sentences, which the weights
    show. For a classifier, add a `keras.layers.Dense`. The paper's encoders are
    `keras.layers.Bidirectional(keras.layers.RNN(keras.layers.GRUCell(50),
    return_sequences=True))`. Its GRU and Keras' both apply the reset gate after the product. The
    paper's keeps the old state with `1 - z`, Keras' with `z` (and has a second bias). This does
    not affect training; to copy weights, negate those of the update gate.

    Args:
        units: Positive int, the size of the hidden layers from which weights are computed.
        word_encoder: Layer from `(batch, time, dim)` to `(batch, time, dim')` that runs
            over the words of each sentence; None uses the embedded words.
        sentence_encoder: The same over the sentence vectors of a document.
        normalizer: A `Normalizer` or its name, for both levels.

    Call arguments:
        inputs: Float tensor `(batch, sentences, words, dim)` of embedded words.
        mask: Boolean `(batch, sentences, words)`, True for words. A sentence without a word
            is padding. `Embedding(..., mask_zero=True)` gives this mask.
        inputs_mask: Used if `mask` is None: Keras passes the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Passed to encoders and normalizers.

    Returns:
        Document vectors `(batch, dim)`, or with `return_attention_scores` the triple of
        vectors, word weights `(batch, sentences, words)` and sentence weights
        `(batch, sentences)`.

    Raises:
        ValueError: If `units` is not a positive int, an encoder is not a layer, or `inputs`
            has the wrong rank.

    Masking: uses the mask of its input on both levels. An encoder that takes a `mask` gets one;
    any other sees padding as zeros. A padding sentence has weight 0, and so have its words. The
    result carries no mask.

    Example:

    >>> attention = HierarchicalAttention(units=8)
    >>> words = keras.ops.ones((2, 3, 5, 4))
    >>> vector, word_weights, sentence_weights = attention(words, return_attention_scores=True)
    >>> tuple(vector.shape), tuple(word_weights.shape), tuple(sentence_weights.shape)
    ((2, 4), (2, 3, 5), (2, 3))

    Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, section 2.2.
    """

    def __init__(
        self,
        units: int,
        word_encoder: LayerOrConfig | None = None,
        sentence_encoder: LayerOrConfig | None = None,
        normalizer: str | Normalizer | Config = "softmax",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units: int = validation.check_positive_int("HierarchicalAttention", "units", units)
        self.word_encoder: keras.layers.Layer | None = _resolve_encoder(
            "word_encoder", word_encoder
        )
        self.sentence_encoder: keras.layers.Layer | None = _resolve_encoder(
            "sentence_encoder", sentence_encoder
        )
        self.word_pooling: AttentionPooling = AttentionPooling(
            self.units, normalizer, dtype=self.dtype_policy, name="word_pooling"
        )
        self.normalizer: Normalizer = self.word_pooling.normalizer
        # A separate copy: a normalizer may have weights, and each level learns its own.
        other = copy_layer(self.normalizer, 1)
        self.sentence_pooling: AttentionPooling = AttentionPooling(
            self.units, other, dtype=self.dtype_policy, name="sentence_pooling"
        )

    def build(self, inputs_shape: Shape) -> None:
        self._check_shape(inputs_shape)
        batch, sentences, words, dim = inputs_shape
        shape = _build_encoder(self.word_encoder, (None, words, dim))
        if not self.word_pooling.built:
            self.word_pooling.build(shape)
        shape = _build_encoder(self.sentence_encoder, (batch, sentences, shape[-1]))
        if not self.sentence_pooling.built:
            self.sentence_pooling.build(shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        word_mask = self._check_call(inputs, mask, inputs_mask)
        sentence_mask = None if word_mask is None else ops.any(word_mask, axis=2)
        shape = get_shape(inputs)
        vectors, word_weights = _encode_and_pool(
            ops.reshape(inputs, (-1, *shape[2:])),
            None if word_mask is None else ops.reshape(word_mask, (-1, shape[2])),
            self.word_encoder,
            self.word_pooling,
            training,
        )
        vectors = ops.reshape(vectors, (-1, shape[1], vectors.shape[-1]))
        document, sentence_weights = _encode_and_pool(
            vectors, sentence_mask, self.sentence_encoder, self.sentence_pooling, training
        )
        if not return_attention_scores:
            return document
        return document, ops.reshape(word_weights, shape[:3]), sentence_weights

    def _check_shape(self, shape):
        hint = "Embed the words first, for example with `keras.layers.Embedding`."
        validation.check_inputs(self, shape, "(batch, sentences, words, dim)", hint)

    def _check_call(self, inputs, mask, inputs_mask):
        """Returns the mask of the words, or None, after checking it and the shape."""
        self._check_shape(inputs.shape)
        masks, axes = {"mask": mask, "inputs_mask": inputs_mask}, "(batch, sentences, words)"
        return validation.resolve_mask(self, inputs, axes, **masks)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        self._check_shape(inputs_shape)
        batch, sentences, words, dim = inputs_shape
        dim = _compute_encoded_shape(self.word_encoder, (None, words, dim))[-1]
        return batch, _compute_encoded_shape(self.sentence_encoder, (batch, sentences, dim))[-1]

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_call(call.inputs, call.mask, call.inputs_mask)
        shape = call.inputs.shape
        shapes = self.compute_output_shape(shape), shape[:3], shape[:2]
        results = tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)
        return results if call.return_attention_scores else results[0]

    def get_config(self) -> Config:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "units": self.units,
            "word_encoder": self.word_encoder and serialize(self.word_encoder),
            "sentence_encoder": self.sentence_encoder and serialize(self.sentence_encoder),
            "normalizer": serialize(self.normalizer),
        }


def _encode_and_pool(inputs, mask, encoder, pooling, training):
    """Runs one level: encodes sequences and pools them. Returns vectors and weights."""
    if mask is not None:
        inputs = ops.where(mask[:, :, None], inputs, 0)
    if encoder is not None:
        parameters = inspect.signature(encoder.call).parameters
        options = {"mask": mask, "training": training}
        options = {name: value for name, value in options.items() if name in parameters}
        inputs = encoder(inputs, **options)
    return pooling(inputs, mask=mask, return_attention_scores=True, training=training)


def _resolve_encoder(name, encoder):
    """Returns the encoder for a layer, its saved config or None."""
    if isinstance(encoder, dict):
        encoder = keras.saving.deserialize_keras_object(encoder)
    if encoder is not None and not isinstance(encoder, keras.layers.Layer):
        raise ValueError(
            f"HierarchicalAttention expects `{name}` to be a layer from sequences to sequences, "
            "for example `keras.layers.Bidirectional(keras.layers.RNN(keras.layers.GRUCell(50), "
            f"return_sequences=True))`, or None. Received: {name}={encoder!r}"
        )
    return encoder


def _compute_encoded_shape(encoder, shape):
    return shape if encoder is None else tuple(encoder.compute_output_shape(shape))


def _build_encoder(encoder, shape):
    """Builds the encoder for sequences of `shape` and returns the shape of its outputs."""
    if encoder is not None and not encoder.built:
        encoder.build(shape)
    encoded = _compute_encoded_shape(encoder, shape)
    if len(encoded) != 3:
        raise ValueError(
            "HierarchicalAttention expects encoders that return (batch, time, dim); a recurrent "
            "layer does with `return_sequences=True`. "
            f"Received: {encoder.name} with output shape {encoded}"
        )
    return encoded
