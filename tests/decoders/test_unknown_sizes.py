"""A step traced for an unknown batch and an unknown number of beams equals the eager step."""

import keras
import numpy as np
import pytest
from keras import ops
from small_decoders import DECODERS
from tf_or_skip import tf


@pytest.fixture(autouse=True)
def float64():
    """In float32, graph and eager products may differ in the last bit."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy(policy)


def forget_first_axis(tensor):
    return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", DECODERS)
def test_a_step_is_traced_with_an_unknown_first_axis(name, beams):
    decoder, ids, encoded = (
        DECODERS[name](),
        ops.array([[2, 5], [2, 7]]),
        ops.ones((2, 7, 8), "float64"),
    )
    decoder(ids, encoded)
    memory = decoder.prepare(encoded)
    state = decoder.start(memory, max_length=4)
    state = keras.tree.map_structure(lambda leaf: ops.repeat(leaf, beams, axis=0), state)
    given = ops.repeat(ids[:, 0], beams, axis=0), state, memory
    signature = keras.tree.map_structure(forget_first_axis, given)
    step = tf.function(decoder.step, input_signature=signature, autograph=False)
    found, expected = step(*given), decoder.step(*given)
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)
