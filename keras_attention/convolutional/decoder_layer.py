"""A layer of the decoder of ConvS2S: a causal convolution that attends to the source.

    "code"   y, a = attention(GLU(conv(h)), g)       h' = (y + h) sqrt(1/2)
    "paper"  h', a = attention((GLU(conv(h)) + h) sqrt(1/2), g)

Code name -> paper name: `hidden` -> h, `outputs` -> y, `target` -> g, `weights` -> a.
"""

import keras
from keras import ops

from keras_attention.beams import by_row, by_source
from keras_attention.convolutional.gated_conv import GatedConvBlock, scaled_normal
from keras_attention.mechanisms.multi_step import MultiStepAttention
from keras_attention.recomputation import Recomputable


class ConvDecoderLayer(Recomputable, keras.layers.Layer):
    """A causal `GatedConvBlock` around a `MultiStepAttention`; a part of `ConvDecoder`.

    Args:
        units: Positive int, the width of its outputs.
        kernel_size: Positive int.
        attends: Whether it attends.
        scaling: "code" or "paper".
        dropout: Float in [0, 1), the share dropped from what the convolution reads.
        weight_normalization: Whether kernels are learned as length and direction.
        seed: Optional int, the seed of the dropout.
    """

    def __init__(
        self,
        units,
        kernel_size,
        attends,
        scaling,
        dropout,
        weight_normalization,
        seed,
        **kwargs,
    ):
        super().__init__(**kwargs)
        options = {"weight_normalization": weight_normalization, "dtype": self.dtype_policy}
        self.scaling = scaling
        self.block = GatedConvBlock(
            units, kernel_size, True, dropout, seed=seed, **options, name="block"
        )
        self.attention = None
        if attends:
            self.attention = MultiStepAttention(
                scaling, kernel_initializer=scaled_normal(), **options, name="attention"
            )

    def build(self, hidden_dim, embedding_dim):
        self.block.build((None, None, hidden_dim))
        if self.attention is not None:
            embedded = (None, None, embedding_dim)
            query = (None, None, self.block.units)
            self.attention.build(query, embedded, embedded, embedded)
        self.built = True

    def run(self, hidden, target, memory, training=None):
        """Does all positions; returns outputs `(batch, target, units)` and weights or None."""

        def attend(query):
            return self.attention.attend(query, target, memory, training=training)

        return self._around(attend, self.block.gated(hidden, training), hidden)

    def step(self, hidden, state, target, memory):
        """Does one; returns outputs `(rows, units)`, weights or None, and the block's state."""
        gated, state = self.block.gated_step(hidden, state)

        def attend(query):
            rows, mask = ops.shape(query)[0], memory["mask"]
            queries, targets = by_source(query, mask), by_source(target, mask)
            results = self.attention.attend(queries, targets, memory)
            return tuple(by_row(result, rows) for result in results)

        return *self._around(attend, gated, hidden), state

    def _around(self, attend, outputs, hidden):
        """Returns outputs and weights of the layer, from those of its convolution."""
        if self.attention is None:
            return self.block.residual_sum(outputs, hidden), None
        if self.scaling == "paper":
            return attend(self.block.residual_sum(outputs, hidden))
        outputs, weights = attend(outputs)
        return self.block.residual_sum(outputs, hidden), weights
