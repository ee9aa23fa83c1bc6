"""Gated convolutions of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    GLU([A B]) = A sig(B)                                                  section 3.2
    z' = (GLU(W [z_{i-k/2} .. z_{i+k/2}] + b) + z_i) sqrt(1/2)             sections 3.2 and 3.5

A causal block reads z_{i-k+1} .. z_i instead, the first of them zeros: k - 1 zeros on the left
alone. (The paper pads both sides and drops k from the end, which is one too many.)

Code name -> paper name: `inputs` -> z (in a decoder h), `windows` -> X, `units` -> d,
`kernel_size` -> k, the kernel -> W, `(k d, 2 units)`, oldest input first.
"""

import keras
from keras import initializers, ops

from keras_attention import checks
from keras_attention.checks import check_ready
from keras_attention.dropout import CounterDropout
from keras_attention.layer import Layer
from keras_attention.weight_normalization import dense

HALF = 0.5**0.5


def scaled_normal(keep: float = 1.0, gated: bool = False) -> initializers.Initializer:
    """Returns the initializer that keeps the variance of a layer's outputs, section 3.5.

    Its deviation is `sqrt(keep / fan_in)`, twice that before a gate.

    Args:
        keep: The share that dropout keeps of the layer's inputs.
        gated: Whether a gate follows, which leaves a quarter of a small variance.

    Example:

    >>> scaled_normal(keep=0.75, gated=True).scale
    3.0
    """
    scale = 4.0 * keep if gated else keep
    return initializers.VarianceScaling(scale, "fan_in", "untruncated_normal")


