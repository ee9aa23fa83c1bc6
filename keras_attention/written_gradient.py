"""What gradients written out by hand have in common."""

import keras
from keras import ops


def flat_upstream(upstream):
    """Returns the upstream gradients as a tuple; some backends pass them as one."""
    if len(upstream) == 1 and keras.tree.is_nested(upstream[0]):
        return tuple(upstream[0])
    return upstream


def summed_product(left, right):
    """Returns the sum over batch and time of the outer products of two sequences."""
    left = ops.reshape(left, (-1, left.shape[-1]))
    return ops.matmul(ops.transpose(left), ops.reshape(right, (-1, right.shape[-1])))
