"""Learned positions, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), table 3, row E.

    output = E[token] + P[pos]                             P: a row a position, learned

Code name -> paper name: `positions` -> pos, `table` -> P. Gehring et al. 2017
(https://arxiv.org/abs/1705.03122) do the same, section 3.1.
"""

import keras
import numpy as np
from keras import initializers, ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.transformer.positions import check_positions, positions_of


@keras.saving.register_keras_serializable(package="keras_attention")
class LearnedPositionalEmbedding(Layer):
    """Adds a learned vector for each position, so that attention can tell their order.

    Use it in place of `PositionalEncoding` where lengths are bounded and there is data enough
    for every position.

    Args:
        max_length: Positive int, the number of positions.
        scale: Whether the inputs are multiplied by the root of their width first.
        initializer: Initializer of the table `(max_length, dim)`.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)`, or `(batch, dim)`, one position of each row.
        position: Optional int `(batch,)`, the position of the (first) vector of each row, or
            `(batch, length)`, that of each; by default they are 0, 1, 2, ...

    Returns:
        A tensor of the shape of `inputs` in the compute dtype.

    Raises:
        ValueError: If `max_length` is not a positive int, or a position that is known lies
            beyond the table. Where lengths and positions are not known, as while a graph of
            unknown length is traced, what lies beyond gets the vector of the last position.

    Masking: passes the mask of its input on.

    Example:

    >>> layer = LearnedPositionalEmbedding(max_length=10, initializer="ones")
    >>> keras.ops.convert_to_numpy(layer(keras.ops.zeros((1, 2, 3)))).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.1.
    """

    def __init__(self, max_length, scale=False, initializer="random_normal", **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        owner = "LearnedPositionalEmbedding"
        self.max_length = checks.positive_int(owner, "max_length", max_length)
        self.scale = bool(scale)
        self.initializer = initializers.get(initializer)

    def build(self, inputs_shape):
        self._check_shape(inputs_shape)
        self.table = self.add_weight(
            (self.max_length, inputs_shape[-1]), initializer=self.initializer, name="table"
        )
        self.built = True

    def call(self, inputs, position=None):
        self._check_shape(inputs.shape)
        check_positions("LearnedPositionalEmbedding", inputs.shape, position)
        positions = positions_of(inputs, position)
        self._check_reach(positions)
        table = ops.cast(self.table, inputs.dtype)
        if self.scale:
            inputs = inputs * inputs.shape[-1] ** 0.5
        return inputs + ops.take(table, ops.clip(positions, 0, self.max_length - 1), axis=0)

    def check_length(self, name: str, length) -> None:
        """Raises `ValueError` if `length`, where it is known, exceeds the table."""
        if length is not None and length > self.max_length:
            raise ValueError(
                f"LearnedPositionalEmbedding has learned {self.max_length} positions. Give it a "
                f"larger `max_length`, or cut what is longer. Received: {name}={length}, "
                f"max_length={self.max_length}"
            )

    def _check_shape(self, shape):
        if len(shape) not in (2, 3) or shape[-1] is None:
            raise ValueError(
                "LearnedPositionalEmbedding expects `inputs` of shape (batch, length, dim) or "
                f"(batch, dim). Received: inputs.shape={tuple(shape)}"
            )
        if len(shape) == 3:
            self.check_length("length", shape[1])

    def _check_reach(self, positions):
        try:
            values = np.asarray(positions)
        except Exception:  # every backend has its own error for a symbolic tensor
            return
        if values.size:
            self.check_length("length", int(values.max()) + 1)

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, inputs_shape, position_shape=None):
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, inputs, position=None):
        check_positions("LearnedPositionalEmbedding", inputs.shape, position)
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "scale": self.scale,
            "initializer": initializers.serialize(self.initializer),
        }
