"""Rotary positions, Su et al. 2021 (https://arxiv.org/abs/2104.09864).

    [x'_{2i}, x'_{2i+1}] = R(m theta_i) [x_{2i}, x_{2i+1}]      equations 14 to 16 and 34
    theta_i = base^(-2i / d),  0 <= i < d/2                     R(a) turns a plane by the angle a

Code name -> paper name: `position` -> m, `rates` -> theta_i. Turned so, the dot product of a
query at m and a key at n depends on m - n alone. Pairs are neighbors, as in the paper; some
libraries pair i with i + d/2, another order of the same columns.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.precision import at_least_float32
from keras_attention.shapes import reshape


def rotated(tensor, positions, base=10000.0):
    """Returns `tensor` with each pair of neighboring entries turned by its position.

    Args:
        tensor: Float tensor `(..., length, dim)`, `dim` even.
        positions: Int tensor that broadcasts to `(..., length)`.
        base: Float, the slowest pair turns by about 1 / base a position.
    """
    dim = tensor.shape[-1]
    wide = at_least_float32(tensor)
    rates = np.repeat(float(base) ** (-np.arange(0, dim, 2) / dim), 2)
    angles = ops.cast(positions, wide.dtype)[..., None] * ops.cast(rates, wide.dtype)
    pairs = reshape(wide, (*ops.shape(tensor)[:-1], dim // 2, 2))
    quarter = ops.stack([-pairs[..., 1], pairs[..., 0]], axis=-1)  # each pair turned by 90 degrees
    pairs, quarter = (reshape(part, ops.shape(tensor)) for part in (pairs, quarter))
    turned = pairs * ops.cos(angles) + quarter * ops.sin(angles)
    return ops.cast(turned, tensor.dtype)


@keras.saving.register_keras_serializable(package="keras_attention")
class RotaryPositions(Layer):
    """Turns queries and keys by their positions, so that scores know the distance between them.

    Give it to `MultiHeadAttention(rotary=RotaryPositions())`, which turns its projected
    queries and keys, or call it on your own before any dot product. It has no weights.

    Args:
        base: Positive number; the larger, the slower the slowest pairs turn and the further
            apart two positions may be before their difference repeats.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)` or `(batch, heads, length, dim)` with an
            even `dim`.
        position: Optional int `(batch,)`, the position of the first row, or
            `(batch, length)`, that of each; by default they are 0, 1, 2, ...

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `base` is not positive, or `inputs` has another rank or an odd width.

    Masking: passes the mask of its input on.

    Example:

    >>> turned = RotaryPositions()(keras.ops.ones((1, 2, 2)))
    >>> [round(float(entry), 4) for entry in turned[0, 1]]  # cos 1 - sin 1, cos 1 + sin 1
    [-0.3012, 1.3818]

    Reference: Su et al. 2021, https://arxiv.org/abs/2104.09864, section 3.
    """

    def __init__(self, base=10000.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.base = checks.number_in_range("RotaryPositions", "base", base, low=1)
        self.built = True

    def call(self, inputs, position=None):
        self._check_shape(inputs.shape)
        rank = len(inputs.shape)
        if position is None or len(position.shape) == 1:
            positions = ops.arange(ops.shape(inputs)[-2], dtype="int32")[None, :]
            if position is not None:
                positions = positions + ops.cast(position, "int32")[:, None]
        else:
            positions = position
        return rotated(inputs, positions if rank == 3 else positions[:, None, :], self.base)

    def check_width(self, name: str, width: int) -> None:
        """Raises `ValueError` unless vectors of `width` consist of pairs."""
        if width is None or width % 2:
            raise ValueError(
                f"RotaryPositions turns pairs of entries and expects an even `{name}`. "
                f"Received: {name}={width}"
            )

    def _check_shape(self, shape):
        if len(shape) not in (3, 4):
            raise ValueError(
                "RotaryPositions expects `inputs` of shape (batch, length, dim) or (batch, heads, "
                f"length, dim). Received: inputs.shape={tuple(shape)}"
            )
        self.check_width("dim", shape[-1])

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, inputs_shape, position_shape=None):
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, inputs, position=None):
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "base": self.base}
