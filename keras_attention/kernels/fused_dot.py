"""Dot-product attention in half precision by the fused kernel of a GPU, on JAX.

`keras.ops.dot_product_attention` reaches cuDNN's kernel there, which stores no scores. Rows whose
keys are all masked have context 0, as everywhere in this library.
"""

from typing import TYPE_CHECKING

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.kernels import execution_mode

if TYPE_CHECKING:
    from keras_attention.attention._request import AttentionRequest


def has_fused_kernel(query: TensorLike) -> bool:
    """Returns whether the backend has a kernel for queries `(..., query, dim)` like these."""
    dtype = keras.backend.standardize_dtype(query.dtype)
    is_half = dtype in ("float16", "bfloat16")
    is_one_step = query.shape[-2] == 1
    return (
        is_half
        and not is_one_step
        and keras.backend.backend() == "jax"
        and execution_mode.has_gpu()
    )


def attend_fused(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    scale: float,
    request: "AttentionRequest",
) -> Tensor:
    """Returns the context.

    Args:
        query: Float tensor `(batch, query, dim)` or `(batch, heads, query, dim)`.
        key: Float tensor `(batch, key, dim)` or `(batch, kv_heads, key, dim)`.
        value: Float tensor like `key`.
        scale: Float that multiplies the scores.
        request: The masks; neither a bias nor masks of heads.
    """
    if len(query.shape) == 3:
        tensors = (ops.expand_dims(tensor, 1) for tensor in (query, key, value))
        return ops.squeeze(attend_fused(*tensors, scale, request), 1)
    num_queries, num_keys = get_shape(query)[2], get_shape(key)[2]
    if request.source_mask is not None:  # masked entries may hold anything, NaN included
        key, value = (
            ops.where(request.source_mask[:, None, :, None], tensor, 0) for tensor in (key, value)
        )
    if request.query_mask is not None:
        query = ops.where(request.query_mask[:, None, :, None], query, 0)
    others = (request.source_mask, request.query_mask, request.attention_mask, request.position)
    is_causal = (
        request.use_causal_mask and num_queries == num_keys and all(one is None for one in others)
    )
    mask = None if is_causal else request.mask(num_queries, num_keys)
    context = ops.dot_product_attention(
        *(ops.swapaxes(tensor, 1, 2) for tensor in (query, key, value)),
        mask=None if mask is None else mask[:, None],
        scale=scale,
        is_causal=is_causal,
    )
    attending = request.find_attending_queries(num_queries, num_keys)
    if attending is not None:
        context = ops.where(attending[:, :, None, None], context, 0)
    return ops.swapaxes(context, 1, 2)
