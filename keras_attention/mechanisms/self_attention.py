"""Self-attention, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), with one head.

    Q = H W_q    K = H W_k    V = H W_v
    attention = softmax(Q K^T / sqrt(d_k)) V                       equation 1
    restricted: position i reads the positions j with |i - j| <= radius       section 4

Code name -> paper name: `inputs` -> H, `units` -> d_k, `value_units` -> d_v, `window` -> the
neighborhood of size r = 2 radius + 1. Without projections, Q = K = V = H.
"""

import functools

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.initialization import independent
from keras_attention.layer import Layer
from keras_attention.mechanisms.attention import Attention
from keras_attention.mechanisms.local import LocalAttention
from keras_attention.mechanisms.windows import radius_of


@keras.saving.register_keras_serializable(package="keras_attention")
class SelfAttention(Layer):
    """Lets every position of a sequence read the others, or those in a window around it.

    Use it to relate the positions of one sequence, as in an encoder. With a `window` it costs
    time and memory by the window, not by the length, so that long sequences fit.
    `MultiHeadAttention` does this several times side by side.

    Args:
        units: Positive int, the width of queries and keys; None compares and reads the inputs
            as they are, without projections.
        value_units: Positive int, the width of the values; None is `units`.
        scorer: A `Scorer` or the name of one, as in `Attention`.
        normalizer: A `Normalizer` or its name.
        window: Odd int, the number of positions in the window, its center included; None
            reads all. A window of at least `2 * time - 1` reads all, too.
        use_bias: Whether the projections have biases.
        dropout: Float in [0, 1), the share of weights dropped while training.
        kernel_initializer: Initializer of the three kernels, each drawn by itself.
        bias_initializer: Initializer of the biases.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask: Boolean `(batch, time)`, True for positions that read and may be read.
        inputs_mask: Used where `mask` is None: Keras puts the mask attached to `inputs` here
            when the layer is called with another tensor too.
        attention_mask: Boolean `(batch, time, time)`, or `(time, time)` for every row alike:
            which position may read which.
        return_attention_scores: Whether the weights are returned too (Keras' name).
        training: Whether dropout is applied.
        use_causal_mask: Whether position i reads only positions 0 to i.

    Returns:
        The contexts `(batch, time, value_units)`, or the pair of contexts and weights
        `(batch, time, time)` if `return_attention_scores`; the weights are taken before dropout.

    Raises:
        ValueError: If `window` is even, `value_units` comes without `units`, an argument is
            not positive, or a tensor has another rank.

    Masking: reads the mask of its input and passes it on. A masked position gets zeros.

    Example:

    >>> attention = SelfAttention(units=8, window=3)
    >>> context, weights = attention(keras.ops.ones((2, 5, 4)), return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 5, 8), (2, 5, 5))
    >>> [round(float(weight), 3) for weight in weights[0, 1]]
    [0.333, 0.333, 0.333, 0.0, 0.0]

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, sections 3.2.1 and 4.
    """

    def __init__(
        self,
        units=None,
        value_units=None,
        scorer="scaled_dot",
        normalizer="softmax",
        window=None,
        use_bias=False,
        dropout=0.0,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        owner = "SelfAttention"
        if units is None and (value_units is not None or use_bias):
            raise ValueError(
                f"{owner} projects nothing without `units`; give it, or leave `value_units` and "
                f"`use_bias` out. Received: units=None, value_units={value_units!r}, "
                f"use_bias={use_bias!r}"
            )
        for name, size in (("units", units), ("value_units", value_units)):
            if size is not None:
                checks.positive_int(owner, name, size)
        self.units, self.value_units = units, value_units
        self.window = window
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        if window is None:
            attention = Attention
        else:
            radius_of(owner, window)
            attention = functools.partial(LocalAttention, window)
        # A position past the last kept one is masked as a query, so that it does not matter
        # where `LocalAttention` would put its window.
        self.attention = attention(
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
        self.projections = [
            keras.layers.Dense(
                size,
                use_bias=use_bias,
                kernel_initializer=independent(self.kernel_initializer, index),
                bias_initializer=independent(self.bias_initializer, index),
                dtype=self.dtype_policy,
                name=name,
            )
            for index, (name, size) in enumerate(sizes.items())
        ]

    @property
    def scorer(self):
        """The scorer that was given, or made from its name."""
        return self.attention.scorer

    @property
    def normalizer(self):
        """The normalizer that was given, or made from its name."""
        return self.attention.normalizer

    def build(self, inputs_shape):
        self._check_shape(inputs_shape)
        for projection in self.projections:
            projection.build(inputs_shape)
        shape = (*tuple(inputs_shape)[:2], self.units or inputs_shape[-1])
        self.attention.build(shape, self.compute_output_shape(inputs_shape), shape)
        self.built = True

    def call(
        self,
        inputs,
        mask=None,
        inputs_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        self._check_shape(inputs.shape)
        mask = self._mask(inputs, mask, inputs_mask, attention_mask)
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

    def _check_shape(self, shape):
        if len(shape) != 3 or shape[-1] is None:
            raise ValueError(
                "SelfAttention expects `inputs` of shape (batch, time, dim) with a known last "
                f"dimension. Received: inputs.shape={tuple(shape)}"
            )
        checks.built_widths(self, inputs=shape)

    def _mask(self, inputs, mask, inputs_mask, attention_mask):
        """Returns the mask of the positions, and checks all masks."""
        owner, (batch, time) = "SelfAttention", inputs.shape[:2]
        self.attention.pair_mask((batch, time), time, attention_mask)
        masks = {"mask": mask, "inputs_mask": inputs_mask}
        return checks.own_mask(owner, (batch, time), "(batch, time)", **masks)

    def compute_mask(self, inputs, previous_mask=None):
        return previous_mask

    def compute_output_shape(self, inputs_shape):
        self._check_shape(inputs_shape)
        return (*tuple(inputs_shape)[:2], self.value_units or self.units or inputs_shape[-1])

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        inputs_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        self._check_shape(inputs.shape)
        self._mask(inputs, mask, inputs_mask, attention_mask)
        shape = self.compute_output_shape(inputs.shape)
        context = keras.KerasTensor(shape, dtype=self.compute_dtype)
        shape = (*shape[:2], shape[1])
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (context, weights) if return_attention_scores else context

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "value_units": self.value_units,
            "window": self.window,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            **self.attention.pieces_config(),
        }
