"""Writing a patch through a grid of Gaussian filters, as DRAW does.

    write(w) = 1 / gamma F_Y^T w F_X                              equation 29

Gregor et al. 2015 (https://arxiv.org/abs/1502.04623), section 3.2; `gaussian_window` has the
filters and the names, `gaussian_glimpse` reads patches.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import bind_call
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    LayerOptions,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
)
from keras_attention.glimpses._gaussian_filters import (
    GaussianWindow,
    window_filters,
    write_patch,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class GaussianWriter(GaussianWindow):
    """Writes a small patch into an empty image, at a position and size computed from a state.

    It is the counterpart of `GaussianGlimpse`: the sum of such images is the canvas of DRAW.
    Compute the patch with the network, for example with `Dense(size * size)` of the state,
    reshaped.

    Args:
        height: Positive int, the number of rows of the image.
        width: Positive int, the number of its columns.
        project_state: Whether the layer learns the projection of the state to the five numbers.
            If not, `state` contains them: gx~, gy~, log variance, log stride, log gain.
        kernel_initializer: Initializer of that projection.
        bias_initializer: Initializer of its bias.

    Call arguments:
        patch: Float tensor `(batch, size, size)` or `(batch, size, size, channels)`.
        state: Float tensor `(batch, dim)`.
        return_window: Whether to return the window as well, for plots.

    Returns:
        The image `(batch, height, width)` or `(batch, height, width, channels)`; with
        `return_window` also the window `(batch, 5)`, as `GaussianGlimpse` returns it.

    Raises:
        ValueError: If a size is not a positive int, or a shape does not fit.

    Masking: ignores masks and propagates none.

    Example:

    >>> patch, state = keras.ops.ones((2, 5, 5)), keras.ops.ones((2, 6))
    >>> tuple(GaussianWriter(height=28, width=20)(patch, state).shape)
    (2, 28, 20)

    Reference: Gregor et al. 2015, https://arxiv.org/abs/1502.04623, section 3.2.
    """

    def __init__(
        self,
        height: int,
        width: int,
        project_state: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(project_state, kernel_initializer, bias_initializer, **kwargs)
        self.height: int = validation.check_positive_int("GaussianWriter", "height", height)
        self.width: int = validation.check_positive_int("GaussianWriter", "width", width)

    def build(self, patch_shape: Shape, state_shape: Shape) -> None:
        self._check_patch(patch_shape, state_shape)
        self.build_window(state_shape)

    def call(self, patch: Tensor, state: Tensor, return_window: bool = False) -> Outputs:
        self._check_patch(patch.shape, state.shape)
        size = get_shape(patch)[1]
        window = self.compute_window(state, size, self.height, self.width)
        filters = window_filters(window, size, self.height, self.width)
        filters_y, filters_x = (ops.cast(f, self.compute_dtype) for f in filters)
        patch_4d = ops.cast(patch, self.compute_dtype)
        patch_4d = patch_4d if len(patch.shape) == 4 else patch_4d[..., None]
        image = write_patch(patch_4d, filters_y, filters_x)
        image = ops.cast(image, window.dtype) / ops.reshape(window[:, 4], (-1, 1, 1, 1))
        # Division by a small gain may exceed the range of float16, and infinity would spoil the
        # gradients.
        image = ops.saturate_cast(image, self.compute_dtype)
        image = image if len(patch.shape) == 4 else image[..., 0]
        return (image, window) if return_window else image

    def _check_patch(self, patch_shape, state_shape):
        self.check_shapes("patch", patch_shape, "size, size", state_shape)
        if None not in patch_shape[1:3] and patch_shape[1] != patch_shape[2]:
            raise ValueError(
                "GaussianWriter expects a square `patch`, (batch, size, size). "
                f"Received: patch.shape={tuple(patch_shape)}"
            )

    def compute_output_shape(self, patch_shape: Shape, state_shape: Shape) -> OutputShape:
        self._check_patch(patch_shape, state_shape)
        return (patch_shape[0], self.height, self.width, *tuple(patch_shape)[3:])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        shape = self.compute_output_shape(call.patch.shape, call.state.shape)
        return self.make_output_spec(shape, call.return_window)

    def get_config(self) -> Config:
        return {**super().get_config(), "height": self.height, "width": self.width}
