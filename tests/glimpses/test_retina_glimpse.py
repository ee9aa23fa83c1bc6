"""The retina: crops on pixels, interpolation between them, means at coarser scales."""

import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import RetinaGlimpse

HEIGHT, WIDTH, CHANNELS = 11, 7, 2
RANDOM = np.random.RandomState(1)
IMAGES = RANDOM.randn(3, HEIGHT, WIDTH, CHANNELS)


def _location(x, y):
    """The location of a point given in pixels from the upper left corner."""
    return np.array([[2 * x / WIDTH - 1, 2 * y / HEIGHT - 1]])


def _crop(image, left, top, side):
    """A square cut out of an image with zeros around it."""
    padded = np.pad(image, ((side, side), (side, side), (0, 0)))
    return padded[top + side : top + 2 * side, left + side : left + 2 * side]


def _retina(size, num_scales=1, scale_factor=2):
    return RetinaGlimpse(size, num_scales, scale_factor, dtype="float64")


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(("left", "top"), [(2, 5), (0, 0), (-1, 9), (5, -2)])
def test_a_patch_on_pixels_is_a_crop(size, left, top):
    location = _location(left + size / 2, top + size / 2)
    patch = _retina(size)(IMAGES[:1], location)[0, 0]
    np.testing.assert_allclose(patch, _crop(IMAGES[0], left, top, size), atol=1e-12)


@pytest.mark.parametrize("factor", [2, 3])
def test_wider_patches_are_means_of_wider_crops(factor):
    size, center = 2, (3, 6)
    patches = _retina(size, 3, factor)(IMAGES[:1], _location(*center))[0]
    for scale, patch in enumerate(np.array(patches)):
        side = size * factor**scale
        crop = _crop(IMAGES[0], center[0] - side // 2, center[1] - side // 2, side)
        cell = factor**scale
        expected = crop.reshape(size, cell, size, cell, CHANNELS).mean((1, 3))
        np.testing.assert_allclose(patch, expected, atol=1e-12)


def test_between_pixels_it_interpolates():
    left, top, size = 1.25, 4.7, 3
    patch = _retina(size)(IMAGES[:1], _location(left + size / 2, top + size / 2))[0, 0]
    expected = 0.0
    for dx, share_x in ((1, 0.75), (2, 0.25)):
        for dy, share_y in ((4, 0.3), (5, 0.7)):
            expected = expected + share_x * share_y * _crop(IMAGES[0], dx, dy, size)
    np.testing.assert_allclose(patch, expected, atol=1e-12)


def test_corners_and_middle():
    ones = np.ones((3, HEIGHT, WIDTH))
    locations = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, -1.0]])
    patches = np.array(_retina(2)(ones, locations))[:, 0]
    np.testing.assert_allclose(patches[0], [[0, 0], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(patches[1], [[1, 1], [1, 1]], atol=1e-12)
    np.testing.assert_allclose(patches[2], [[0, 0], [1, 0]], atol=1e-12)


def test_rows_of_a_batch_look_at_their_own_place():
    locations = RANDOM.uniform(-1, 1, (3, 2))
    together = _retina(3, 2)(IMAGES, locations)
    for row in range(3):
        alone = _retina(3, 2)(IMAGES[row : row + 1], locations[row : row + 1])
        np.testing.assert_allclose(together[row], alone[0], atol=1e-12)


def test_far_outside_there_is_nothing_and_the_gradient_is_finite():
    location = tf.constant([[1e6, -1e6], [-50.0, 0.0], [0.3, 40.0]])
    image = tf.constant(IMAGES, "float32")
    with tf.GradientTape() as tape:
        tape.watch([location, image])
        patches = RetinaGlimpse(3, 2)(image, location)
        total = tf.reduce_sum(patches**2)
    assert np.all(patches.numpy() == 0)
    assert all(np.all(g.numpy() == 0) for g in tape.gradient(total, [location, image]))


def test_gradients_equal_finite_differences():
    upstream, at = RANDOM.randn(3, 2, 3, 3, CHANNELS), RANDOM.uniform(-0.8, 0.8, (3, 2))

    def loss(locations):
        return tf.reduce_sum(_retina(3, 2)(IMAGES, locations) * upstream)

    locations = tf.constant(at)
    with tf.GradientTape() as tape:
        tape.watch(locations)
        value = loss(locations)
    gradient = tape.gradient(value, locations).numpy()
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-7
        difference = (loss(at + step) - loss(at - step)) / 2e-7
        np.testing.assert_allclose(gradient[index], difference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_crop_is_exact_in_low_precision(dtype):
    """The location is not rounded to the compute dtype: on 200 pixels it would miss."""
    image = tf.cast(RANDOM.randint(0, 99, (1, 200, 200)), dtype)
    location = np.array([[2 * 151 / 200 - 1, 2 * 38 / 200 - 1]], "float32")
    patch = RetinaGlimpse(2, dtype=dtype)(image, location)[0, 0]
    np.testing.assert_array_equal(tf.cast(patch, "float32"), image[0, 37:39, 150:152])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RetinaGlimpse(0), "`size` to be a positive int"),
        (lambda: RetinaGlimpse(3, 0), "`num_scales` to be a positive int"),
        (lambda: RetinaGlimpse(3, 2, 0.5), "`scale_factor` to be a number in"),
        (lambda: _retina(3)(IMAGES, np.zeros((3, 3))), r"location.shape=\(3, 3\)"),
        (lambda: _retina(3)(IMAGES[0, 0], np.zeros((3, 2))), r"image.shape=\(7, 2\)"),
        (lambda: _retina(3)(IMAGES, np.zeros((2, 2))), "same size on axis 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
