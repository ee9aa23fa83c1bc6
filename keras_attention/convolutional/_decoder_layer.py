"""A layer of the decoder of ConvS2S: a causal convolution that attends to the source.

    "code"   y, a = attention(GLU(conv(h)), g)       h' = (y + h) sqrt(1/2)
    "paper"  h', a = attention((GLU(conv(h)) + h) sqrt(1/2), g)

Code name -> paper name: `hidden` -> h, `outputs` -> y, `target` -> g, `weights` -> a.
"""

from typing import Unpack

import keras

from keras_attention._utils.flat_beams import flatten_beams, unflatten_beams
from keras_attention._utils.recomputation import Recomputable
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import LayerOptions, Tensor, TensorDict, TensorLike
from keras_attention.attention.multi_step import MultiStepAttention
from keras_attention.convolutional.gated_conv_block import GatedConvBlock, scaled_normal


class ConvDecoderLayer(Recomputable, keras.layers.Layer):
    """A causal `GatedConvBlock` around a `MultiStepAttention`; a part of `ConvDecoder`.

    Args:
        units: Positive int, the width of its outputs.
        kernel_size: Positive int.
        attends: Whether the layer attends to the source.
        scaling: "code" or "paper".
        dropout: Float in [0, 1), the rate for the input of the convolution.
        weight_normalization: Whether kernels are parametrized by length and direction.
        seed: Optional int, the seed of the dropout.
    """

    def __init__(
        self,
        units: int,
        kernel_size: int,
        attends: bool,
        scaling: str,
        dropout: float,
        weight_normalization: bool,
        seed: int | None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
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

    def build(self, hidden_dim: int, embedding_dim: int) -> None:
        self.block.build((None, None, hidden_dim))
        if self.attention is not None:
            embedded = (None, None, embedding_dim)
            query = (None, None, self.block.units)
            self.attention.build(query, embedded, embedded, embedded)
        self.built = True

    def run(
        self,
        hidden: TensorLike,
        target: TensorLike,
        memory: TensorDict,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Runs all positions; returns outputs `(batch, target, units)` and weights or None."""

        def attend(query):
            return self.attention.attend(query, target, memory, training=training)

        return self._combine_attention(attend, self.block.convolve(hidden, training), hidden)

    def step(
        self, hidden: TensorLike, state: TensorDict, target: TensorLike, memory: TensorDict
    ) -> tuple[Tensor, Tensor | None, TensorDict]:
        """Runs one step; returns outputs `(rows, units)`, weights or None, and the new state."""
        gated, state = self.block.convolve_step(hidden, state)

        def attend(query):
            rows, mask = get_shape(query)[0], memory["mask"]
            queries, targets = unflatten_beams(query, mask), unflatten_beams(target, mask)
            results = self.attention.attend(queries, targets, memory)
            return tuple(flatten_beams(result, rows) for result in results)

        return *self._combine_attention(attend, gated, hidden), state

    def _combine_attention(self, attend, outputs, hidden):
        """Returns outputs and weights of the layer, from the outputs of its convolution."""
        if self.attention is None:
            return self.block.add_residual(outputs, hidden), None
        if self.scaling == "paper":
            return attend(self.block.add_residual(outputs, hidden))
        outputs, weights = attend(outputs)
        return self.block.add_residual(outputs, hidden), weights
