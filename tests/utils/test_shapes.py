"""Shapes: known sizes cost no operation, unknown ones are read from the tensor."""

import numpy as np
import pytest
from keras import ops
from tf_or_skip import tf

from keras_attention import MultiHeadAttention
from keras_attention._utils.shapes import get_shape, reshape


def operations(function, *shapes):
    """Returns the types of the operations that the graph of `function` has."""
    specs = [tf.TensorSpec(shape, "float32") for shape in shapes]
    graph = tf.function(function).get_concrete_function(*specs).graph
    return [operation.type for operation in graph.get_operations()]


def test_known_sizes_are_read_without_an_operation():
    assert get_shape(ops.ones((2, 5))) == (2, 5)
    assert "Shape" not in operations(lambda x: x + get_shape(x)[0], (2, 5))
    layer = MultiHeadAttention(num_heads=3, key_dim=2)
    layer(ops.ones((2, 5, 7)), ops.ones((2, 5, 7)))
    assert "Shape" not in operations(lambda x: layer(x, x), (2, 5, 7))


@pytest.mark.parametrize("shape", [(None, 5), (None, None)])
def test_unknown_sizes_are_those_of_the_tensor(shape):
    @tf.function(input_signature=[tf.TensorSpec(shape, "float32")])
    def sizes(x):
        return get_shape(x)

    assert [int(size) for size in sizes(np.ones((3, 5), "float32"))] == [3, 5]


def test_reshape_keeps_a_tensor_that_has_the_shape():
    assert operations(lambda x: reshape(x, (2, 5)), (2, 5)).count("Reshape") == 0
    assert operations(lambda x: reshape(x, (5, 2)), (2, 5)).count("Reshape") == 1
    x = tf.reshape(tf.range(10), (2, 5))
    np.testing.assert_array_equal(reshape(x, (5, 2)), np.arange(10).reshape(5, 2))
    unknown = tf.function(
        lambda x: reshape(x, (get_shape(x)[1], get_shape(x)[0])),
        input_signature=[tf.TensorSpec((None, None), "int32")],
    )
    np.testing.assert_array_equal(unknown(x), np.arange(10).reshape(5, 2))
