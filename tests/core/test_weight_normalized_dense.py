"""Weight normalization: the worked number, its start, its gradient at zeros."""

import numpy as np
from tf_or_skip import tf

from keras_attention.core.weight_normalized_dense import (
    column_norms,
    gain_initializer,
    normalize_kernel,
)

DIRECTION = np.random.RandomState(1).randn(5, 3, 7)


def test_the_worked_number():
    kernel = normalize_kernel(tf.constant([[3.0], [4.0]], "float64"), tf.constant([2.0], "float64"))
    np.testing.assert_allclose(np.array(kernel)[:, 0], [1.2, 1.6], atol=1e-12)


def test_each_output_channel_has_the_length_of_its_gain():
    gain = np.linspace(0.5, 2, 7)
    kernel = np.array(normalize_kernel(tf.constant(DIRECTION), tf.constant(gain)))
    np.testing.assert_allclose(np.sqrt((kernel**2).sum((0, 1))), gain, rtol=1e-12)


def test_the_first_kernel_is_the_one_that_was_drawn():
    gain = gain_initializer(tf.Variable(DIRECTION))((7,), "float64")
    kernel = normalize_kernel(tf.constant(DIRECTION), gain)
    np.testing.assert_allclose(np.array(kernel), DIRECTION, rtol=1e-12)


def test_a_direction_of_zeros_has_a_finite_gradient():
    direction = tf.zeros((3, 2))
    with tf.GradientTape() as tape:
        tape.watch(direction)
        norms = column_norms(direction)
    assert np.all(np.isfinite(np.array(tape.gradient(norms, direction))))
