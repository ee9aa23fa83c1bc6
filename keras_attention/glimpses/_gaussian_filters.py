"""The grid of Gaussian filters of DRAW, Gregor et al. 2015 (https://arxiv.org/abs/1502.04623).

    (gx~, gy~, log s^2, log d~, log gamma) = W h                  equation 21
    gx = (A + 1) / 2 (gx~ + 1)     gy = (B + 1) / 2 (gy~ + 1)     equations 22 and 23
    d  = (max(A, B) - 1) / (N - 1) d~                             equation 24
    mu_i = g + (i - N / 2 - 0.5) d                                equations 19 and 20
    F[i, a] = exp(-(a - mu_i)^2 / (2 s^2)) / Z_i                  equations 25 and 26
    read(x)  = gamma F_Y x F_X^T                                  equation 27
    write(w) = 1 / gamma F_Y^T w F_X                              equation 29

An image has B rows and A columns. Pixels a and filters i are counted from 1. Code name -> paper
name: `center_x`, `center_y` -> gx, gy, `variance` -> s^2, `stride` -> d, `gain` -> gamma,
`filters_y`, `filters_x` -> F_Y, F_X, `size` -> N. Differences: Z_i is at least 1e-8, so filters
far outside the image are 0; logarithms are clipped to +-10; with N = 1 the stride, which then has
no effect, is max(A, B) - 1.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Mask,
    Shape,
    Spec,
    Tensor,
    TensorLike,
)

LOG_LIMIT = 10.0
MIN_FILTER_SUM = 1e-8
NUM_PARAMETERS = 5  # gx~, gy~, log s^2, log d~, log gamma


def gaussian_window(parameters: TensorLike, size: int, height: int, width: int) -> Tensor:
    """Returns the five window numbers in pixels, `(batch, 5)`.

    Args:
        parameters: Float tensor `(batch, 5)`: gx~, gy~, log s^2, log d~, log gamma.
        size: The number of filters on each side, N.
        height: The number of rows of the image, B.
        width: The number of columns of the image, A.

    Returns:
        center_x, center_y, variance, stride and gain, side by side.
    """
    height, width, size = (ops.cast(n, parameters.dtype) for n in (height, width, size))
    center_x = (width + 1.0) / 2.0 * (parameters[:, 0] + 1.0)
    center_y = (height + 1.0) / 2.0 * (parameters[:, 1] + 1.0)
    positive = ops.exp(ops.clip(parameters[:, 2:], -LOG_LIMIT, LOG_LIMIT))
    max_stride = (ops.maximum(height, width) - 1.0) / ops.maximum(size - 1.0, 1.0)
    stride = max_stride * positive[:, 1]
    return ops.stack([center_x, center_y, positive[:, 0], stride, positive[:, 2]], axis=-1)


def gaussian_filters(
    center: TensorLike, stride: TensorLike, variance: TensorLike, size: int, length: int
) -> Tensor:
    """Returns `size` filters over the positions 1 to `length`: `(batch, size, length)`.

    Args:
        center: Float tensor `(batch,)`, the middle of the grid, in pixels from 1.
        stride: Float tensor `(batch,)`, the distance between filters in pixels.
        variance: Float tensor `(batch,)`, the variance of all filters.
        size: The number of filters, N.
        length: The number of positions, A or B.
    """
    filters = ops.cast(ops.arange(1, size + 1), center.dtype)
    offsets = filters - ops.cast(size, center.dtype) / 2.0 - 0.5
    means = center[:, None] + offsets * stride[:, None]
    positions = ops.cast(ops.arange(1, length + 1), center.dtype)
    distances = positions - means[:, :, None]  # (batch, size, length)
    heights = ops.exp(-ops.square(distances) / (2.0 * variance[:, None, None]))
    return heights / ops.maximum(ops.sum(heights, axis=-1, keepdims=True), MIN_FILTER_SUM)


def window_filters(window: TensorLike, size: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Returns F_Y `(batch, size, height)` and F_X `(batch, size, width)` of a window.

    Args:
        window: Float tensor `(batch, 5)`, the result of `gaussian_window`.
        size, height, width: As in `gaussian_window`.
    """
    center_x, center_y, variance, stride, _ = ops.unstack(window, NUM_PARAMETERS, axis=-1)
    filters_y = gaussian_filters(center_y, stride, variance, size, height)
    return filters_y, gaussian_filters(center_x, stride, variance, size, width)


