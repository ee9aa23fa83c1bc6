"""Multi-step attention of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    d_i = (W_d y_i + b_d + g_i) sqrt(1/2)                                  equation 1
    a_i = softmax_j(d_i . z_j)                                             section 3.3
    c_i = m sqrt(1/m) sum_j a_ij (z_j + e_j) sqrt(1/2)                     equation 2, section 3.5
    y'_i = (y_i + W_o c_i + b_o) sqrt(1/2)

Each decoder layer has one of these between its convolution and its residual sum. m is the real
length of the source row, and m sqrt(1/m) is sqrt(m). This is the arithmetic of the code that
the authors released, `scaling="code"`. The text of the paper, `scaling="paper"`, scales the context
by m sqrt(1/m) and residual sums by sqrt(1/2), but none of the three sums above, and reads y after
the residual sum.

Code name -> paper name: `query` -> y (the convolution's output after its gate), `target` -> g
(the embedded target), `key` -> z^u (the encoder's output), `source` -> e (the embedded source),
`weights` -> a, the result -> y'.
"""

import keras
from keras import initializers, ops

from keras_attention import checks, normalizers
from keras_attention.checks import check_ready
from keras_attention.initialization import independent
from keras_attention.layer import Layer
from keras_attention.mechanisms.reading import joined
from keras_attention.precision import wide_dtype
from keras_attention.weight_normalization import dense

SCALINGS = {"code": 0.5**0.5, "paper": 1.0}


def length_scale(mask, dtype):
    """Returns `m sqrt(1/m)` of each source row, `(batch, 1, 1)`: 0 for an empty row."""
    lengths = ops.sum(ops.cast(mask, wide_dtype(dtype)), axis=1)
    return ops.cast(ops.sqrt(lengths), dtype)[:, None, None]


