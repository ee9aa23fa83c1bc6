"""Gated convolutions of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    GLU([A B]) = A sig(B)                                                  section 3.2
    z' = (GLU(W [z_{i-k/2} .. z_{i+k/2}] + b) + z_i) sqrt(1/2)             sections 3.2 and 3.5

A causal block uses z_{i-k+1} .. z_i instead, with k - 1 zeros of padding on the left only. (The
paper pads both sides and drops k from the end, which is one too many.)

Code name -> paper name: `inputs` -> z (in a decoder h), `stack_windows` -> X, `units` -> d,
`kernel_size` -> k, the kernel -> W, `(k d, 2 units)`, oldest input first.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    OutputShape,
    Shape,
    Size,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.core.weight_normalized_dense import make_dense
from keras_attention.validation import check_ready

SQRT_HALF = 0.5**0.5


def scaled_normal(keep_prob: float = 1.0, gated: bool = False) -> keras.initializers.Initializer:
    """Returns the initializer that preserves the variance of a layer's outputs, section 3.5.

    Its standard deviation is `sqrt(keep_prob / fan_in)`, twice that before a gate.

    Args:
        keep_prob: The keep probability of the dropout on the layer's inputs.
        gated: Whether a gate follows, which reduces a small variance to a quarter.

    Example:

    >>> scaled_normal(keep_prob=0.75, gated=True).scale
    3.0
    """
    scale = 4.0 * keep_prob if gated else keep_prob
    return initializers.VarianceScaling(scale, "fan_in", "untruncated_normal")


def stack_windows(inputs: TensorLike, kernel_size: int, causal: bool) -> Tensor:
    """Returns the concatenated inputs of a convolution at each position, oldest first.

    Args:
        inputs: Float tensor `(batch, time, dim)`.
        kernel_size: Positive int.
        causal: Whether a window ends at its own position instead of being centered.

    Returns:
        A tensor `(batch, time, kernel_size * dim)`; zeros beyond both ends.

    Example:

    >>> windows = stack_windows(ops.reshape(ops.arange(1.0, 4.0), (1, 3, 1)), 2, causal=True)
    >>> [[float(x) for x in row] for row in windows[0]]
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    if kernel_size == 1:
        return inputs
    before = kernel_size - 1 if causal else (kernel_size - 1) // 2
    padded = ops.pad(inputs, ((0, 0), (before, kernel_size - 1 - before), (0, 0)))
    length = get_shape(inputs)[1]
    return ops.concatenate([padded[:, i : i + length] for i in range(kernel_size)], axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class GatedConvBlock(Layer):
    """A convolution, a gate and a residual sum that preserve the variance of the signal.

    Use it as a layer of a convolutional encoder, or with `causal=True` of a decoder, where it
    can also run step by step. A stack of n blocks covers n (kernel_size - 1) + 1 positions. The
    paper's initial weights preserve variances as small as those of its embeddings. (A gate reduces
    a small variance to 1/4, and a large one less: a block turns variance 1 into 1.2.)

    Args:
        units: Positive int, the width of the outputs. If the inputs have a different width, the
            residual is projected.
        kernel_size: Positive int, the number of positions in a window; odd, unless causal.
        causal: Whether the window ends at its own position.
        dropout: Float in [0, 1), the rate for the input of the convolution.
        weight_normalization: Whether kernels are parametrized by length and direction.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask, inputs_mask: Boolean `(batch, time)`, True at unmasked positions.
        training: Whether dropout is applied.

    Returns:
        A tensor `(batch, time, units)` in the compute dtype.

    State: a dict with `window`, `(rows, kernel_size - 1, dim)`, the inputs of previous steps.

    Raises:
        ValueError: If an argument is invalid.

    Masking: masked positions count as zeros and give zeros. Propagates the mask.

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
        units: int,
        kernel_size: int,
        causal: bool = False,
        dropout: float = 0.0,
        weight_normalization: bool = True,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "GatedConvBlock"
        self.supports_masking = True
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.kernel_size: int = validation.check_positive_int(owner, "kernel_size", kernel_size)
        self.causal = causal
        if not causal and kernel_size % 2 == 0:
            raise ValueError(
                f"{owner} expects an odd `kernel_size`, to center the window, unless `causal`. "
                f"Received: kernel_size={kernel_size}"
            )
        self.dropout: float = validation.check_number_in_range(
            owner, "dropout", dropout, 0, 1, exclude_high=True
        )
        self.weight_normalization = weight_normalization
        self.seed = seed
        self.input_dropout: CounterDropout = CounterDropout(
            dropout, seed, dtype=self.dtype_policy, name="dropout"
        )
        gated = scaled_normal(1 - dropout, gated=True)
        self.convolution: keras.layers.Layer = self._make_dense(2 * units, gated, "convolution")
        self.projection: keras.layers.Layer | None = None

    def _make_dense(self, units, initializer, name):
        options = {"kernel_initializer": initializer, "dtype": self.dtype_policy, "name": name}
        return make_dense(units, self.weight_normalization, **options)

    def build(self, inputs_shape: Shape) -> None:
        validation.check_inputs(self, inputs_shape)
        self.dim: int | None = inputs_shape[-1]
        self.convolution.build((None, None, self.kernel_size * self.dim))
        if self.dim != self.units:
            self.projection = self._make_dense(self.units, scaled_normal(), "projection")
            self.projection.build((None, None, self.dim))
        self.built = True

    def convolve(self, inputs: TensorLike, training: bool | None = None) -> Tensor:
        """Returns the gated convolution of all positions, `(batch, time, units)`.

        A decoder attends between this and `add_residual`.
        """
        inputs = self.input_dropout(inputs, training=training)
        return ops.glu(self.convolution(stack_windows(inputs, self.kernel_size, self.causal)))

    def add_residual(self, outputs: TensorLike, inputs: TensorLike) -> Tensor:
        """Returns `(outputs + inputs) sqrt(1/2)`; inputs of a different width are projected."""
        if self.projection is not None:
            inputs = self.projection(inputs)
        return (outputs + inputs) * SQRT_HALF

    def start(self, rows: Size) -> TensorDict:
        """Returns the state before the first step, for an int or int tensor of rows."""
        self._check_steps()
        shape = (rows, self.kernel_size - 1, self.dim)
        return {"window": ops.zeros(shape, dtype=self.compute_dtype)}

    def convolve_step(self, inputs: TensorLike, state: TensorDict) -> tuple[Tensor, TensorDict]:
        """Returns the gated convolution of one step, `(rows, units)`, and the state."""
        window = ops.concatenate([state["window"], inputs[:, None]], axis=1)
        flat = ops.reshape(window, (-1, self.kernel_size * self.dim))
        return ops.glu(self.convolution(flat)), {"window": window[:, 1:]}

    def step(self, inputs: TensorLike, state: TensorDict) -> tuple[Tensor, TensorDict]:
        """Runs one step of a causal block.

        Args:
            inputs: Float tensor `(rows, dim)`.
            state: The state, every leaf `(rows, ...)`.

        Returns:
            The output `(rows, units)` and the new state.
        """
        check_ready(self, inputs)
        self._check_steps()
        inputs = ops.cast(inputs, self.compute_dtype)
        outputs, state = self.convolve_step(inputs, state)
        return self.add_residual(outputs, inputs), state

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> TensorLike:
        validation.check_inputs(self, inputs.shape)
        mask = validation.resolve_mask(self, inputs, mask=mask, inputs_mask=inputs_mask)
        if mask is not None:
            # Padding may contain anything, even NaN, and is in its neighbors' windows.
            inputs = ops.where(mask[:, :, None], inputs, 0)
        outputs = self.add_residual(self.convolve(inputs, training), inputs)
        return outputs if mask is None else ops.where(mask[:, :, None], outputs, 0)

    def _check_steps(self):
        if not self.causal:
            raise ValueError(
                "GatedConvBlock runs step by step only if it is causal; otherwise it needs future "
                f"inputs. Pass `causal=True`. Received: causal={self.causal!r}"
            )

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        validation.check_inputs(self, inputs_shape)
        return (*tuple(inputs_shape)[:-1], self.units)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        shape = self.compute_output_shape(call.inputs.shape)
        validation.resolve_mask(self, call.inputs, mask=call.mask, inputs_mask=call.inputs_mask)
        return keras.KerasTensor(shape, self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_size": self.kernel_size,
            "causal": self.causal,
            "dropout": self.dropout,
            "weight_normalization": self.weight_normalization,
            "seed": self.seed,
        }