def read_patch(image: TensorLike, filters_y: TensorLike, filters_x: TensorLike) -> Tensor:
    """Returns F_Y x F_X^T for every channel of an image `(batch, height, width, channels)`."""
    rows = ops.einsum("bnh,bhwc->bnwc", filters_y, image)
    return ops.einsum("bmw,bnwc->bnmc", filters_x, rows)


def write_patch(patch: TensorLike, filters_y: TensorLike, filters_x: TensorLike) -> Tensor:
    """Returns F_Y^T w F_X for every channel of a patch `(batch, size, size, channels)`."""
    columns = ops.einsum("bmw,bnmc->bnwc", filters_x, patch)
    return ops.einsum("bnh,bnwc->bhwc", filters_y, columns)


class GaussianWindow(Layer):
    """Computes a window of Gaussian filters; base of the layers that read and write patches.

    Its numbers are computed in at least float32: bfloat16 would shift a window on a large image
    by whole pixels. A subclass calls `build_window` and `compute_window`.
    """

    kernel_initializer: Initializer
    bias_initializer: Initializer
    state_dim: int | None
    kernel: keras.Variable | None
    bias: keras.Variable | None

    def __init__(
        self,
        project_state: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # accept inputs with masks; no mask is propagated
        self.autocast = False  # see above
        self.project_state = project_state
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)

    def build_window(self, state_shape: Shape) -> None:
        """Adds the projection from the state to the five numbers."""
        self.state_dim = state_shape[-1]
        if self.project_state:
            shape = (self.state_dim, NUM_PARAMETERS)
            self.kernel = self.add_weight(
                shape, self.kernel_initializer, name="kernel", autocast=False
            )
            self.bias = self.add_weight(
                (NUM_PARAMETERS,), self.bias_initializer, name="bias", autocast=False
            )
        self.built = True

    def compute_window(self, state: TensorLike, size: int, height: int, width: int) -> Tensor:
        """Returns the result of `gaussian_window` for a state `(batch, dim)`."""
        wide = wide_dtype(self.compute_dtype)  # of windows
        parameters = ops.cast(state, wide)
        if self.project_state:
            kernel = ops.cast(self.kernel, wide)
            parameters = ops.matmul(parameters, kernel) + ops.cast(self.bias, wide)
        return gaussian_window(parameters, size, height, width)

    def check_shapes(self, name: str, image_shape: Shape, axes: str, state_shape: Shape) -> None:
        """Raises `ValueError` unless an image (or a patch) and a state have these shapes."""
        owner = type(self).__name__
        axes = f"(batch, {axes}) or (batch, {axes}, channels)"
        validation.check_axes(owner, name, image_shape, axes, known_width=False)
        validation.check_axes(owner, "state", state_shape, "(batch, dim)")
        validation.check_same_size(owner, 0, **{name: image_shape, "state": state_shape})
        if not self.project_state and state_shape[-1] != NUM_PARAMETERS:
            raise ValueError(
                f"{owner} with project_state=False expects the five numbers themselves, `state` "
                f"of shape (batch, {NUM_PARAMETERS}). Received: state.shape={tuple(state_shape)}"
            )
        if self.built and state_shape[-1] != self.state_dim:
            raise ValueError(
                f"{owner} was built for `state` of width {self.state_dim}. "
                f"Received: state.shape={tuple(state_shape)}"
            )

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def make_output_spec(self, shape: Shape, return_window: bool) -> Spec:
        """Returns the symbolic outputs: one of `shape`, and the window if requested."""
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        window = keras.KerasTensor((shape[0], NUM_PARAMETERS), wide_dtype(self.compute_dtype))
        return (output, window) if return_window else output

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "project_state": self.project_state,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
