"""Attention pooling, Yang et al. 2016 (https://aclanthology.org/N16-1174), one level of the
hierarchical attention network.

    u_t = tanh(W h_t + b)               equation 5
    a_t = softmax_t(u_t . u_w)          equation 6
    s   = sum_t a_t h_t                 equation 7: over **h**, not over u

Code name -> paper name: `inputs` -> h_t, `vector` -> u_w, `weights` -> a_t, the result -> s.
"""

import keras
from keras import initializers, ops

from keras_attention import checks, normalizers
from keras_attention.layer import Layer


def pooling_scores(inputs, kernel, bias, vector):
    """Returns `tanh(W h_t + b) . u_w`, of shape `(batch, time)`; `bias` may be None."""
    hidden = ops.einsum("btd,du->btu", inputs, kernel)
    hidden = ops.tanh(hidden if bias is None else hidden + bias)
    return ops.einsum("btu,u->bt", hidden, vector)


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionPooling(Layer):
    """Sums a sequence into one vector, each position weighted by how much it matters.

    Use it where a sequence becomes one vector and there is no query: in place of the last
    state of a recurrence or of a mean over time. What matters is learned, as one vector.

    Args:
        units: Positive int, the size of the hidden layer that the weights are read from.
        normalizer: A `Normalizer` or its name.
        use_bias: Whether the hidden layer has a bias, as in the paper.
        kernel_initializer: Initializer of the hidden layer's kernel.
        vector_initializer: Initializer of u_w.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask: Boolean `(batch, time)`, True for positions that may be read.
        inputs_mask: Used where `mask` is None: Keras puts the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Passed to the normalizer.

    Returns:
        The sum `(batch, dim)`, or the pair of sum and weights `(batch, time)` if
        `return_attention_scores`.

    Raises:
        ValueError: If `units` is not a positive int, or a tensor has another rank.

    Masking: reads the mask of its input. A row with nothing to keep gives zeros. The result has
    no time axis and carries no mask.

    Example:

    >>> pooling = AttentionPooling(units=8)
    >>> vector, weights = pooling(keras.ops.ones((2, 5, 4)), return_attention_scores=True)
    >>> tuple(vector.shape), tuple(weights.shape)
    ((2, 4), (2, 5))

    Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, section 2.2.
    """

    def __init__(
        self,
        units,
        normalizer="softmax",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units = checks.positive_int("AttentionPooling", "units", units)
        self.normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)

    def build(self, inputs_shape):
        self._check_shape(inputs_shape)
        self.kernel = self.add_weight(
            (inputs_shape[-1], self.units), self.kernel_initializer, name="kernel"
        )
        self.bias = self.add_weight((self.units,), "zeros", name="bias") if self.use_bias else None
        # A column, so that an initializer that reads fans sees (units, 1).
        self.vector = self.add_weight((self.units, 1), self.vector_initializer, name="vector")
        if not self.normalizer.built:
            self.normalizer.build(tuple(inputs_shape)[:2])
        self.built = True

    def call(
        self,
        inputs,
        mask=None,
        inputs_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._check_shape(inputs.shape)
        mask = self._mask(inputs, mask, inputs_mask)
        if mask is not None:
            inputs = ops.where(mask[:, :, None], inputs, 0)
        vector = ops.squeeze(self.vector, 1)
        scores = pooling_scores(inputs, self.kernel, self.bias, vector)
        weights = self.normalizer(scores, mask=mask, training=training)
        weights = ops.cast(weights, self.compute_dtype)
        pooled = ops.einsum("bt,btd->bd", weights, inputs)
        return (pooled, weights) if return_attention_scores else pooled

    def _check_shape(self, shape):
        if len(shape) != 3 or shape[-1] is None:
            raise ValueError(
                "AttentionPooling expects `inputs` of shape (batch, time, dim) with a known last "
                f"dimension. Received: inputs.shape={tuple(shape)}"
            )
        checks.built_widths(self, inputs=shape)

    def _mask(self, inputs, mask, inputs_mask):
        masks = {"mask": mask, "inputs_mask": inputs_mask}
        return checks.own_mask("AttentionPooling", inputs.shape[:2], "(batch, time)", **masks)

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        self._check_shape(inputs_shape)
        return (inputs_shape[0], inputs_shape[-1])

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        inputs_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        self._check_shape(inputs.shape)
        self._mask(inputs, mask, inputs_mask)
        shape = self.compute_output_shape(inputs.shape)
        pooled = keras.KerasTensor(shape, dtype=self.compute_dtype)
        weights = keras.KerasTensor(inputs.shape[:2], dtype=self.compute_dtype)
        return (pooled, weights) if return_attention_scores else pooled

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
        }
