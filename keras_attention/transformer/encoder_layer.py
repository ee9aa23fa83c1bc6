"""The encoder layer of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x = LN(x + drop(MultiHead(x, x, x)))
    x = LN(x + drop(FFN(x)))                                 section 3.1
    restricted: position i reads the positions j with |i - j| <= radius       section 4

Code name -> paper name: `num_heads` -> h, `feed_forward_dim` -> d_ff, `inputs` -> x, `window` ->
the neighborhood of size r = 2 radius + 1. Normalization before each sublayer: `base.py`.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.transformer.base import TransformerLayer, kept


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEncoderLayer(TransformerLayer):
    """Lets every position of a sequence read the others, then transforms each by itself.

    Stack it behind an embedding with positions to encode a sentence. With
    `normalization="pre"` a stack ends in a normalization of its own,
    `keras.layers.LayerNormalization`; with "post" it does not.

    Args:
        num_heads: Positive int that divides the width of the inputs.
        feed_forward_dim: Positive int, the width of the feed-forward net's hidden layer.
        dropout: Float in [0, 1), the share dropped from what each sublayer adds.
        normalization: "post" normalizes after each addition, as the paper; "pre" normalizes
            what enters each sublayer and trains without warm-up.
        activation: Activation of the hidden layer, a name or a callable.
        window: Odd int, the number of positions in the window that a position reads, its
            center included; None reads all.
        rotary: Optional `RotaryPositions`, which turns queries and keys by their positions.
        use_bias: Whether the attention's projections have biases; the paper's have none.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)`.
        mask: Boolean `(batch, length)`, True for positions that read and may be read.
        inputs_mask: Used where `mask` is None: Keras puts the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Whether dropout is applied.

    Returns:
        A tensor of the shape of `inputs`, or the pair of it and the weights
        `(batch, heads, length, length)` if `return_attention_scores`.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not divide the width.

    Masking: reads the mask of its input and passes it on. A masked position gets zeros.

    Example:

    >>> layer = TransformerEncoderLayer(num_heads=2, feed_forward_dim=16)
    >>> outputs, weights = layer(keras.ops.ones((3, 5, 8)), return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((3, 5, 8), (3, 2, 5, 5))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    sublayers = ("attention", "feed_forward")

    def build(self, inputs_shape):
        self.check_inputs(inputs_shape)
        self.build_shared(inputs_shape)
        self.attention = self.make_attention(inputs_shape[-1], "attention", self.rotary)
        self.attention.build(inputs_shape, inputs_shape)
        self.built = True

    def call(
        self,
        inputs,
        mask=None,
        inputs_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        mask = self._mask(inputs, mask, inputs_mask)
        weights = None

        def attend(states):
            nonlocal weights
            context = self.attention(
                states,
                states,
                query_mask=mask,
                value_mask=mask,
                attention_mask=self.near(ops.shape(states)[1]),
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                context, weights = context
            return context

        states = self.residual("attention", kept(inputs, mask), attend, training)
        states = self.residual("feed_forward", states, self.feed_forward, training)
        outputs = kept(states, mask)
        return (outputs, weights) if return_attention_scores else outputs

    def _mask(self, inputs, mask, inputs_mask):
        self.check_inputs(inputs.shape)
        masks = {"mask": mask, "inputs_mask": inputs_mask}
        return checks.own_mask(type(self).__name__, inputs.shape[:2], "(batch, length)", **masks)

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, inputs_shape):
        self.check_inputs(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        inputs_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._mask(inputs, mask, inputs_mask)
        batch, length = inputs.shape[:2]
        outputs = keras.KerasTensor(tuple(inputs.shape), dtype=self.compute_dtype)
        shape = (batch, self.num_heads, length, length)
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (outputs, weights) if return_attention_scores else outputs
