"""The layer that scales gradients: values untouched, gradient times the factor."""

import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import GradientScaling

VALUES = np.random.RandomState(1).randn(3, 5, 7)


@pytest.mark.parametrize("factor", [0.0, 1 / 6, 1.0])
def test_values_pass_and_gradients_are_scaled(factor):
    layer, inputs = GradientScaling(factor, dtype="float64"), tf.constant(VALUES)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
        loss = tf.reduce_sum(outputs**3)
    np.testing.assert_array_equal(outputs, VALUES)
    np.testing.assert_allclose(tape.gradient(loss, inputs), factor * 3 * VALUES**2, rtol=1e-12)


def test_values_pass_in_half_precision_too():
    inputs = tf.constant(1000 * VALUES, "float16")
    np.testing.assert_array_equal(GradientScaling(0.1, dtype="float16")(inputs), inputs)


def test_infinities_pass_too():
    inputs = tf.constant([1.0, -np.inf, np.inf])
    np.testing.assert_array_equal(GradientScaling(0.5)(inputs), inputs)


def test_a_negative_factor_is_refused():
    with pytest.raises(ValueError, match="`factor` to be a number in .0, inf.*factor=-1"):
        GradientScaling(-1)
