"""Learned vectors for relative positions, Shaw et al. 2018 (https://arxiv.org/abs/1803.02155).

    e_ij = x_i W^Q (x_j W^K + a^K_ij)^T / sqrt(d_z)                           equation 4
    z_i  = sum_j alpha_ij (x_j W^V + a^V_ij)                                  equation 3
    a_ij = w_clip(j - i, k),  clip(x, k) = max(-k, min(k, x))                 section 3.2

Code name -> paper name: `max_distance` -> k, `table` -> w^K or w^V, `query` -> x_i W^Q / sqrt(d_z),
`weights` -> alpha. The paper adds vectors of width d_z for all pairs of positions. Here

    q_i . a^K_ij = p_i,clip(j - i)          p_id = q_i . w^K_d
    sum_j alpha_ij a^V_ij = sum_d s_id w^V_d    s_id = sum of alpha_ij over j with clip(j - i) = d

so that no vector belongs to a pair.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.shapes import get_shape
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
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.attention._request import AttentionRequest
from keras_attention.kernels.matmul_precision import kernel_matmul


def gather_by_distance(
    products: TensorLike, positions: TensorLike, num_keys: Size, max_distance: int
) -> Tensor:
    """Returns, for each query and key, the product of the query with the vector of their distance.

    Args:
        products: Float tensor `(batch, heads, query, 2 * max_distance + 1)`.
        positions: Int tensor `(1 or batch, query)`, the position of each query.
        num_keys: Int or int tensor; the positions of the keys are 0, 1, 2, ...
        max_distance: Positive int.

    Returns:
        Tensor `(batch, heads, query, key)`.
    """
    ahead = ops.arange(num_keys, dtype="int32") - positions[:, None, :, None]
    distances = ops.clip(ahead, -max_distance, max_distance) + max_distance
    return ops.take_along_axis(products, distances, axis=-1)


def sum_by_distance(weights: TensorLike, positions: TensorLike, max_distance: int) -> Tensor:
    """Returns the sum of each query's weights over the keys of each clipped distance.

    Args:
        weights: Float tensor `(batch, heads, query, key)`.
        positions: As in `gather_by_distance`.
        max_distance: Positive int.

    Returns:
        Tensor `(batch, heads, query, 2 * max_distance + 1)`.
    """
    num_keys, positions = get_shape(weights)[-1], positions[:, None, :, None]
    # Only the outermost distances have several keys; any other has one, or none.
    keys = positions + ops.arange(1 - max_distance, max_distance, dtype="int32")
    inside = ops.logical_and(keys >= 0, keys < num_keys)
    near = ops.take_along_axis(weights, ops.clip(keys, 0, num_keys - 1), axis=-1)
    ahead = ops.arange(num_keys, dtype="int32") - positions
    behind, beyond = (
        ops.sum(ops.where(is_far, weights, 0), axis=-1, keepdims=True)
        for is_far in (ahead <= -max_distance, ahead >= max_distance)
    )
    return ops.concatenate([behind, ops.where(inside, near, 0), beyond], axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class RelativePositionEmbedding(Layer):
    """Compares queries with a learned vector for the distance of each key.

    Use it if a query should select distances by its content; `RelativePositionBias` prefers the
    same ones for all queries. Pass one to `MultiHeadAttention(relative_keys=...)`, another to
    `relative_values=`: they add the vectors to keys and values. All heads share them, as in the
    paper. Or call it and pass the result as `attention_bias` of dot-product attention.

    Args:
        max_distance: Positive int. Keys further away share the vector of this distance, so that
            sequences may be longer than those of training.
        initializer: Initializer of the vectors, `(2 * max_distance + 1, dim)`, from the furthest
            key behind the query to the furthest one ahead.

    Call arguments:
        query: Float tensor `(batch, query, dim)` or `(batch, heads, query, dim)`.
        key: Tensor `(batch, key, ...)`; only its length is used. Its positions are 0, 1, 2, ...
        position_offset: Optional int `(batch,)`, the position of the first query, or
            `(batch, query)`, that of each. The default positions are 0, 1, 2, ...

    Returns:
        The products `(batch, query, key)`, or `(batch, heads, query, key)`, in the compute dtype.

    Raises:
        ValueError: If `max_distance` is not a positive int, or a tensor has the wrong rank.

    Masking: ignores masks and propagates none; attention applies them.

    Example:

    >>> from keras_attention import MultiHeadAttention
    >>> states = keras.ops.ones((2, 5, 8))
    >>> tuple(RelativePositionEmbedding(max_distance=3)(states, states).shape)
    (2, 5, 5)
    >>> attention = MultiHeadAttention(4, 2, relative_keys=RelativePositionEmbedding(3))
    >>> tuple(attention(states, states).shape)
    (2, 5, 8)

    Reference: Shaw et al. 2018, https://arxiv.org/abs/1803.02155, section 3.
    """

    def __init__(
        self,
        max_distance: int = 16,
        initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_distance: int = validation.check_positive_int(
            "RelativePositionEmbedding", "max_distance", max_distance
        )
        self.initializer: InitializerFunction = initializers.get(initializer)

    def build(
        self,
        query_shape: Shape,
        key_shape: Shape,
        position_offset_shape: Shape | None = None,
    ) -> None:
        self._check_shapes(query_shape, key_shape)
        self.build_table(query_shape[-1])

    def build_table(self, dim: int) -> None:
        """Makes the vectors of width `dim`, unless another attention layer has made them."""
        if self.built:
            return
        shape = (2 * self.max_distance + 1, dim)
        self.table: keras.Variable = self.add_weight(shape, self.initializer, name="table")
        self.built = True

    def call(self, query: Tensor, key: Tensor, position_offset: Tensor | None = None) -> TensorLike:
        self._check_shapes(query.shape, key.shape)
        queries = query if len(query.shape) == 4 else ops.expand_dims(query, 1)
        positions = AttentionRequest(position=position_offset).positions(get_shape(queries)[2])
        products = self.score(queries, positions, get_shape(key)[1])
        return products if len(query.shape) == 4 else ops.squeeze(products, 1)

    def score(self, query: TensorLike, positions: TensorLike, num_keys: Size) -> Tensor:
        """Returns the products of queries with the vectors of their distances to all keys.

        Args:
            query: Float tensor `(batch, heads, query, dim)`.
            positions: Int tensor `(1 or batch, query)`, the position of each query.
            num_keys: Int or int tensor; the positions of the keys are 0, 1, 2, ...

        Returns:
            Tensor `(batch, heads, query, key)` in the compute dtype.
        """
        query, table = (ops.cast(one, self.compute_dtype) for one in (query, self.table))
        products = kernel_matmul(query, table, transposed=True)
        return gather_by_distance(products, positions, num_keys, self.max_distance)

    def read(self, weights: TensorLike, positions: TensorLike) -> Tensor:
        """Returns the sum of the vectors of all keys' distances, weighted like their values.

        Args:
            weights: Float tensor `(batch, heads, query, key)`.
            positions: Int tensor `(1 or batch, query)`, the position of each query.

        Returns:
            Tensor `(batch, heads, query, dim)` in the compute dtype.
        """
        weights, table = (ops.cast(one, self.compute_dtype) for one in (weights, self.table))
        return kernel_matmul(sum_by_distance(weights, positions, self.max_distance), table)

    def _check_shapes(self, query_shape, key_shape):
        owner = "RelativePositionEmbedding"
        axes = "(batch, query, dim) or (batch, heads, query, dim)"
        validation.check_axes(owner, "query", query_shape, axes)
        if len(key_shape) < 2:
            raise ValueError(
                f"{owner} expects `key` of shape (batch, key, ...). "
                f"Received: key.shape={tuple(key_shape)}"
            )
        validation.check_same_size(owner, 0, query=query_shape, key=key_shape)
        self.check_width("query.shape[-1]", query_shape[-1])

    def check_width(self, name: str, width: int) -> None:
        """Raises `ValueError` unless the vectors have, or will have, this width."""
        if self.built and self.table.shape[-1] != width:
            raise ValueError(
                f"RelativePositionEmbedding was built with vectors of width {self.table.shape[-1]} "
                f"and fits no other `{name}`. Create a new one. Received: {name}={width}"
            )

    def compute_mask(self, query: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(
        self,
        query_shape: Shape,
        key_shape: Shape,
        position_offset_shape: Shape | None = None,
    ) -> OutputShape:
        self._check_shapes(query_shape, key_shape)
        return (*tuple(query_shape)[:-1], key_shape[1])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        shape = self.compute_output_shape(call.query.shape, call.key.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "initializer": initializers.serialize(self.initializer),
        }
