"""Gradients of a layer against differences of its outputs, in float64."""

import numpy as np
from tf_or_skip import tf

STEP = 1e-5


def assert_gradients_are_right(call, tensors, samples=6, atol=1e-7):
    """Compares the gradients of `sum(call() * noise)` with differences at some entries.

    Args:
        call: Callable without arguments that returns one tensor.
        tensors: The variables it reads: Keras variables, or `tf.Variable`s of inputs.
        samples: How many entries of each are moved.
        atol: The largest difference.
    """
    shape = call().shape
    noise = np.random.RandomState(5).randn(*shape)
    total = lambda: tf.reduce_sum(call() * noise)  # noqa: E731
    values = [x if isinstance(x, tf.Variable) else x.value for x in tensors]
    with tf.GradientTape() as tape:
        result = total()
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(result, values)]
    random = np.random.RandomState(7)
    for variable, gradient in zip(tensors, gradients, strict=True):
        start = np.array(variable)
        for index in random.choice(start.size, min(samples, start.size), replace=False):
            moved = np.zeros(start.size)
            moved[index] = STEP
            moved = moved.reshape(start.shape)
            variable.assign(start + moved)
            above = float(total())
            variable.assign(start - moved)
            below = float(total())
            variable.assign(start)
            difference = (above - below) / (2 * STEP)
            np.testing.assert_allclose(gradient.flat[index], difference, atol=atol, rtol=1e-5)
