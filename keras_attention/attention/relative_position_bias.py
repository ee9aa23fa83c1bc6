"""Learned biases for relative positions, Raffel et al. 2020 (https://arxiv.org/abs/1910.10683).

    score(q_i, k_j) + b_h(bucket(j - i))                                    section 2.1

Code name -> paper name: `num_buckets` -> the number of embeddings, `max_distance` -> the offset
beyond which all share one. Near distances have a bucket each, farther ones share buckets that grow
with the logarithm of the distance; the numbers are those of the authors' code:

    bucket(d) = d                                                           d < n
    bucket(d) = n + floor(n log(d / n) / log(max_distance / n)), at most 2 n - 1         else

n is half of the buckets. A layer that reads in both directions has half of its buckets for keys
behind the query and half for those ahead.
"""

from typing import Unpack

import keras
import numpy as np
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
    Spec,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.attention._request import AttentionRequest


def bucket_distances(num_buckets: int, max_distance: int) -> np.ndarray:
    """Returns the bucket of each distance, int32 `(max_distance + 1,)`.

    Example:

    >>> bucket_distances(num_buckets=6, max_distance=12).tolist()
    [0, 1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 5]
    """
    exact = num_buckets // 2
    distances = np.arange(max_distance + 1)
    ratio = np.log(np.maximum(distances, exact) / exact) / np.log(max_distance / exact)
    # A distance on the border of two buckets belongs to the farther one, whatever the rounding.
    far = exact + np.floor(ratio * (num_buckets - exact) + 1e-9).astype("int32")
    buckets = np.where(distances < exact, distances, np.minimum(far, num_buckets - 1))
    return buckets.astype("int32")


@keras.saving.register_keras_serializable(package="keras_attention")
class RelativePositionBias(Layer):
    """Makes the `attention_bias` of T5: a learned number for each head and relative position.

    Pass its result to `MultiHeadAttention`. One layer may serve all layers of a stack, as in T5.
    Scores then depend on distances alone, so sequences may be longer than those of training.

    Args:
        num_heads: Positive int, the heads of the attention.
        num_buckets: Int of at least 4, even if `bidirectional`: the distances told apart.
        max_distance: Int above the number of distances with a bucket each, half of the buckets (a
            quarter if `bidirectional`). All distances from it on share a bucket.
        bidirectional: Whether queries attend to later keys. False is for causal attention: all
            later keys share the bucket of distance 0.
        initializer: Initializer of the biases, `(num_buckets, num_heads)`.

    Call arguments:
        query: Tensor `(batch, query, ...)`; only its length is used.
        key: Tensor `(batch, key, ...)`; only its length is used. Its positions are 0, 1, 2, ...
        position_offset: Optional int `(batch,)`, the position of the first query, or
            `(batch, query)`, that of each. The default positions are 0, 1, 2, ...

    Returns:
        The bias `(1 or batch, num_heads, query, key)` in the compute dtype; the first axis is 1
        without `position_offset`.

    Raises:
        ValueError: If a size is out of range, or a tensor has no axis of positions.

    Masking: ignores masks and propagates none; attention applies them.

    Example:

    >>> from keras_attention import MultiHeadAttention
    >>> states = keras.ops.ones((2, 5, 8))
    >>> bias = RelativePositionBias(num_heads=4)(states, states)
    >>> tuple(bias.shape)
    (1, 4, 5, 5)
    >>> tuple(MultiHeadAttention(4, key_dim=2)(states, states, attention_bias=bias).shape)
    (2, 5, 8)

    Reference: Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 2.1.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        initializer: Initializer = "uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        owner = "RelativePositionBias"
        self.num_heads: int = validation.check_positive_int(owner, "num_heads", num_heads)
        self.num_buckets: int = validation.check_int_at_least(owner, "num_buckets", num_buckets, 4)
        self.bidirectional: bool = bool(bidirectional)
        if self.bidirectional and num_buckets % 2:
            raise ValueError(
                f"{owner} has as many buckets for keys behind the query as for those ahead and "
                "expects an even `num_buckets`, or bidirectional=False. "
                f"Received: num_buckets={num_buckets}"
            )
        self._buckets_of_side: int = num_buckets // 2 if self.bidirectional else num_buckets
        self.max_distance: int = validation.check_int_at_least(
            owner, "max_distance", max_distance, self._buckets_of_side // 2 + 1
        )
        self.initializer: InitializerFunction = initializers.get(initializer)

    def build(
        self,
        query_shape: Shape,
        key_shape: Shape,
        position_offset_shape: Shape | None = None,
    ) -> None:
        self._check_shapes(query_shape, key_shape)
        self.biases: keras.Variable = self.add_weight(
            (self.num_buckets, self.num_heads), self.initializer, name="biases"
        )
        self.built = True

    def call(self, query: Tensor, key: Tensor, position_offset: Tensor | None = None) -> TensorLike:
        self._check_shapes(query.shape, key.shape)
        positions = AttentionRequest(position=position_offset).positions(get_shape(query)[1])
        ahead = ops.arange(get_shape(key)[1], dtype="int32") - positions[:, :, None]
        distances = ops.abs(ahead) if self.bidirectional else ops.maximum(-ahead, 0)
        table = ops.convert_to_tensor(bucket_distances(self._buckets_of_side, self.max_distance))
        buckets = ops.take(table, ops.minimum(distances, self.max_distance), axis=0)
        if self.bidirectional:
            buckets = buckets + self._buckets_of_side * ops.cast(ahead > 0, "int32")
        biases = ops.convert_to_tensor(self.biases, dtype=self.compute_dtype)
        return ops.transpose(ops.take(biases, buckets, axis=0), (0, 3, 1, 2))

    def _check_shapes(self, query_shape, key_shape):
        for name, shape in (("query", query_shape), ("key", key_shape)):
            if len(shape) < 2:
                raise ValueError(
                    f"RelativePositionBias expects `{name}` of shape (batch, {name}, ...). "
                    f"Received: {name}.shape={tuple(shape)}"
                )
        validation.check_same_size("RelativePositionBias", 0, query=query_shape, key=key_shape)

    def compute_mask(self, query: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(
        self,
        query_shape: Shape,
        key_shape: Shape,
        position_offset_shape: Shape | None = None,
    ) -> OutputShape:
        self._check_shapes(query_shape, key_shape)
        batch = 1 if position_offset_shape is None else position_offset_shape[0]
        return (batch, self.num_heads, query_shape[1], key_shape[1])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        offset_shape = None if call.position_offset is None else call.position_offset.shape
        shape = self.compute_output_shape(call.query.shape, call.key.shape, offset_shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        names = ("num_heads", "num_buckets", "max_distance", "bidirectional")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "initializer": initializers.serialize(self.initializer),
        }
