"""Where heads look and what they read and write: worked numbers, limits, properties."""

import hypothesis
import keras
import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from hypothesis import strategies
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.ntm import (
    circular_shift,
    content_weights,
    interpolate,
    read_memory,
    scalar_shift,
    sharpen,
    write_memory,
)

MEMORY = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
KEY, STRENGTH, GATE, PREVIOUS, SHARPENING = [1, 1, 0], 3, 0.8, [0, 0, 1, 0, 0], 2
CONTENT = [0.197440, 0.197440, 0.023668, 0.475380, 0.106072]
GATED = [0.157952, 0.157952, 0.218934, 0.380304, 0.084857]
WORKED = {
    "shift_weights": (
        [0.1, 0.7, 0.2],
        [0.143333, 0.164050, 0.222875, 0.318486, 0.151256],
        [0.092776, 0.121533, 0.224317, 0.458058, 0.103316],
    ),
    "1.25": (
        1.25,
        [0.158719, 0.139678, 0.157952, 0.203689, 0.339962],
        [0.111117, 0.086056, 0.110046, 0.183002, 0.509779],
    ),
    "-0.4": (
        -0.4,
        [0.157952, 0.182345, 0.283482, 0.262125, 0.114095],
        [0.113256, 0.150937, 0.364805, 0.311908, 0.059094],
    ),
    "6.7": (
        6.7,
        [0.291670, 0.106786, 0.157952, 0.176247, 0.267345],
        [0.379851, 0.050916, 0.111399, 0.138699, 0.319135],
    ),
}
ERASE, ADDITION = [1, 0.5, 0], [0, 1, -1]
WRITTEN = [
    [0.907224, 0.092776, -0.092776],
    [0, 1.060767, -0.121533],
    [0, 0.224317, 0.775683],
    [0.541942, 1.229029, -0.458058],
    [0, 1.051658, 0.896684],
]
READ_BEFORE, READ_AFTER = [0.550834, 0.682907, 0.327633], [0.332409, 0.859463, 0.033446]

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
NEAR = {"rtol": 0, "atol": 1.5e-6}  # six places are printed


def heads(numbers, dtype="float32"):
    """Returns numbers of one head as a tensor `(1, 1, ...)`."""
    return keras.ops.convert_to_tensor(np.asarray(numbers, dtype)[None, None])


def one(tensor):
    return np.array(tensor)[0, 0]


@DTYPES
def test_worked_numbers_of_content_and_interpolation(dtype):
    memory = heads(MEMORY, dtype)[0]
    content = content_weights(heads(KEY, dtype), heads(STRENGTH, dtype), memory)
    np.testing.assert_allclose(one(content), CONTENT, **NEAR)
    gated = interpolate(content, heads(PREVIOUS, dtype), heads(GATE, dtype))
    np.testing.assert_allclose(one(gated), GATED, **NEAR)
    assert keras.backend.standardize_dtype(gated.dtype) == dtype


@DTYPES
@pytest.mark.parametrize("case", WORKED)
def test_worked_numbers_of_shift_and_sharpening(case, dtype):
    shift, shifted, sharpened = WORKED[case]
    move = circular_shift if case == "shift_weights" else scalar_shift
    moved = move(heads(GATED, dtype), heads(shift, dtype))
    np.testing.assert_allclose(one(moved), shifted, **NEAR)
    weights = sharpen(moved, heads(SHARPENING, dtype))
    np.testing.assert_allclose(one(weights), sharpened, **NEAR)
    assert keras.backend.standardize_dtype(weights.dtype) == dtype


@DTYPES
def test_worked_numbers_of_writing_and_of_both_readings(dtype):
    memory, weights = heads(MEMORY, dtype)[0], heads(WORKED["shift_weights"][2], dtype)
    written = write_memory(memory, weights, heads(ERASE, dtype), heads(ADDITION, dtype))
    np.testing.assert_allclose(np.array(written)[0], WRITTEN, **NEAR)
    np.testing.assert_allclose(one(read_memory(memory, weights)), READ_BEFORE, **NEAR)
    np.testing.assert_allclose(one(read_memory(written, weights)), READ_AFTER, **NEAR)


