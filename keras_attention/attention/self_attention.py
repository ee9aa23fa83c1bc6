"""Self-attention, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), with one head.

    Q = H W_q    K = H W_k    V = H W_v
    attention = softmax(Q K^T / sqrt(d_k)) V                       equation 1
    restricted: position i attends to the positions j with |i - j| <= radius  section 4

Code name -> paper name: `inputs` -> H, `units` -> d_k, `value_units` -> d_v, `window` -> the
neighborhood of size r = 2 radius + 1. Without projections, Q = K = V = H.
"""

import functools
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.initializers import derive_initializer
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
)
from keras_attention.attention._windows import window_radius
from keras_attention.attention.attention import Attention
from keras_attention.attention.local import LocalAttention
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class SelfAttention(Layer):
    """Lets every position of a sequence attend to the others, or to a window around it.

    Use it to relate the positions of one sequence, as in an encoder. With a `window`, time and
    memory grow linearly with the length, so that long sequences fit.
    `MultiHeadAttention` computes several such attentions in parallel.

    Args:
        units: Positive int, the width of queries and keys; None uses the inputs themselves as
            queries, keys and values, without projections.
        value_units: Positive int, the width of the values; None is `units`.
        scorer: A `Scorer` or the name of one, as in `Attention`.
        normalizer: A `Normalizer` or its name.
        window: Odd int, the number of positions in the window, including its center; None
            attends to all. So does a window of at least `2 * time - 1`.
        use_bias: Whether the projections have biases.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        kernel_initializer: Initializer of the three kernels; each gets its own numbers.
        bias_initializer: Initializer of the biases.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask: Boolean `(batch, time)`, True at positions that attend and may be attended to.
        inputs_mask: Used if `mask` is None: Keras passes the mask attached to `inputs` here
            when the layer is called with another tensor too.
        attention_mask: Boolean `(batch, time, time)`, or `(time, time)` for all batch elements:
            which position may attend to which.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Whether dropout is applied.
        use_causal_mask: Whether position i attends only to positions 0 to i.

    Returns:
        The contexts `(batch, time, value_units)`, or the pair of contexts and weights
        `(batch, time, time)` if `return_attention_scores`; the weights are taken before dropout.

    Raises:
        ValueError: If `window` is even, `value_units` is passed without `units`, an argument is
            not positive, or a tensor has the wrong rank.

    Masking: uses the mask of its input and propagates it. Masked positions get zeros.

    Example:

    >>> attention = SelfAttention(units=8, window=3)
    >>> context, weights = attention(keras.ops.ones((2, 5, 4)), return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 5, 8), (2, 5, 5))
    >>> [round(float(weight), 3) for weight in weights[0, 1]]
    [0.333, 0.333, 0.333, 0.0, 0.0]

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, sections 3.2.1 and 4.
    """

    units: int | None
    value_units: int | None
    dropout: float
    seed: int | None

    def __init__(
        self,
        units: int | None = None,
        value_units: int | None = None,
        scorer: str | Scorer | Config = "scaled_dot",
        normalizer: str | Normalizer | Config = "softmax",
        window: int | None = None,
        use_bias: bool = False,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        owner = "SelfAttention"
        if units is None and (value_units is not None or use_bias):
            raise ValueError(
                f"{owner} has no projections if `units` is None. Pass `units`, or omit "
                f"`value_units` and `use_bias`. Received: units=None, value_units={value_units!r}, "
                f"use_bias={use_bias!r}"
            )
        for name, size in (("units", units), ("value_units", value_units)):
            if size is not None:
                validation.check_positive_int(owner, name, size)
        self.units, self.value_units = units, value_units
        self.window = window
        self.use_bias = use_bias
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)
        if window is None:
            attention = Attention
        else:
            window_radius(owner, window)
            attention = functools.partial(LocalAttention, window)
        # Positions past the last unmasked one are masked as queries, so it does not matter where
        # `LocalAttention` would center their windows.
        self.attention: LocalAttention | Attention = attention(
            scorer=scorer,
            normalizer=normalizer,
            dropout=dropout,
            seed=seed,
            dtype=self.dtype_policy,
        )
        self.dropout, self.seed = dropout, seed
        sizes = {}
        if units is not None:
            sizes = {"query": units, "key": units, "value": value_units or units}
        self.projections: list[keras.layers.Dense] = [
            keras.layers.Dense(
                size,
                use_bias=use_bias,
                kernel_initializer=derive_initializer(self.kernel_initializer, index),
                bias_initializer=derive_initializer(self.bias_initializer, index),
                dtype=self.dtype_policy,
                name=name,
            )
            for index, (name, size) in enumerate(sizes.items())
        ]

    @property
    def scorer(self) -> Scorer:
        """The scorer that was passed, or created from its name."""
        return self.attention.scorer

    @property
    def normalizer(self) -> Normalizer:
        """The normalizer that was passed, or created from its name."""
        return self.attention.normalizer

    def build(self, inputs_shape: Shape) -> None:
        validation.check_inputs(self, inputs_shape)
        for projection in self.projections:
            projection.build(inputs_shape)
        shape = (*tuple(inputs_shape)[:2], self.units or inputs_shape[-1])
        self.attention.build(shape, self.compute_output_shape(inputs_shape), shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Outputs:
        mask = self._check_call(inputs, mask, inputs_mask, attention_mask)
        if mask is not None:
            inputs = ops.where(mask[:, :, None], inputs, 0)
        query = key = value = inputs
        if self.projections:
            query, key, value = (projection(inputs) for projection in self.projections)
        return self.attention(
            query,
            value,
            None if key is value else key,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=use_causal_mask,
        )

    def _check_call(self, inputs, mask, inputs_mask, attention_mask):
        """Returns the mask of the positions, after checking it and the others."""
        validation.check_inputs(self, inputs.shape)
        rows = tuple(inputs.shape[:2])
        self.attention.check_attention_mask(rows, rows[1], attention_mask)
        return validation.resolve_mask(self, inputs, mask=mask, inputs_mask=inputs_mask)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        validation.check_inputs(self, inputs_shape)
        return (*tuple(inputs_shape)[:2], self.value_units or self.units or inputs_shape[-1])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_call(call.inputs, call.mask, call.inputs_mask, call.attention_mask)
        shape = self.compute_output_shape(call.inputs.shape)
        context = keras.KerasTensor(shape, dtype=self.compute_dtype)
        shape = (*shape[:2], shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (context, weights) if call.return_attention_scores else context

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "value_units": self.value_units,
            "window": self.window,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            **self.attention.get_pieces_config(),
        }