@keras.saving.register_keras_serializable(package="keras_attention")
class MultiStepAttention(Layer):
    """Attention inside a convolutional decoder layer, with its sums kept at one variance.

    Use it in a decoder that attends in every layer: the layers above read the context that
    those below chose. It reads keys plus embeddings, so that the words themselves are at
    hand. The paper divides the gradient of the encoder's output by the number of attention
    layers; that is the encoder's business, not done here.

    Args:
        scaling: "code" for the released arithmetic, "paper" for the text's.
        weight_normalization: Whether both kernels are learned as length and direction, as
            in the paper.
        normalizer: A `Normalizer` or its name.
        kernel_initializer: Initializer of both kernels. The paper's is the normal distribution
            of deviation `sqrt(p / fan_in)` at keep probability p.

    Call arguments:
        query: Float tensor `(batch, query, dim)`, or `(batch, dim)` for one decoder step.
        target: Float tensor `(batch, query, embedding_dim)`, or `(batch, embedding_dim)`.
        key: Float tensor `(batch, key, embedding_dim)`.
        source: Float tensor `(batch, key, embedding_dim)`.
        query_mask, target_mask: Boolean `(batch, query)`, or `(batch,)`; both must keep.
        key_mask, source_mask: Boolean `(batch, key)`; both must keep.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Passed to the normalizer.

    Returns:
        A tensor like `query`, or the pair of it and weights `(batch, query, key)`, without the
        query axis for a step.

    Raises:
        ValueError: If `scaling` is unknown or the tensors do not fit together.

    Masking: reads the masks of its four inputs. A query that is masked gives 0; a source with
    nothing to keep gives a context of 0. Passes the query's mask on.

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
        scaling="code",
        weight_normalization=True,
        normalizer="softmax",
        kernel_initializer="lecun_normal",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.scaling = checks.one_of("MultiStepAttention", "scaling", scaling, tuple(SCALINGS))
        self.weight_normalization = weight_normalization
        self.normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, query_shape, target_shape, key_shape, source_shape):
        self._check_shapes(query_shape, target_shape, key_shape, source_shape)
        dim, embedding_dim = query_shape[-1], key_shape[-1]
        self.query_map = self._linear("query", (dim, embedding_dim), 0)
        self.output_map = self._linear("output", (embedding_dim, dim), 1)
        if not self.normalizer.built:
            self.normalizer.build((*tuple(query_shape)[:-1], tuple(key_shape)[1]))
        self.built = True

    def _linear(self, name, shape, index):
        """Returns a linear map from width `shape[0]` to `shape[1]`, built."""
        initializer = independent(self.kernel_initializer, index)
        options = {"kernel_initializer": initializer, "dtype": self.dtype_policy, "name": name}
        linear = dense(shape[1], self.weight_normalization, **options)
        linear.build((None, None, shape[0]))
        return linear

    def prepare(self, key, source, key_mask=None, source_mask=None):
        """Returns what depends on the source alone, to be passed to `attend`.

        Returns:
            A dict with `key`, `(batch, key, embedding_dim)`, `value`, the scaled sum of key and
            embedding, and `mask`, boolean `(batch, key)`.
        """
        check_ready(self, key)
        mask = self._joined_mask("key", key, key_mask, source, source_mask)
        key, source = (ops.cast(tensor, self.compute_dtype) for tensor in (key, source))
        if mask is None:
            mask = ops.ones(ops.shape(key)[:2], dtype="bool")
        else:
            # Padding may hold anything, even NaN, which a weight of 0 would not silence.
            key, source = (ops.where(mask[:, :, None], tensor, 0) for tensor in (key, source))
        value = (key + source) * SCALINGS[self.scaling] * length_scale(mask, self.compute_dtype)
        return {"key": key, "value": value, "mask": mask}

    def attend(self, query, target, prepared, query_mask=None, target_mask=None, training=None):
        """Reads a prepared source for one step, rank 2, or for several queries, rank 3.

        Returns:
            A tensor like `query`, and the weights.
        """
        check_ready(self, query)
        mask = self._joined_mask("query", query, query_mask, target, target_mask)
        if len(query.shape) == 3:
            return self._attend(query, target, prepared, mask, training)
        mask = None if mask is None else mask[:, None]
        results = self._attend(query[:, None], target[:, None], prepared, mask, training)
        return tuple(ops.squeeze(result, 1) for result in results)

    def _attend(self, query, target, prepared, query_mask, training):
        """As `attend`, for rank 3 and one mask."""
        query, target = (ops.cast(tensor, self.compute_dtype) for tensor in (query, target))
        mask = prepared["mask"][:, None, :]
        if query_mask is not None:
            mask = ops.logical_and(mask, query_mask[:, :, None])
            query, target = (ops.where(query_mask[:, :, None], x, 0) for x in (query, target))
        scale = SCALINGS[self.scaling]
        summary = (self.query_map(query) + target) * scale
        scores = ops.einsum("bqe,bke->bqk", summary, prepared["key"])
        mask = ops.broadcast_to(mask, ops.shape(scores))
        weights = self.normalizer(scores, mask=mask, training=training)
        weights = ops.cast(weights, self.compute_dtype)
        context = ops.einsum("bqk,bke->bqe", weights, prepared["value"])
        outputs = (query + self.output_map(context)) * scale
        if query_mask is not None:
            outputs = ops.where(query_mask[:, :, None], outputs, 0)
        return outputs, weights

    def call(
        self,
        query,
        target,
        key,
        source,
        query_mask=None,
        target_mask=None,
        key_mask=None,
        source_mask=None,
        return_attention_scores=False,
        training=None,
    ):
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
        checks.same_dim(owner, 0, **shapes)
        widths = {name: shapes[name] for name in ("target", "key", "source")}
        checks.same_dim(owner, -1, "Map the encoder's output to it.", **widths)
        checks.same_dim(owner, 1, key=shapes["key"], source=shapes["source"])
        if ranks["query"] == 3:
            checks.same_dim(owner, 1, query=shapes["query"], target=shapes["target"])
        checks.built_widths(self, **shapes)

    def _joined_mask(self, axis, one, one_mask, other, other_mask):
        """Returns what both masks keep, boolean, or None."""
        found = []
        names = {"query": ("query_mask", "target_mask"), "key": ("key_mask", "source_mask")}[axis]
        for name, tensor, mask in zip(names, (one, other), (one_mask, other_mask), strict=True):
            rows = tuple(tensor.shape[:-1])
            axes = f"(batch, {axis})" if len(rows) == 2 else "(batch,)"
            found.append(checks.boolean_mask("MultiStepAttention", name, mask, rows, axes))
        return joined(*found)

    def compute_mask(self, query, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, query_shape, target_shape, key_shape, source_shape):
        self._check_shapes(query_shape, target_shape, key_shape, source_shape)
        return tuple(query_shape)

    def compute_output_spec(
        self,
        query,
        target,
        key,
        source,
        query_mask=None,
        target_mask=None,
        key_mask=None,
        source_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._check_shapes(query.shape, target.shape, key.shape, source.shape)
        self._joined_mask("query", query, query_mask, target, target_mask)
        self._joined_mask("key", key, key_mask, source, source_mask)
        outputs = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        shape = (*tuple(query.shape)[:-1], key.shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (outputs, weights) if return_attention_scores else outputs

    def get_config(self):
        return {
            **super().get_config(),
            "scaling": self.scaling,
            "weight_normalization": self.weight_normalization,
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
