"""Reading a patch through a grid of Gaussian filters, as DRAW does.

    read(x) = gamma F_Y x F_X^T                                   equation 27

Gregor et al. 2015 (https://arxiv.org/abs/1502.04623), section 3.2; `gaussian_window` has the
filters and the names, `gaussian_writer` the inverse operation.
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
    read_patch,
    window_filters,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class GaussianGlimpse(GaussianWindow):
    """Reads a small patch of an image, at a position and zoom computed from a state.

    Use it if a recurrent network should attend to an image part by part and learn the position
    by backpropagation. The state is projected to the five numbers of the window: its center
    (two), variance, stride and gain. With weights of 0 the window spans the image.
    `GaussianWriter` writes a patch into an image.

    Args:
        size: Positive int, the number of rows and columns of the patch.
        project_state: Whether the layer learns the projection of the state to the five numbers.
            If not, `state` contains them: gx~, gy~, log variance, log stride, log gain.
        kernel_initializer: Initializer of that projection.
        bias_initializer: Initializer of its bias.

    Call arguments:
        image: Float tensor `(batch, height, width)` or `(batch, height, width, channels)`.
        state: Float tensor `(batch, dim)`.
        return_window: Whether to return the window as well, for plots.

    Returns:
        The patch `(batch, size, size)` or `(batch, size, size, channels)`; with
        `return_window` also the window `(batch, 5)` in at least float32, in pixels counted
        from 1: center_x, center_y, variance, stride, gain.

    Raises:
        ValueError: If `size` is not a positive int, or a shape does not fit.

    Masking: ignores masks and propagates none.

    Example:

    >>> image, state = keras.ops.ones((2, 28, 20)), keras.ops.ones((2, 6))
    >>> tuple(GaussianGlimpse(size=5)(image, state).shape)
    (2, 5, 5)

    Reference: Gregor et al. 2015, https://arxiv.org/abs/1502.04623, section 3.2.
    """

    def __init__(
        self,
        size: int,
        project_state: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(project_state, kernel_initializer, bias_initializer, **kwargs)
        self.size: int = validation.check_positive_int("GaussianGlimpse", "size", size)

    def build(self, image_shape: Shape, state_shape: Shape) -> None:
        self.check_shapes("image", image_shape, "height, width", state_shape)
        self.build_window(state_shape)

    def call(self, image: Tensor, state: Tensor, return_window: bool = False) -> Outputs:
        self.check_shapes("image", image.shape, "height, width", state.shape)
        height, width = get_shape(image)[1:3]
        window = self.compute_window(state, self.size, height, width)
        filters = window_filters(window, self.size, height, width)
        filters_y, filters_x = (ops.cast(f, self.compute_dtype) for f in filters)
        image_4d = ops.cast(image, self.compute_dtype)
        image_4d = image_4d if len(image.shape) == 4 else image_4d[..., None]
        patch = read_patch(image_4d, filters_y, filters_x)
        patch = ops.cast(patch, window.dtype) * ops.reshape(window[:, 4], (-1, 1, 1, 1))
        # A gain may exceed the range of float16, and infinity would spoil the gradients.
        patch = ops.saturate_cast(patch, self.compute_dtype)
        patch = patch if len(image.shape) == 4 else patch[..., 0]
        return (patch, window) if return_window else patch

    def compute_output_shape(self, image_shape: Shape, state_shape: Shape) -> OutputShape:
        self.check_shapes("image", image_shape, "height, width", state_shape)
        return (image_shape[0], self.size, self.size, *tuple(image_shape)[3:])

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        shape = self.compute_output_shape(call.image.shape, call.state.shape)
        return self.make_output_spec(shape, call.return_window)

    def get_config(self) -> Config:
        return {**super().get_config(), "size": self.size}