def test_the_order_of_write_heads_does_not_matter():
    random = np.random.RandomState(1)
    memory, weights = random.rand(2, 7, 5), random.rand(2, 3, 7)
    erase, addition = random.rand(2, 3, 5), random.randn(2, 3, 5)
    tensors = [keras.ops.convert_to_tensor(x) for x in (weights, erase, addition)]
    turned = [keras.ops.flip(x, 1) for x in tensors]
    memory = keras.ops.convert_to_tensor(memory)
    expected = np.array(write_memory(memory, *tensors))
    np.testing.assert_allclose(np.array(write_memory(memory, *turned)), expected, atol=1e-12)


@pytest.mark.parametrize("memory_size", [5, 6, 7])
def test_a_whole_shift_rotates_to_higher_indices(memory_size):
    weights = np.random.RandomState(2).dirichlet(np.ones(memory_size))
    for shift in (-2, -1, 0, 1, 2):
        shift_weights = np.eye(5)[shift + 2]
        rolled = np.roll(weights, shift)
        moved = circular_shift(heads(weights, "float64"), heads(shift_weights, "float64"))
        np.testing.assert_allclose(one(moved), rolled, atol=1e-15)
        moved = scalar_shift(heads(weights, "float64"), heads(shift, "float64"))
        np.testing.assert_allclose(one(moved), rolled, atol=1e-15)


@pytest.mark.parametrize("memory_size", [1, 2, 5, 7, 8])
def test_a_scalar_shift_goes_around_any_memory_any_number_of_times(memory_size):
    weights = np.random.RandomState(3).dirichlet(np.ones(memory_size))
    for shift in (-23.25, -memory_size, -0.5, 0.0, 3.75, 10 * memory_size + 0.5):
        whole, part = int(np.floor(shift)), shift - np.floor(shift)
        expected = [
            (1 - part) * weights[(i - whole) % memory_size]
            + part * weights[(i - whole - 1) % memory_size]
            for i in range(memory_size)
        ]
        moved = scalar_shift(heads(weights, "float64"), heads(shift, "float64"))
        np.testing.assert_allclose(one(moved), expected, atol=1e-14)


@pytest.mark.parametrize("max_shift", [1, 2, 3])
def test_the_scalar_form_is_the_circular_shift_by_its_shares(max_shift):
    shift, weights = ka.ScalarShift(max_shift), np.random.RandomState(4).dirichlet(np.ones(7))
    for z in (-0.99 * max_shift, -0.4, 0.0, 0.25, 0.99 * max_shift):
        raw = heads([np.arctanh(z / max_shift)], "float64")
        shift_weights = shift.shift_weights(raw)
        np.testing.assert_allclose(np.sum(one(shift_weights)), 1, atol=1e-12)
        moved = circular_shift(heads(weights, "float64"), shift_weights)
        exact = scalar_shift(heads(weights, "float64"), heads(z, "float64"))
        np.testing.assert_allclose(one(moved), one(exact), atol=1e-12)


def test_an_unbounded_scalar_shift_is_the_number_itself():
    weights = heads(np.random.RandomState(5).dirichlet(np.ones(7)))
    moved = ka.ScalarShift(max_shift=None).apply(weights, heads([6.7]))
    np.testing.assert_array_equal(one(moved), one(scalar_shift(weights, heads(6.7))))


def test_a_softmax_shift_without_reach_leaves_the_weights_in_place():
    weights = heads(np.random.RandomState(6).dirichlet(np.ones(7)))
    moved = ka.SoftmaxShift(max_shift=0).apply(weights, heads([1.7]))
    np.testing.assert_array_equal(one(moved), one(weights))


def test_limits():
    memory, previous = heads(MEMORY)[0], heads(np.random.RandomState(7).dirichlet(np.ones(5)))
    content = content_weights(heads(KEY), heads(0.0), memory)
    np.testing.assert_allclose(one(content), np.full(5, 0.2), atol=1e-7)
    sharp = content_weights(heads(KEY), heads(200.0), memory)
    np.testing.assert_allclose(one(sharp), np.eye(5)[3], atol=1e-6)  # slot 3 is the key itself
    # g = 0 and gamma = 1: the previous weights, rotated, and nothing else.
    kept = interpolate(content, previous, heads(0.0))
    rotated = sharpen(circular_shift(kept, heads([0.0, 0.0, 1.0])), heads(1.0))
    np.testing.assert_allclose(one(rotated), np.roll(one(previous), 1), atol=1e-6)
    np.testing.assert_allclose(
        one(interpolate(content, previous, heads(1.0))), one(content), atol=1e-7
    )
    best = np.eye(5)[np.argmax(one(previous))]
    np.testing.assert_allclose(one(sharpen(previous, heads(300.0))), best, atol=1e-6)


