"""The retina of RAM, Mnih et al. 2014 (https://arxiv.org/abs/1406.6247).

    rho(x, l) = k square patches around l, each s times wider than the previous,
                all resized to size x size                       section 3.1 and figure 1

Code name -> paper name: `image` -> x, `location` -> l, `num_scales` -> k, `scale_factor` -> s
(2 in the paper's figure), `size` -> g_w.

Coordinates: column a of an image covers the interval [a, a + 1), so the image covers
[0, width), and a location l = (x, y) in [-1, 1]^2 is the point ((x + 1) / 2 width,
(y + 1) / 2 height): (-1, -1) is the upper left corner, (0, 0) the center, (1, 1) the lower right
corner. A patch covers side / 2 on each side of its point and is divided into size x size cells.
The value of a cell is the mean of the image over it, with pixels weighted by overlap and zeros
outside the image. With cells of one pixel this is a plain crop if the corner coincides with a
pixel's corner, and bilinear interpolation elsewhere.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Spec,
    Tensor,
    TensorLike,
)
from keras_attention.glimpses._gaussian_filters import read_patch


def mean_filters(center: TensorLike, side: float, size: int, length: int) -> Tensor:
    """Returns the weight of each position in each of `size` cells: `(batch, size, length)`.

    Args:
        center: Float tensor `(batch,)`, the center of the cells, from 0 to `length`.
        side: Float, the extent of all cells together.
        size: Int, the number of cells.
        length: The number of positions.
    """
    cell = side / size
    left = center[:, None] - side / 2 + cell * ops.cast(ops.arange(size), center.dtype)
    left = left[:, :, None]
    positions = ops.cast(ops.arange(length), center.dtype)
    overlap = ops.minimum(left + cell, positions + 1.0) - ops.maximum(left, positions)
    return ops.relu(overlap) / cell


@keras.saving.register_keras_serializable(package="keras_attention")
class RetinaGlimpse(Layer):
    """Extracts patches of an image around a point: sharp at the center, coarser outward.

    Use it if a network selects its next location. It has no weights. The patches are
    piecewise linear in the location and pass a gradient to it. RAM samples its locations
    and learns them by REINFORCE instead, with `keras.ops.stop_gradient` around them.

    Args:
        size: Positive int, the number of rows and columns of every patch.
        num_scales: Positive int, the number of patches.
        scale_factor: Number of at least 1, the ratio of the widths of successive patches.

    Call arguments:
        image: Float tensor `(batch, height, width)` or `(batch, height, width, channels)`.
        location: Float tensor `(batch, 2)`: x and y, (-1, -1) is the upper left corner of the
            image and (1, 1) the lower right. The image is padded with zeros.

    Returns:
        Patches `(batch, num_scales, size, size)` or
        `(batch, num_scales, size, size, channels)`, the sharpest first.

    Raises:
        ValueError: If an argument lies outside its range, or a shape does not fit.

    Masking: ignores masks and propagates none.

    Example:

    >>> image = keras.ops.reshape(keras.ops.arange(16.0), (1, 4, 4))
    >>> patches = RetinaGlimpse(size=2, num_scales=2)(image, keras.ops.zeros((1, 2)))
    >>> [[float(v) for v in keras.ops.reshape(patch, (-1,))] for patch in patches[0]]
    [[5.0, 6.0, 9.0, 10.0], [2.5, 4.5, 10.5, 12.5]]

    Reference: Mnih et al. 2014, https://arxiv.org/abs/1406.6247, section 3.1.
    """

    def __init__(
        self,
        size: int,
        num_scales: int = 1,
        scale_factor: float = 2,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "RetinaGlimpse"
        self.supports_masking = True  # accept inputs with masks; no mask is propagated
        self.autocast = False  # bfloat16 would shift a location by whole pixels
        self.size: int = validation.check_positive_int(owner, "size", size)
        self.num_scales: int = validation.check_positive_int(owner, "num_scales", num_scales)
        self.scale_factor: float = validation.check_number_in_range(
            owner, "scale_factor", scale_factor, 1
        )

    def build(self, image_shape: Shape, location_shape: Shape) -> None:
        self._check_shapes(image_shape, location_shape)
        self.built = True

    def call(self, image: Tensor, location: Tensor) -> TensorLike:
        self._check_shapes(image.shape, location.shape)
        wide = wide_dtype(self.compute_dtype)
        location = ops.cast(location, wide)
        sizes = get_shape(image)[1:3]
        height, width = (ops.cast(size, wide) for size in sizes)
        center_x = (location[:, 0] + 1.0) / 2.0 * width
        center_y = (location[:, 1] + 1.0) / 2.0 * height
        image_4d = ops.cast(image, self.compute_dtype)
        image_4d = image_4d if len(image.shape) == 4 else image_4d[..., None]
        patches = []
        for scale in range(self.num_scales):
            side = float(self.size * self.scale_factor**scale)
            filters_y = mean_filters(center_y, side, self.size, sizes[0])
            filters_x = mean_filters(center_x, side, self.size, sizes[1])
            filters = (ops.cast(f, self.compute_dtype) for f in (filters_y, filters_x))
            patches.append(read_patch(image_4d, *filters))
        patches = ops.stack(patches, axis=1)
        return patches if len(image.shape) == 4 else patches[..., 0]

    def _check_shapes(self, image_shape, location_shape):
        axes = "(batch, height, width) or (batch, height, width, channels)"
        validation.check_axes("RetinaGlimpse", "image", image_shape, axes, known_width=False)
        if len(location_shape) != 2 or location_shape[-1] not in (2, None):
            raise ValueError(
                "RetinaGlimpse expects `location` of shape (batch, 2), x and y. "
                f"Received: location.shape={tuple(location_shape)}"
            )
        validation.check_same_size("RetinaGlimpse", 0, image=image_shape, location=location_shape)

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def compute_output_shape(self, image_shape: Shape, location_shape: Shape) -> OutputShape:
        self._check_shapes(image_shape, location_shape)
        batch, _, _, *channels = tuple(image_shape)
        return (batch, self.num_scales, self.size, self.size, *channels)

    def compute_output_spec(self, image: Tensor, location: Tensor) -> Spec:
        shape = self.compute_output_shape(image.shape, location.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "size": self.size,
            "num_scales": self.num_scales,
            "scale_factor": self.scale_factor,
        }
