"""Sinusoidal positions, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.5.

    PE(pos, 2i)     = sin(pos / 10000^(2i / d))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i / d)),   0 <= i < d/2
    output          = sqrt(d) E[token] + PE                      the factor: section 3.4

Code name -> paper name: `positions` -> pos, `dim` -> d_model, `base` -> 10000. Sines and cosines
alternate, as in the paper; some libraries put all sines before all cosines, a different order of
the same columns. PE(pos + k) is PE(pos) with each pair rotated by the angle k / 10000^(2i / d).
"""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Config,
    DType,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Spec,
    Tensor,
    TensorLike,
)
from keras_attention.transformer._positions import check_positions, compute_input_positions


def sinusoids(
    positions: TensorLike, dim: int, base: float = 10000.0, dtype: DType = "float32"
) -> Tensor:
    """Returns the sinusoids of int `positions` of any shape: `(..., dim)`, `dim` even."""
    rates = float(base) ** (-np.arange(0, dim, 2) / dim)
    angles = ops.cast(positions, dtype)[..., None] * ops.cast(rates, dtype)
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return reshape(pairs, (*get_shape(positions), dim))


@keras.saving.register_keras_serializable(package="keras_attention")
class PositionalEncoding(Layer):
    """Adds sines and cosines of the position to vectors, so that attention can use their order.

    Use it after an embedding, in front of a stack of `TransformerEncoderLayer`. It has no weights
    and supports any length.

    Args:
        scale: Whether to multiply the inputs by the root of their width first, as the
            paper does with embeddings.
        base: Number of at least 1; the slowest pair rotates once in about `2 pi base` positions.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)` with an even `dim`, or `(batch, dim)` for a
            single position.
        position: Optional int `(batch,)`, the position of the (first) vector of each sequence, or
            `(batch, length)`, that of each; by default they are 0, 1, 2, ...

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `base` is below 1, or `inputs` has the wrong rank or an odd width.

    Masking: propagates the mask of its input.

    Example:

    >>> encoded = PositionalEncoding()(keras.ops.zeros((1, 2, 4)))
    >>> [round(float(entry), 4) for entry in encoded[0, 1]]
    [0.8415, 0.5403, 0.01, 0.9999]

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.5.
    """

    def __init__(
        self, scale: bool = False, base: float = 10000.0, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.scale: bool = bool(scale)
        self.base: float = validation.check_number_in_range(
            "PositionalEncoding", "base", base, low=1
        )
        self.built = True

    def call(self, inputs: Tensor, position: Tensor | None = None) -> TensorLike:
        self._check_shape(inputs.shape)
        check_positions("PositionalEncoding", inputs.shape, position)
        dim, dtype = inputs.shape[-1], wide_dtype(inputs.dtype)
        if self.scale:
            inputs = inputs * dim**0.5
        added = sinusoids(compute_input_positions(inputs, position), dim, self.base, dtype)
        return inputs + ops.cast(added, inputs.dtype)

    def _check_shape(self, shape):
        if len(shape) not in (2, 3) or shape[-1] is None or shape[-1] % 2:
            raise ValueError(
                "PositionalEncoding expects `inputs` of shape (batch, length, dim) or (batch, dim) "
                "with an even width, because sines and cosines alternate. "
                f"Received: inputs.shape={tuple(shape)}"
            )

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self, inputs_shape: Shape, position_shape: Shape | None = None
    ) -> OutputShape:
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, inputs: Tensor, position: Tensor | None = None) -> Spec:
        check_positions("PositionalEncoding", inputs.shape, position)
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "scale": self.scale, "base": self.base}