def windows(inputs, kernel_size, causal):
    """Returns what a convolution sees at each position, side by side, oldest first.

    Args:
        inputs: Float tensor `(batch, time, dim)`.
        kernel_size: Positive int.
        causal: Whether it sees up to its own position, not as far ahead as back.

    Returns:
        A tensor `(batch, time, kernel_size * dim)`; zeros beyond both ends.

    Example:

    >>> seen = windows(ops.reshape(ops.arange(1.0, 4.0), (1, 3, 1)), 2, causal=True)
    >>> [[float(x) for x in row] for row in seen[0]]
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    if kernel_size == 1:
        return inputs
    before = kernel_size - 1 if causal else (kernel_size - 1) // 2
    padded = ops.pad(inputs, ((0, 0), (before, kernel_size - 1 - before), (0, 0)))
    length = ops.shape(inputs)[1]
    return ops.concatenate([padded[:, i : i + length] for i in range(kernel_size)], axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class GatedConvBlock(Layer):
    """A convolution, a gate and a residual sum, with the variance of the signal kept.

    Use it as the layer of a convolutional encoder, or with `causal=True` of a decoder, where it
    can also go step by step. A stack of n blocks sees n (kernel_size - 1) + 1 positions. The
    initial weights, the paper's, keep the variance of inputs as small as its embeddings. (A gate
    that takes 1/4 of a small variance takes less of a large one: of variance 1 a block makes 1.2.)

    Args:
        units: Positive int, the width of the outputs. Where the inputs have another, the
            residual is projected.
        kernel_size: Positive int, how many positions the convolution sees; odd, unless causal.
        causal: Whether it sees the positions before its own alone, not those after it.
        dropout: Float in [0, 1), the share dropped from what the convolution reads.
        weight_normalization: Whether kernels are learned as length and direction.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask, inputs_mask: Boolean `(batch, time)`, True for positions to read.
        training: Whether dropout is applied.

    Returns:
        A tensor `(batch, time, units)` in the compute dtype.

    State: a dict with `window`, `(rows, kernel_size - 1, dim)`, the inputs of the steps before.

    Raises:
        ValueError: If an argument is not as above.

    Masking: masked positions are read as zeros and give zeros. Passes the mask on.

    Example:

    >>> block = GatedConvBlock(units=5, kernel_size=3, causal=True)
    >>> inputs = keras.ops.ones((2, 4, 7))
    >>> tuple(block(inputs).shape)
    (2, 4, 5)
    >>> output, state = block.step(inputs[:, 0], block.start(2))
    >>> tuple(output.shape), tuple(state["window"].shape)
    ((2, 5), (2, 2, 7))

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, sections 3.2 and 3.5;
    gates: Dauphin et al. 2017, https://arxiv.org/abs/1612.08083.
    """

    def __init__(
        self,
        units,
        kernel_size,
        causal=False,
        dropout=0.0,
        weight_normalization=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = "GatedConvBlock"
        self.supports_masking = True
        self.units = checks.positive_int(owner, "units", units)
        self.kernel_size = checks.positive_int(owner, "kernel_size", kernel_size)
        self.causal = causal
        if not causal and kernel_size % 2 == 0:
            raise ValueError(
                f"{owner} expects an odd `kernel_size`, as far ahead as back, unless `causal`. "
                f"Received: kernel_size={kernel_size}"
            )
        self.dropout = checks.number_in_range(owner, "dropout", dropout, 0, 1, below=True)
        self.weight_normalization = weight_normalization
        self.seed = seed
        self.input_dropout = CounterDropout(dropout, seed, dtype=self.dtype_policy, name="dropout")
        gated = scaled_normal(1 - dropout, gated=True)
        self.convolution = self._linear(2 * units, gated, "convolution")
        self.projection = None

    def _linear(self, units, initializer, name):
        options = {"kernel_initializer": initializer, "dtype": self.dtype_policy, "name": name}
        return dense(units, self.weight_normalization, **options)

    def build(self, inputs_shape):
        self._check_shape(inputs_shape)
        self.dim = inputs_shape[-1]
        self.convolution.build((None, None, self.kernel_size * self.dim))
        if self.dim != self.units:
            self.projection = self._linear(self.units, scaled_normal(), "projection")
            self.projection.build((None, None, self.dim))
        self.built = True

    def gated(self, inputs, training=None):
        """Returns the gated convolution of all positions, `(batch, time, units)`.

        A decoder attends between this and `residual_sum`.
        """
        inputs = self.input_dropout(inputs, training=training)
        return ops.glu(self.convolution(windows(inputs, self.kernel_size, self.causal)))

    def residual_sum(self, outputs, inputs):
        """Returns `(outputs + inputs) sqrt(1/2)`, the inputs projected where widths differ."""
        if self.projection is not None:
            inputs = self.projection(inputs)
        return (outputs + inputs) * HALF

    def start(self, rows):
        """Returns the state before the first step, for an int or int tensor of rows."""
        self._check_steps()
        shape = (rows, self.kernel_size - 1, self.dim)
        return {"window": ops.zeros(shape, dtype=self.compute_dtype)}

    def gated_step(self, inputs, state):
        """Returns the gated convolution of one step, `(rows, units)`, and the state."""
        seen = ops.concatenate([state["window"], inputs[:, None]], axis=1)
        flat = ops.reshape(seen, (-1, self.kernel_size * self.dim))
        return ops.glu(self.convolution(flat)), {"window": seen[:, 1:]}

    def step(self, inputs, state):
        """Does one step of a causal block.

        Args:
            inputs: Float tensor `(rows, dim)`.
            state: The state, every leaf `(rows, ...)`.

        Returns:
            The output `(rows, units)` and the new state.
        """
        check_ready(self, inputs)
        self._check_steps()
        inputs = ops.cast(inputs, self.compute_dtype)
        outputs, state = self.gated_step(inputs, state)
        return self.residual_sum(outputs, inputs), state

    def call(self, inputs, mask=None, inputs_mask=None, training=None):
        self._check_shape(inputs.shape)
        mask = self._mask(inputs.shape, mask, inputs_mask)
        if mask is not None:
            # Padding may hold anything, even NaN, and its neighbors read it.
            inputs = ops.where(mask[:, :, None], inputs, 0)
        outputs = self.residual_sum(self.gated(inputs, training), inputs)
        return outputs if mask is None else ops.where(mask[:, :, None], outputs, 0)

    def _mask(self, shape, mask, inputs_mask):
        axes, rows = "(batch, time)", tuple(shape)[:2]
        return checks.own_mask("GatedConvBlock", rows, axes, mask=mask, inputs_mask=inputs_mask)

    def _check_shape(self, shape):
        if len(shape) != 3 or shape[-1] is None:
            raise ValueError(
                "GatedConvBlock expects `inputs` of shape (batch, time, dim) with a known last "
                f"dimension. Received: inputs.shape={tuple(shape)}"
            )

    def _check_steps(self):
        if not self.causal:
            raise ValueError(
                "GatedConvBlock goes step by step only if it is causal; otherwise it reads what is "
                f"yet to come. Pass `causal=True`. Received: causal={self.causal!r}"
            )

    def compute_output_shape(self, inputs_shape):
        self._check_shape(inputs_shape)
        return (*tuple(inputs_shape)[:-1], self.units)

    def compute_output_spec(self, inputs, mask=None, inputs_mask=None, training=None):
        self._check_shape(inputs.shape)
        self._mask(inputs.shape, mask, inputs_mask)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_size": self.kernel_size,
            "causal": self.causal,
            "dropout": self.dropout,
            "weight_normalization": self.weight_normalization,
            "seed": self.seed,
        }
