"""Rotary positions, Su et al. 2021 (https://arxiv.org/abs/2104.09864).

    [x'_{2i}, x'_{2i+1}] = R(m theta_i) [x_{2i}, x_{2i+1}]      equations 14 to 16 and 34
    theta_i = base^(-2i / d),  0 <= i < d/2             R(a) rotates a plane by the angle a

Code name -> paper name: `position` -> m, `rates` -> theta_i. After the rotation, the dot product of
a query at m and a key at n depends only on m - n. Pairs are neighbors, as in the paper; with
`interleaved=False` entry i is paired with i + d/2, as in GPT-NeoX and LLaMA, which is a different
order of the same columns.
"""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Spec,
    Tensor,
    TensorLike,
)


def rotate_pairs(
    tensor: TensorLike, positions: TensorLike, base: float = 10000.0, interleaved: bool = True
) -> Tensor:
    """Returns `tensor` with each pair of entries rotated by its position.

    Args:
        tensor: Float tensor `(..., length, dim)`, `dim` even.
        positions: Int tensor that broadcasts to `(..., length)`.
        base: Float, the slowest pair rotates by about 1 / base per position.
        interleaved: Whether pairs are neighbors, or an entry of each half.
    """
    dim = tensor.shape[-1]
    wide = at_least_float32(tensor)
    rates = float(base) ** (-np.arange(0, dim, 2) / dim)
    rates = np.repeat(rates, 2) if interleaved else np.tile(rates, 2)
    angles = ops.cast(positions, wide.dtype)[..., None] * ops.cast(rates, wide.dtype)
    if interleaved:
        pairs = reshape(wide, (*get_shape(tensor)[:-1], dim // 2, 2))
        quarter_turn = ops.stack([-pairs[..., 1], pairs[..., 0]], axis=-1)
        quarter_turn = reshape(quarter_turn, get_shape(tensor))
    else:
        quarter_turn = ops.concatenate([-wide[..., dim // 2 :], wide[..., : dim // 2]], axis=-1)
    # `quarter_turn` is each pair rotated by 90 degrees.
    rotated = wide * ops.cos(angles) + quarter_turn * ops.sin(angles)
    return ops.cast(rotated, tensor.dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class RotaryEmbedding(Layer):
    """Rotates queries and keys by their positions, so that scores depend on relative positions.

    Pass it to `MultiHeadAttention(rotary=RotaryEmbedding())`, which rotates its projected
    queries and keys, or call it yourself before any dot product. It has no weights.

    Args:
        base: Positive number. A larger base slows the slowest rotation, so that positions
            further apart still differ.
        interleaved: Whether the two entries of a pair are neighbors, as in the paper. False pairs
            entry i with i + dim / 2: for weights of models that were trained so.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)` or `(batch, heads, length, dim)` with an
            even `dim`.
        position: Optional int `(batch,)`, the first position of each sequence, or
            `(batch, length)`, all positions; by default they are 0, 1, 2, ...

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `base` is not positive, or `inputs` has the wrong rank or an odd width.

    Masking: propagates the mask of its input.

    Example:

    >>> rotated = RotaryEmbedding()(keras.ops.ones((1, 2, 2)))
    >>> [round(float(entry), 4) for entry in rotated[0, 1]]  # cos 1 - sin 1, cos 1 + sin 1
    [-0.3012, 1.3818]

    Reference: Su et al. 2021, https://arxiv.org/abs/2104.09864, section 3.
    """

    def __init__(
        self, base: float = 10000.0, interleaved: bool = True, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.base: float = validation.check_number_in_range("RotaryEmbedding", "base", base, low=1)
        self.interleaved: bool = bool(interleaved)
        self.built = True

    def call(self, inputs: Tensor, position: Tensor | None = None) -> TensorLike:
        self._check_shape(inputs.shape)
        rank = len(inputs.shape)
        if position is None or len(position.shape) == 1:
            positions = ops.arange(get_shape(inputs)[-2], dtype="int32")[None, :]
            if position is not None:
                positions = positions + ops.cast(position, "int32")[:, None]
        else:
            positions = position
        positions = positions if rank == 3 else positions[:, None, :]
        return rotate_pairs(inputs, positions, self.base, self.interleaved)

    def check_width(self, name: str, width: int) -> None:
        """Raises `ValueError` unless vectors of `width` consist of pairs."""
        if width is None or width % 2:
            raise ValueError(
                f"RotaryEmbedding rotates pairs of entries and expects an even `{name}`. "
                f"Received: {name}={width}"
            )

    def _check_shape(self, shape):
        axes = "(batch, length, dim) or (batch, heads, length, dim)"
        validation.check_axes("RotaryEmbedding", "inputs", shape, axes, known_width=False)
        self.check_width("dim", shape[-1])

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self, inputs_shape: Shape, position_shape: Shape | None = None
    ) -> OutputShape:
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, inputs: Tensor, position: Tensor | None = None) -> Spec:
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "base": self.base, "interleaved": self.interleaved}
