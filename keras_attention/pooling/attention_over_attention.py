"""Attention over attention, Cui et al. 2017 (https://arxiv.org/abs/1607.04423).

    M(i, j)  = h_doc(i) . h_query(j)                   equation 4
    alpha(j) = softmax_i M(i, j)                       equations 5 and 6, a column per query word
    beta(i)  = softmax_j M(i, j)                       equation 7, a row per document word
    beta_bar = mean_i beta(i)                          equation 8, over real document words
    s        = alpha beta_bar                          equation 9
    P(w)     = sum of s_i over positions i where document_i = w      equation 10

Code name -> paper name: `document` -> h_doc, `query` -> h_query, `weights` -> s. The paper writes
`s = alpha^T beta`; with alpha of shape (document, query) the correct product is `alpha beta_bar`.
"""

from collections.abc import Callable
from typing import Unpack

import keras
from keras import ops

from keras_attention import normalizers, validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.dtypes import at_least_float32, wide_dtype
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.normalizers.base import Normalizer


def attention_over_attention(
    scores: TensorLike,
    document_mask: TensorLike | None,
    query_mask: TensorLike | None,
    normalize: Callable[[Tensor, Tensor | None], TensorLike],
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns s, alpha and beta_bar for pair scores `(batch, document, query)`.

    Args:
        scores: Float tensor `(batch, document, query)`.
        document_mask: Boolean `(batch, document)`.
        query_mask: Boolean `(batch, query)`.
        normalize: Callable `(scores, mask) -> weights` over the last axis.
    """
    pairs = ops.logical_and(query_mask[:, :, None], document_mask[:, None, :])
    alpha = normalize(ops.swapaxes(scores, 1, 2), pairs)  # (batch, query, document)
    pairs = ops.logical_and(document_mask[:, :, None], query_mask[:, None, :])
    beta = normalize(scores, pairs)
    # Documents are long: half precision could neither count nor sum their words.
    lengths = ops.sum(ops.cast(document_mask, wide_dtype(beta.dtype)), axis=1, keepdims=True)
    beta_bar = ops.sum(at_least_float32(beta), axis=1) / ops.maximum(lengths, 1)
    s = ops.einsum("bqd,bq->bd", at_least_float32(alpha), beta_bar)
    return s, ops.swapaxes(alpha, 1, 2), beta_bar


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionOverAttention(Layer):
    """Weights the words of a document by a query whose words are weighted, too.

    Use it to point at answers in a text: each query word attends to the document, and a
    second attention weights the query words. `AttentionSum` converts the weights into
    probabilities of words. The layer has no parameters: project both sides to the same width
    first.

    Args:
        normalizer: A `Normalizer` or its name, for both attentions.

    Call arguments:
        document: Float tensor `(batch, document, dim)`.
        query: Float tensor `(batch, query, dim)`.
        document_mask: Boolean `(batch, document)`, True for words.
        query_mask: Boolean `(batch, query)`.
        return_attention_scores: Whether to return both attentions as well (Keras' name).
        training: Passed to the normalizer.

    Returns:
        Weights s `(batch, document)` that sum to 1 over a document's words, or with
        `return_attention_scores` the triple of s, alpha `(batch, document, query)` and
        beta_bar `(batch, query)`.

    Raises:
        ValueError: If the tensors do not fit together.

    Masking: uses the masks of document and query. Fully masked documents and queries give zeros.
    The results carry no mask.

    Example:

    >>> attention = AttentionOverAttention()
    >>> document, query = keras.ops.ones((2, 5, 4)), keras.ops.ones((2, 3, 4))
    >>> weights, alpha, beta = attention(document, query, return_attention_scores=True)
    >>> tuple(weights.shape), tuple(alpha.shape), tuple(beta.shape)
    ((2, 5), (2, 5, 3), (2, 3))

    Reference: Cui et al. 2017, https://arxiv.org/abs/1607.04423, section 3.
    """

    def __init__(
        self, normalizer: str | Normalizer | Config = "softmax", **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.normalizer: Normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)

    def build(self, document_shape: Shape, query_shape: Shape) -> None:
        self._check_shapes(document_shape, query_shape)
        if not self.normalizer.built:
            self.normalizer.build((*tuple(document_shape)[:2], tuple(query_shape)[1]))
        self.built = True

    def call(
        self,
        document: Tensor,
        query: Tensor,
        document_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        document_mask, query_mask = self._check_masks(document, query, document_mask, query_mask)
        document, document_mask = _mask_tokens(document, document_mask)
        query, query_mask = _mask_tokens(query, query_mask)
        results = attention_over_attention(
            ops.einsum("bdh,bqh->bdq", document, query),
            document_mask,
            query_mask,
            lambda scores, mask: self.normalizer(scores, mask=mask, training=training),
        )
        results = tuple(ops.cast(result, self.compute_dtype) for result in results)
        return results if return_attention_scores else results[0]

    def _check_masks(self, document, query, document_mask, query_mask):
        """Returns both masks as booleans, after checking the shapes."""
        self._check_shapes(document.shape, query.shape)
        owner = "AttentionOverAttention"
        given = (("document", document_mask, document), ("query", query_mask, query))
        return [
            validation.fit_mask(owner, f"{name}_mask", mask, tensor, f"(batch, {name})")
            for name, mask, tensor in given
        ]

    def _check_shapes(self, document_shape, query_shape):
        owner = "AttentionOverAttention"
        shapes = {"document": document_shape, "query": query_shape}
        for name, shape in shapes.items():
            validation.check_axes(owner, name, shape, f"(batch, {name}, dim)")
        validation.check_same_size(owner, 0, **shapes)
        hint = "Project one of them with `keras.layers.Dense`."
        validation.check_same_size(owner, 2, hint, **shapes)

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def compute_output_shape(self, document_shape: Shape, query_shape: Shape) -> OutputShape:
        self._check_shapes(document_shape, query_shape)
        return tuple(document_shape)[:2]

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_masks(call.document, call.query, call.document_mask, call.query_mask)
        rows, columns = tuple(call.document.shape[:2]), call.query.shape[1]
        shapes = rows, (*rows, columns), (rows[0], columns)
        results = tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)
        return results if call.return_attention_scores else results[0]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
        }


def _mask_tokens(tensor, mask):
    """Returns the tensor with 0 for masked tokens, and the mask, which may be None, as a tensor."""
    if mask is None:
        return tensor, ops.ones(get_shape(tensor)[:2], dtype="bool")
    return zero_masked(tensor, mask), mask
