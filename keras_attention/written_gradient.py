"""What gradients written out by hand have in common."""

import functools
import sys

import keras
from keras import ops


def custom_gradient(function):
    """Returns `function` with the custom gradient that it returns beside its outputs.

    The one place that asks a backend for it.

    Args:
        function: Callable of tensors that returns `(outputs, gradient)`, as
            `keras.ops.custom_gradient` takes it.
    """
    if keras.backend.backend() == "torch":  # where Keras' takes one output and no list
        return functools.partial(_run_in_torch, function)
    return ops.custom_gradient(function)


def _run_in_torch(function, *tensors):
    """Returns the outputs of `function`, whose gradient is the one that it returns beside them."""
    structure = []

    class Written(sys.modules["torch"].autograd.Function):
        @staticmethod
        def forward(context, *tensors):
            outputs, context.gradient = function(*tensors)
            structure.append(outputs)
            return tuple(keras.tree.flatten(outputs))

        @staticmethod
        def backward(context, *upstream):
            gradients = context.gradient(*upstream)
            return gradients if isinstance(gradients, tuple) else (gradients,)

    outputs = Written.apply(*tensors)
    return keras.tree.pack_sequence_as(structure[0], list(outputs))


def flat_upstream(upstream):
    """Returns the upstream gradients as a tuple; some backends pass them as one."""
    if len(upstream) == 1 and keras.tree.is_nested(upstream[0]):
        return tuple(upstream[0])
    return upstream


def summed_product(left, right):
    """Returns the sum over batch and time of the outer products of two sequences."""
    left = ops.reshape(left, (-1, left.shape[-1]))
    return ops.matmul(ops.transpose(left), ops.reshape(right, (-1, right.shape[-1])))
