"""Multi-step attention of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    d_i = (W_d y_i + b_d + g_i) sqrt(1/2)                                  equation 1
    a_i = softmax_j(d_i . z_j)                                             section 3.3
    c_i = m sqrt(1/m) sum_j a_ij (z_j + e_j) sqrt(1/2)                     equation 2, section 3.5
    y'_i = (y_i + W_o c_i + b_o) sqrt(1/2)

Each decoder layer has one of these between its convolution and its residual sum. m is the number
of unmasked positions of the source, and m sqrt(1/m) is sqrt(m). This is the arithmetic of the code
that the authors released, `scaling="code"`. The text of the paper, `scaling="paper"`, scales the
context by m sqrt(1/m) and residual sums by sqrt(1/2), but none of the three sums above, and takes
y after the residual sum.

Code name -> paper name: `query` -> y (the convolution's output after its gate), `target` -> g
(the embedded target), `key` -> z^u (the encoder's output), `source` -> e (the embedded source),
`weights` -> a, the result -> y'.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import normalizers, validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    DType,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention._request import combine_masks
from keras_attention.core.weight_normalized_dense import make_dense
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.dot import dot_scores
from keras_attention.validation import check_ready

SCALINGS: dict[str, float] = {"code": 0.5**0.5, "paper": 1.0}


def length_scale(mask: TensorLike, dtype: DType) -> Tensor:
    """Returns `m sqrt(1/m)` of each source, `(batch, 1, 1)`: 0 if every position is masked."""
    lengths = ops.sum(ops.cast(mask, wide_dtype(dtype)), axis=1)
    return ops.cast(ops.sqrt(lengths), dtype)[:, None, None]


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiStepAttention(Layer):
    """Attention inside a convolutional decoder layer, with sums scaled to constant variance.

    Use it in a decoder that attends in every layer: the layers above see the contexts that those
    below selected. Its values are keys plus embeddings, so that the words themselves contribute.
    The paper divides the gradient of the encoder's output by the number of attention layers;
    this layer does not, use `GradientScaling` in the encoder.

    Args:
        scaling: "code" for the released arithmetic, "paper" for that of the text.
        weight_normalization: Whether both kernels are parametrized by length and direction, as
            in the paper.
        normalizer: A `Normalizer` or its name.
        kernel_initializer: Initializer of both kernels. The paper uses a normal distribution with
            standard deviation `sqrt(p / fan_in)` for keep probability p.

    Call arguments:
        query: Float tensor `(batch, query, dim)`, or `(batch, dim)` for one decoder step.
        target: Float tensor `(batch, query, embedding_dim)`, or `(batch, embedding_dim)`.
        key: Float tensor `(batch, key, embedding_dim)`.
        source: Float tensor `(batch, key, embedding_dim)`.
        query_mask, target_mask: Boolean `(batch, query)`, or `(batch,)`; combined with `&`.
        key_mask, source_mask: Boolean `(batch, key)`; combined with `&`.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Passed to the normalizer.

    Returns:
        A tensor like `query`, or the pair of it and weights `(batch, query, key)`, without the
        query axis for a step.

    Raises:
        ValueError: If `scaling` is unknown or the tensors do not fit together.

    Masking: uses the masks of its four inputs. Masked queries give 0. If every position of the
    source is masked, the context is 0. Propagates the query's mask.

    Example:

    >>> attention = MultiStepAttention()
    >>> query, target = keras.ops.ones((2, 3, 6)), keras.ops.ones((2, 3, 4))
    >>> source = keras.ops.ones((2, 5, 4))
    >>> outputs, weights = attention(query, target, source, source, return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 3, 6), (2, 3, 5))

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, sections 3.3 to 3.5.
    """

    def __init__(
        self,
        scaling: str = "code",
        weight_normalization: bool = True,
        normalizer: str | Normalizer | Config = "softmax",
        kernel_initializer: Initializer = "lecun_normal",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.scaling: str = validation.check_one_of(
            "MultiStepAttention", "scaling", scaling, tuple(SCALINGS)
        )
        self.weight_normalization = weight_normalization
        self.normalizer: Normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(
        self, query_shape: Shape, target_shape: Shape, key_shape: Shape, source_shape: Shape
    ) -> None:
        self._check_shapes(query_shape, target_shape, key_shape, source_shape)
        dim, embedding_dim = query_shape[-1], key_shape[-1]
        self.query_map: keras.layers.Layer = self._make_linear("query", (dim, embedding_dim), 0)
        self.output_map: keras.layers.Layer = self._make_linear("output", (embedding_dim, dim), 1)
        if not self.normalizer.built:
            self.normalizer.build((*tuple(query_shape)[:-1], tuple(key_shape)[1]))
        self.built = True

    def _make_linear(self, name, shape, index):
        """Returns a built linear map from width `shape[0]` to `shape[1]`."""
        initializer = derive_initializer(self.kernel_initializer, index)
        options = {"kernel_initializer": initializer, "dtype": self.dtype_policy, "name": name}
        linear = make_dense(shape[1], self.weight_normalization, **options)
        linear.build((None, None, shape[0]))
        return linear

    def prepare(
        self,
        key: TensorLike,
        source: TensorLike,
        key_mask: TensorLike | None = None,
        source_mask: TensorLike | None = None,
    ) -> TensorDict:
        """Returns the part that depends on the source alone, to be passed to `attend`.

        Returns:
            A dict with `key`, `(batch, key, embedding_dim)`, `value`, the scaled sum of key and
            embedding, and `mask`, boolean `(batch, key)`.
        """
        check_ready(self, key)
        mask = self._check_masks("key", key, key_mask, source, source_mask)
        key, source = (ops.cast(tensor, self.compute_dtype) for tensor in (key, source))
        if mask is None:
            mask = ops.ones(get_shape(key)[:2], dtype="bool")
        else:
            # Padding may contain anything, even NaN, which a weight of 0 would not remove.
            key, source = (ops.where(mask[:, :, None], tensor, 0) for tensor in (key, source))
        value = (key + source) * SCALINGS[self.scaling] * length_scale(mask, self.compute_dtype)
        return {"key": key, "value": value, "mask": mask}

    def attend(
        self,
        query: TensorLike,
        target: TensorLike,
        prepared: TensorDict,
        query_mask: TensorLike | None = None,
        target_mask: TensorLike | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attends to a prepared source: one step (rank 2) or several queries (rank 3).

        Returns:
            A tensor like `query`, and the weights.
        """
        check_ready(self, query)
        query_mask = self._check_masks("query", query, query_mask, target, target_mask)
        query, target = (ops.cast(tensor, self.compute_dtype) for tensor in (query, target))
        is_step = len(query.shape) == 2
        if is_step:
            query, target = query[:, None], target[:, None]
            query_mask = None if query_mask is None else query_mask[:, None]
        mask = prepared["mask"][:, None, :]
        if query_mask is not None:
            mask = ops.logical_and(mask, query_mask[:, :, None])
            query, target = (ops.where(query_mask[:, :, None], x, 0) for x in (query, target))
        scale = SCALINGS[self.scaling]
        scores = dot_scores((self.query_map(query) + target) * scale, prepared["key"])
        mask = ops.broadcast_to(mask, get_shape(scores))
        weights = self.normalizer(scores, mask=mask, training=training)
        weights = ops.cast(weights, self.compute_dtype)
        context = ops.einsum("bqk,bke->bqe", weights, prepared["value"])
        outputs = (query + self.output_map(context)) * scale
        if query_mask is not None:
            outputs = ops.where(query_mask[:, :, None], outputs, 0)
        return (
            tuple(ops.squeeze(x, 1) for x in (outputs, weights)) if is_step else (outputs, weights)
        )

    def call(
        self,
        query: Tensor,
        target: Tensor,
        key: Tensor,
        source: Tensor,
        query_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        self._check_shapes(query.shape, target.shape, key.shape, source.shape)
        prepared = self.prepare(key, source, key_mask, source_mask)
        results = self.attend(query, target, prepared, query_mask, target_mask, training)
        return results if return_attention_scores else results[0]

    def _check_shapes(self, query_shape, target_shape, key_shape, source_shape):
        owner = "MultiStepAttention"
        shapes = {
            "query": tuple(query_shape),
            "target": tuple(target_shape),
            "key": tuple(key_shape),
            "source": tuple(source_shape),
        }
        ranks = {name: len(shape) for name, shape in shapes.items()}
        if ranks["query"] not in (2, 3) or ranks["target"] != ranks["query"]:
            raise ValueError(
                f"{owner} expects `query` (batch, query, dim) with `target` (batch, query, "
                "embedding_dim), or both without the query axis. Received: "
                f"query.shape={shapes['query']}, target.shape={shapes['target']}"
            )
        if ranks["key"] != 3 or ranks["source"] != 3:
            raise ValueError(
                f"{owner} expects `key` and `source` of shape (batch, key, embedding_dim). "
                f"Received: key.shape={shapes['key']}, source.shape={shapes['source']}"
            )
        validation.check_same_size(owner, 0, **shapes)
        widths = {name: shapes[name] for name in ("target", "key", "source")}
        validation.check_same_size(owner, -1, "Project the encoder's output to it.", **widths)
        validation.check_same_size(owner, 1, key=shapes["key"], source=shapes["source"])
        if ranks["query"] == 3:
            validation.check_same_size(owner, 1, query=shapes["query"], target=shapes["target"])
        validation.check_built_dims(self, **shapes)

    def _check_masks(self, axis, one, one_mask, other, other_mask):
        """Returns the two masks combined, boolean, or None."""
        found = []
        names = {"query": ("query_mask", "target_mask"), "key": ("key_mask", "source_mask")}[axis]
        for name, tensor, mask in zip(names, (one, other), (one_mask, other_mask), strict=True):
            axes = f"(batch, {axis})" if len(tensor.shape) == 3 else "(batch,)"
            found.append(validation.fit_mask("MultiStepAttention", name, mask, tensor, axes))
        return combine_masks(*found)

    def compute_mask(self, query: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self, query_shape: Shape, target_shape: Shape, key_shape: Shape, source_shape: Shape
    ) -> OutputShape:
        self._check_shapes(query_shape, target_shape, key_shape, source_shape)
        return tuple(query_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        query, key = call.query, call.key
        self._check_shapes(query.shape, call.target.shape, key.shape, call.source.shape)
        self._check_masks("query", query, call.query_mask, call.target, call.target_mask)
        self._check_masks("key", key, call.key_mask, call.source, call.source_mask)
        outputs = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        shape = (*tuple(query.shape)[:-1], key.shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (outputs, weights) if call.return_attention_scores else outputs

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "scaling": self.scaling,
            "weight_normalization": self.weight_normalization,
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
