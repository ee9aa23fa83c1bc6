"""What the tests of several normalizers share: data, masks and gradients by differences."""

import keras
import numpy as np
from tf_or_skip import tf


def scores_and_mask(seed=0, shape=(3, 5, 7), scale=2.0):
    """Returns float64 scores and a mask with rows kept whole, kept in part, and empty."""
    random = np.random.RandomState(seed)
    mask = random.rand(*shape) > 0.4
    mask[0, 0], mask[1, 2] = True, False
    return scale * random.randn(*shape), mask


def gradient_of(function, inputs, upstream):
    """Returns the gradient of `sum(upstream * function(inputs))` at an array."""
    if keras.backend.backend() == "jax":
        import jax

        return np.array(jax.grad(lambda x: keras.ops.sum(function(x) * upstream))(inputs))
    inputs = tf.constant(inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(function(inputs) * upstream)
    return np.array(tape.gradient(total, inputs))


def gradient_by_differences(function, inputs, upstream, step=1e-6):
    """Returns what `gradient_of` does, from central differences.

    All moved copies go through `function` at once, on an axis of their own in front.
    """
    moves = step * np.eye(inputs.size).reshape(inputs.size, *inputs.shape)
    above, below = (np.array(function(inputs + sign * moves)) for sign in (1, -1))
    axes = tuple(range(1, above.ndim))
    return np.sum((above - below) * upstream, axis=axes).reshape(inputs.shape) / (2 * step)
