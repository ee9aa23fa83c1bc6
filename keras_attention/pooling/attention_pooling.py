"""Attention pooling, Yang et al. 2016 (https://aclanthology.org/N16-1174), one level of the
hierarchical attention network.

    u_t = tanh(W h_t + b)               equation 5
    a_t = softmax_t(u_t . u_w)          equation 6
    s   = sum_t a_t h_t                 equation 7: over **h**, not over u

Code name -> paper name: `inputs` -> h_t, `vector` -> u_w, `weights` -> a_t, the result -> s.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import normalizers, validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.tensor_types import (
    Config,
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
    TensorLike,
)
from keras_attention.normalizers.base import Normalizer


def pooling_scores(
    inputs: TensorLike, kernel: TensorLike, bias: TensorLike | None, vector: TensorLike
) -> Tensor:
    """Returns `tanh(W h_t + b) . u_w`, of shape `(batch, time)`; `bias` may be None."""
    hidden = ops.einsum("btd,du->btu", inputs, kernel)
    hidden = ops.tanh(hidden if bias is None else hidden + bias)
    return ops.einsum("btu,u->bt", hidden, vector)


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionPooling(Layer):
    """Sums a sequence into one vector with a learned weight for each position.

    Use it to reduce a sequence to one vector without a query, instead of the final state of a
    recurrence or a mean over time. A learned vector determines which positions matter.

    Args:
        units: Positive int, the size of the hidden layer from which weights are computed.
        normalizer: A `Normalizer` or its name.
        use_bias: Whether the hidden layer has a bias, as in the paper.
        kernel_initializer: Initializer of the hidden layer's kernel.
        vector_initializer: Initializer of u_w.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask: Boolean `(batch, time)`, True at positions that may be attended to.
        inputs_mask: Used if `mask` is None: Keras passes the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Passed to the normalizer.

    Returns:
        The sum `(batch, dim)`, or the pair of sum and weights `(batch, time)` if
        `return_attention_scores`.

    Raises:
        ValueError: If `units` is not a positive int, or a tensor has the wrong rank.

    Masking: uses the mask of its input. If every position is masked, the result is zeros. It has
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
        units: int,
        normalizer: str | Normalizer | Config = "softmax",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units: int = validation.check_positive_int("AttentionPooling", "units", units)
        self.normalizer: Normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        self.use_bias = use_bias
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.vector_initializer: InitializerFunction = initializers.get(vector_initializer)

    def build(self, inputs_shape: Shape) -> None:
        validation.check_inputs(self, inputs_shape)
        self.kernel: keras.Variable = self.add_weight(
            (inputs_shape[-1], self.units), self.kernel_initializer, name="kernel"
        )
        self.bias: keras.Variable | None = (
            self.add_weight((self.units,), "zeros", name="bias") if self.use_bias else None
        )
        # A column vector, so that initializers based on fan-in see (units, 1).
        self.vector: keras.Variable = self.add_weight(
            (self.units, 1), self.vector_initializer, name="vector"
        )
        if not self.normalizer.built:
            self.normalizer.build(tuple(inputs_shape)[:2])
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        validation.check_inputs(self, inputs.shape)
        mask = validation.resolve_mask(self, inputs, mask=mask, inputs_mask=inputs_mask)
        if mask is not None:
            inputs = ops.where(mask[:, :, None], inputs, 0)
        vector = ops.squeeze(self.vector, 1)
        scores = pooling_scores(inputs, self.kernel, self.bias, vector)
        weights = self.normalizer(scores, mask=mask, training=training)
        weights = ops.cast(weights, self.compute_dtype)
        pooled = ops.einsum("bt,btd->bd", weights, inputs)
        return (pooled, weights) if return_attention_scores else pooled

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        validation.check_inputs(self, inputs_shape)
        return (inputs_shape[0], inputs_shape[-1])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        inputs = call.inputs
        shape = self.compute_output_shape(inputs.shape)
        validation.resolve_mask(self, inputs, mask=call.mask, inputs_mask=call.inputs_mask)
        pooled = keras.KerasTensor(shape, dtype=self.compute_dtype)
        weights = keras.KerasTensor(inputs.shape[:2], dtype=self.compute_dtype)
        return (pooled, weights) if call.return_attention_scores else pooled

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "normalizer": keras.saving.serialize_keras_object(self.normalizer),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
        }
