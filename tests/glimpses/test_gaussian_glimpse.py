"""Reading and writing through Gaussian filters: the paper's sums, crops, and the edges."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import GaussianGlimpse, GaussianWriter
from keras_attention.glimpses._gaussian_filters import (
    gaussian_filters,
    gaussian_window,
    window_filters,
)

HEIGHT, WIDTH, SIZE, CHANNELS = 11, 7, 3, 2
RANDOM = np.random.RandomState(1)
IMAGES = RANDOM.randn(2, HEIGHT, WIDTH, CHANNELS)
PATCHES = RANDOM.randn(2, SIZE, SIZE, CHANNELS)
#: gx~, gy~, log variance, log stride, log gain
NUMBERS = np.array([[0.2, -0.3, -0.4, -0.7, 0.3], [-0.6, 0.5, 0.6, 0.1, -0.9]])


def _reader(size=SIZE, **options):
    return GaussianGlimpse(size, project_state=False, dtype="float64", **options)


def _writer(height=HEIGHT, width=WIDTH):
    return GaussianWriter(height, width, project_state=False, dtype="float64")


def _paper_filters(parameters, size, height, width):
    """F_Y, F_X and the gain of equations 19 to 26, index by index."""
    x, y, variance, stride, gain = [*parameters[:2], *np.exp(parameters[2:])]
    stride *= (max(width, height) - 1) / (size - 1) if size > 1 else 1
    filters = []
    for center, length in (
        ((height + 1) / 2 * (y + 1), height),
        ((width + 1) / 2 * (x + 1), width),
    ):
        rows = np.zeros((size, length))
        for i in range(1, size + 1):
            mean = center + (i - size / 2 - 0.5) * stride
            for a in range(1, length + 1):
                rows[i - 1, a - 1] = np.exp(-((a - mean) ** 2) / (2 * variance))
            rows[i - 1] /= rows[i - 1].sum()
        filters.append(rows)
    return *filters, gain


def test_worked_numbers():
    parameters = np.array([[0.2, 0.2, 0.0, np.log(0.5), 0.0]])
    window = gaussian_window(keras.ops.array(parameters, "float64"), 3, 5, 5)
    np.testing.assert_allclose(window[0], [3.6, 3.6, 1.0, 1.0, 1.0], atol=1e-12)
    filters = gaussian_filters(window[:, 0], window[:, 3], window[:, 2], 3, 5)
    expected = [0.112663, 0.338458, 0.374054, 0.152079, 0.022746]
    np.testing.assert_allclose(filters[0, 0], expected, atol=5e-7)
    means = np.array(filters) @ np.arange(1, 6)
    assert np.all(np.diff(means[0]) > 0), "the filters go from left to right"


@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_read_patch_is_the_papers(size):
    patches, window = _reader(size)(IMAGES, NUMBERS, return_window=True)
    for row, parameters in enumerate(NUMBERS):
        filters_y, filters_x, gain = _paper_filters(parameters, size, HEIGHT, WIDTH)
        for channel in range(CHANNELS):
            expected = gain * filters_y @ IMAGES[row, :, :, channel] @ filters_x.T
            np.testing.assert_allclose(patches[row, ..., channel], expected, atol=1e-12)
        np.testing.assert_allclose(window[row, 4], gain, atol=1e-12)
        np.testing.assert_allclose(
            window[row, 0], (WIDTH + 1) / 2 * (parameters[0] + 1), atol=1e-12
        )


def test_a_written_image_is_the_papers():
    images = _writer()(PATCHES, NUMBERS)
    for row, parameters in enumerate(NUMBERS):
        filters_y, filters_x, gain = _paper_filters(parameters, SIZE, HEIGHT, WIDTH)
        for channel in range(CHANNELS):
            expected = filters_y.T @ PATCHES[row, :, :, channel] @ filters_x / gain
            np.testing.assert_allclose(images[row, ..., channel], expected, atol=1e-12)


def test_images_without_channels_have_one():
    np.testing.assert_array_equal(
        _reader()(IMAGES[..., 0], NUMBERS), _reader()(IMAGES, NUMBERS)[..., 0]
    )
    np.testing.assert_array_equal(
        _writer()(PATCHES[..., 1], NUMBERS), _writer()(PATCHES, NUMBERS)[..., 1]
    )


def _pixelwise(center_x, center_y, size):
    """Numbers of a window with a tiny variance, stride 1 and gain 1 around a pixel from 1."""
    x, y = 2 * center_x / (WIDTH + 1) - 1, 2 * center_y / (HEIGHT + 1) - 1
    stride = np.log((size - 1) / (max(HEIGHT, WIDTH) - 1))
    return np.array([[x, y, -9.0, stride, 0.0]])


@pytest.mark.parametrize(("center", "size"), [((3, 5), 3), ((4, 8), 5), ((2.5, 6.5), 4)])
def test_means_on_pixels_with_a_tiny_variance_are_a_crop(center, size):
    """Filters counted from 0, a common mistake, would move the crop by one pixel."""
    left, top = (int(c - (size + 1) / 2) for c in center)  # from 0
    crop = IMAGES[:1, top : top + size, left : left + size]
    patch = _reader(size)(IMAGES[:1], _pixelwise(*center, size))
    np.testing.assert_allclose(patch, crop, atol=1e-12)


def test_a_written_crop_lies_where_it_was_read():
    parameters = _pixelwise(3, 5, 3)
    image = np.array(_writer()(PATCHES[:1], parameters))
    np.testing.assert_allclose(image[:, 3:6, 1:4], PATCHES[:1], atol=1e-12)
    np.testing.assert_allclose(np.abs(image).sum(), np.abs(PATCHES[:1]).sum(), atol=1e-9)


def test_filters_sum_to_one_inside_and_to_zero_far_outside():
    center = keras.ops.array([4.0, 400.0], "float64")
    ones = keras.ops.ones_like(center)
    sums = np.array(gaussian_filters(center, ones, ones, 3, 7)).sum(-1)
    np.testing.assert_allclose(sums[0], 1.0, atol=1e-12)
    np.testing.assert_array_equal(sums[1], 0.0)


def test_weights_of_zero_span_the_image():
    layer = GaussianGlimpse(5, kernel_initializer="zeros", dtype="float64")
    _, window = layer(IMAGES, np.ones((2, 13)), return_window=True)
    np.testing.assert_allclose(window[0], [4.0, 6.0, 1.0, 10 / 4, 1.0], atol=1e-12)


def test_the_map_from_the_state_is_learned():
    layer = GaussianGlimpse(SIZE, dtype="float64", bias_initializer="normal")
    state = RANDOM.randn(2, 13)
    patch = layer(IMAGES, state)
    kernel, bias = layer.get_weights()
    np.testing.assert_allclose(patch, _reader()(IMAGES, state @ kernel + bias), atol=1e-12)


def test_drawing_reads_and_writes_in_a_functional_model():
    """A step of DRAW: what the canvas lacks is read, and a patch is added to it."""
    image, state = keras.Input((HEIGHT, WIDTH)), keras.Input((13,))
    patch = GaussianGlimpse(SIZE)(image, state)
    canvas = GaussianWriter(HEIGHT, WIDTH)(patch, state)
    model = keras.Model([image, state], [patch, canvas])
    shapes = [output.shape for output in model([IMAGES[..., 0], np.ones((2, 13))])]
    assert shapes == [(2, SIZE, SIZE), (2, HEIGHT, WIDTH)]


def test_half_precision_does_not_shift_a_window():
    glimpse = GaussianGlimpse(5, dtype="mixed_bfloat16", kernel_initializer="zeros")
    image, state = np.zeros((1, 4, 2000), "float32"), np.ones((1, 3), "float32")
    glimpse.build(image.shape, state.shape)
    glimpse.bias.assign([0.3, 0, 0, 0, 0])
    _, window = glimpse(image, state, return_window=True)
    np.testing.assert_allclose(window[0, 0], 2001 / 2 * 1.3, rtol=1e-6)


def test_gradients_equal_finite_differences():
    reader, upstream = _reader(), RANDOM.randn(2, SIZE, SIZE, CHANNELS)

    def loss(parameters):
        return tf.reduce_sum(reader(IMAGES, parameters) * upstream)

    parameters = tf.constant(NUMBERS)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        value = loss(parameters)
    gradient = tape.gradient(value, parameters).numpy()
    for index in np.ndindex(NUMBERS.shape):
        step = np.zeros_like(NUMBERS)
        step[index] = 1e-6
        difference = (loss(NUMBERS + step) - loss(NUMBERS - step)) / 2e-6
        np.testing.assert_allclose(gradient[index], difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("value", [-1e4, 0.0, 1e4])
def test_extreme_numbers_give_finite_patches_and_gradients(policy, value):
    reader = GaussianGlimpse(SIZE, project_state=False, dtype=policy)
    writer = GaussianWriter(HEIGHT, WIDTH, project_state=False, dtype=policy)
    for layer, image in ((reader, IMAGES), (writer, PATCHES)):
        for index in range(5):
            parameters = NUMBERS.astype("float32")
            parameters[:, index] = value
            parameters = tf.constant(parameters)
            with tf.GradientTape() as tape:
                tape.watch(parameters)
                output = layer(image.astype("float32"), parameters)
                total = tf.reduce_mean(tf.cast(output, "float32"))
            assert np.isfinite(tf.cast(output, "float32").numpy()).all()
            assert np.isfinite(tape.gradient(total, parameters).numpy()).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianGlimpse(0), "`size` to be a positive int"),
        (lambda: GaussianWriter(0, 3), "`height` to be a positive int"),
        (lambda: GaussianWriter(3, 2.5), "`width` to be a positive int"),
        (lambda: _reader()(IMAGES, NUMBERS[:, :4]), r"the five numbers.*state.shape=\(2, 4\)"),
        (lambda: _reader()(IMAGES[0, :, :, 0], NUMBERS), r"image.shape=\(11, 7\)"),
        (lambda: _reader()(IMAGES, NUMBERS[None]), r"state.shape=\(1, 2, 5\)"),
        (lambda: _reader()(IMAGES[:1], NUMBERS), "same size on axis 0"),
        (lambda: _writer()(IMAGES, NUMBERS), r"square `patch`.*patch.shape=\(2, 11, 7, 2\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_filters_of_rows_and_columns_are_not_swapped():
    window = gaussian_window(keras.ops.array(NUMBERS), SIZE, HEIGHT, WIDTH)
    filters_y, filters_x = window_filters(window, SIZE, HEIGHT, WIDTH)
    assert filters_y.shape == (2, SIZE, HEIGHT) and filters_x.shape == (2, SIZE, WIDTH)


def test_channels_are_read_and_written_in_a_graph_as_they_are_eagerly():
    # Graph optimization once lost the axes of a gain that was sliced with new ones: with two rows
    # and two channels a gain then met a channel instead of a row.
    image, patch, state = keras.Input(IMAGES.shape[1:]), keras.Input((3, 3, 2)), keras.Input([5])
    read = GaussianGlimpse(SIZE, project_state=False)(image, state)
    written = GaussianWriter(HEIGHT, WIDTH, project_state=False)(patch, state)
    model = keras.Model([image, patch, state], [read, written])
    inputs = [array.astype("float32") for array in (IMAGES, PATCHES, NUMBERS)]
    for drawn, expected in zip(model.predict_on_batch(inputs), model(inputs), strict=True):
        np.testing.assert_allclose(drawn, expected, rtol=1e-4, atol=1e-5)