@hypothesis.settings(max_examples=25, derandomize=True, deadline=None, database=None)
@hypothesis.given(
    memory_size=strategies.sampled_from([3, 4, 7, 8]),
    magnitude=strategies.sampled_from([0.0, 1e-6, 1.0, 1e3]),
    strength=strategies.floats(0, 21),
    gate=strategies.floats(0, 1),
    sharpening=strategies.floats(1, 21),
    scalar=strategies.none() | strategies.floats(-20, 20),
    seed=strategies.integers(0, 99),
)
def test_weights_are_not_negative_and_sum_to_1(
    memory_size, magnitude, strength, gate, sharpening, scalar, seed
):
    random = np.random.RandomState(seed)
    memory = magnitude * random.randn(memory_size, 5)
    content = content_weights(heads(random.randn(5)), heads(strength), heads(memory)[0])
    gated = interpolate(content, heads(np.eye(memory_size)[memory_size // 2]), heads(gate))
    if scalar is None:
        moved = circular_shift(gated, heads(random.dirichlet(np.ones(3))))
    else:
        moved = scalar_shift(gated, heads(scalar))
    for weights in map(one, (content, gated, moved, sharpen(moved, heads(sharpening)))):
        assert np.all(weights >= 0)
        np.testing.assert_allclose(weights.sum(), 1, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e3])
def test_gradients_are_finite_where_all_slots_are_alike(value, dtype):
    """At zeros, the length of a key or a slot has no gradient of its own."""
    memory = tf.Variable(tf.cast(tf.fill([2, 7, 5], value), dtype))
    key = tf.Variable(tf.zeros([2, 3, 5], dtype))
    strength = tf.Variable(tf.cast(tf.fill([2, 3], 20.0), dtype))
    with tf.GradientTape() as tape:
        weights = content_weights(key, strength, memory)
        total = tf.reduce_sum(sharpen(weights, 20.0 * tf.ones([2, 3]))[:, :, 0] ** 2)
    assert weights.dtype == tf.float32
    np.testing.assert_allclose(weights, np.full((2, 3, 7), 1 / 7), atol=1e-6)
    for gradient in tape.gradient(total, [memory, key, strength]):
        assert np.isfinite(np.array(tf.cast(gradient, "float32"))).all()


def test_gradients_of_addressing_are_right():
    """Of all functions in a row, and of the scalar shift on both sides of a whole one."""
    random = np.random.RandomState(8)
    memory, key = tf.Variable(random.randn(2, 7, 5)), tf.Variable(random.randn(2, 3, 5))
    strength, gate = tf.Variable(5 * random.rand(2, 3)), tf.Variable(random.rand(2, 3))
    shift = tf.Variable(np.array([[1.25, -0.4, 6.7], [-9.3, 0.1, 20.6]]))
    sharpening = tf.Variable(1 + random.rand(2, 3))
    previous = tf.Variable(random.dirichlet(np.ones(7), (2, 3)))

    def prepare_addressing():
        gated = interpolate(content_weights(key, strength, memory), previous, gate)
        return sharpen(scalar_shift(gated, shift), sharpening)

    assert_gradients_are_right(
        prepare_addressing, [memory, key, strength, gate, shift, sharpening, previous]
    )


def test_shift_arguments_are_checked():
    for wrong in (-1, 1.5, True, "1"):
        with pytest.raises(
            ValueError, match=r"SoftmaxShift expects `max_shift` .* Received: max_shift="
        ):
            ka.SoftmaxShift(max_shift=wrong)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=r"`max_shift` .* None leaves it unbounded.*Received"):
            ka.ScalarShift(max_shift=wrong)


@pytest.mark.parametrize("shift", [ka.SoftmaxShift(2), ka.ScalarShift(3), ka.ScalarShift(None)])
def test_a_shift_survives_its_configuration(shift):
    saved = keras.saving.serialize_keras_object(shift)
    assert saved["registered_name"] == f"keras_attention>{type(shift).__name__}"
    again = keras.saving.deserialize_keras_object(saved)
    assert type(again) is type(shift) and again.get_config() == shift.get_config()
    assert again.size == shift.size
