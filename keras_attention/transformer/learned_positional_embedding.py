"""Learned positions, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), table 3, row E.

    output = E[token] + P[pos]                             P: a learned row per position

Code name -> paper name: `positions` -> pos, `table` -> P. Gehring et al. 2017
(https://arxiv.org/abs/1705.03122) do the same, section 3.1.
"""

from typing import Unpack

import keras
import numpy as np
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Size,
    Spec,
    Tensor,
    TensorLike,
)
from keras_attention.transformer._positions import check_positions, compute_input_positions


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedPositionalEmbedding(Layer):
    """Adds a learned vector for each position, so that attention can use their order.

    Use it instead of `PositionalEncoding` if lengths are bounded and there is enough data for
    every position.

    Args:
        max_length: Positive int, the number of positions.
        scale: Whether to multiply the inputs by the root of their width first.
        initializer: Initializer of the table `(max_length, dim)`.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)`, or `(batch, dim)` for a single position.
        position: Optional int `(batch,)`, the position of the (first) vector of each sequence, or
            `(batch, length)`, that of each; by default they are 0, 1, 2, ...

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `max_length` is not a positive int, or a known position lies beyond the
            table. If lengths and positions are unknown, as while tracing, positions beyond the
            table get the vector of the last position.

    Masking: propagates the mask of its input.

    Example:

    >>> layer = LearnedPositionalEmbedding(max_length=10, initializer="ones")
    >>> keras.ops.convert_to_numpy(layer(keras.ops.zeros((1, 2, 3)))).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.1.
    """

    def __init__(
        self,
        max_length: int,
        scale: bool = False,
        initializer: Initializer = "random_normal",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        owner = "LearnedPositionalEmbedding"
        self.max_length: int = validation.check_positive_int(owner, "max_length", max_length)
        self.scale: bool = bool(scale)
        self.initializer: InitializerFunction = initializers.get(initializer)

    def build(self, inputs_shape: Shape) -> None:
        self._check_shape(inputs_shape)
        self.table: keras.Variable = self.add_weight(
            (self.max_length, inputs_shape[-1]), initializer=self.initializer, name="table"
        )
        self.built = True

    def call(self, inputs: Tensor, position: Tensor | None = None) -> TensorLike:
        self._check_shape(inputs.shape)
        check_positions("LearnedPositionalEmbedding", inputs.shape, position)
        positions = compute_input_positions(inputs, position)
        self._check_max_position(positions)
        table = ops.cast(self.table, inputs.dtype)
        if self.scale:
            inputs = inputs * inputs.shape[-1] ** 0.5
        return inputs + ops.take(table, ops.clip(positions, 0, self.max_length - 1), axis=0)

    def check_length(self, name: str, length: Size) -> None:
        """Raises `ValueError` if a known `length` exceeds the table."""
        if length is not None and length > self.max_length:
            raise ValueError(
                f"LearnedPositionalEmbedding has learned {self.max_length} positions. Pass a "
                f"larger `max_length`, or truncate the sequences. Received: {name}={length}, "
                f"max_length={self.max_length}"
            )

    def _check_shape(self, shape):
        if len(shape) not in (2, 3) or shape[-1] is None:
            raise ValueError(
                "LearnedPositionalEmbedding expects `inputs` of shape (batch, length, dim) or "
                f"(batch, dim). Received: inputs.shape={tuple(shape)}"
            )
        validation.check_built_dims(self, inputs=shape)
        if len(shape) == 3:
            self.check_length("length", shape[1])

    def _check_max_position(self, positions):
        try:
            values = np.asarray(positions)
        except Exception:  # every backend has its own error for a symbolic tensor
            return
        if values.size:
            self.check_length("length", int(values.max()) + 1)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self, inputs_shape: Shape, position_shape: Shape | None = None
    ) -> OutputShape:
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, inputs: Tensor, position: Tensor | None = None) -> Spec:
        check_positions("LearnedPositionalEmbedding", inputs.shape, position)
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "scale": self.scale,
            "initializer": initializers.serialize(self.initializer),
        }
