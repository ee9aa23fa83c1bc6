"""Helpers for custom gradients (VJPs) on every backend."""

import functools
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_attention._utils.tensor_types import Structure, Tensor, TensorLike


def custom_gradient(
    function: Callable[..., tuple[Structure, Callable[..., Structure]]],
    reads_inputs_alone: bool = False,
) -> Callable[..., Structure]:
    """Returns `function` with the custom gradient that it returns beside its outputs.

    The one place that asks a backend for it.

    Args:
        function: Callable of tensors that returns `(outputs, gradient)`, as
            `keras.ops.custom_gradient` takes it.
        reads_inputs_alone: Whether the gradient is computed from the inputs of `function` and
            the cotangents, and from nothing that `function` computed. On PyTorch, where the rest
            is computed without a graph, a second derivative needs it; of all others one raises.
    """
    if keras.backend.backend() == "torch":  # Keras supports one output and no list there
        return functools.partial(_run_in_torch, function, reads_inputs_alone)
    return ops.custom_gradient(function)


def _run_in_torch(function, reads_inputs_alone, *tensors):
    """Returns the outputs of `function`, differentiated by the gradient that it returns."""
    import torch

    structure = []

    class CustomGradient(torch.autograd.Function):
        @staticmethod
        def forward(context, *tensors):
            context.inputs = tensors
            outputs, context.gradient = function(*tensors)
            structure.append(outputs)
            return tuple(keras.tree.flatten(outputs))

        @staticmethod
        def backward(context, *upstream):
            if reads_inputs_alone or not torch.is_grad_enabled():
                gradients = context.gradient(*upstream)
                return gradients if isinstance(gradients, tuple) else (gradients,)
            with torch.no_grad():
                gradients = context.gradient(*upstream)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            return _refuse_second_derivative(gradients, (*context.inputs, *upstream))

    outputs = CustomGradient.apply(*tensors)
    return keras.tree.pack_sequence_as(structure[0], list(outputs))


def _refuse_second_derivative(gradients, sources):
    """Returns the gradients, such that their derivative by what they were made of raises.

    PyTorch's `once_differentiable` asks the upstream gradients alone whether there is one.
    """

    import torch

    class Refusal(torch.autograd.Function):
        @staticmethod
        def forward(context, *tensors):
            return tuple(one if one is None else one.clone() for one in tensors[: len(gradients)])

        @staticmethod
        def backward(context, *upstream):
            raise RuntimeError(
                "This layer has no second derivative on PyTorch: its gradient is a custom one. "
                "Compute it with `KERAS_BACKEND=tensorflow`."
            )

    return Refusal.apply(*gradients, *sources)


def flatten_cotangents(upstream: Sequence[TensorLike | Sequence[TensorLike]]) -> tuple[Tensor, ...]:
    """Returns the upstream gradients as a tuple; some backends pass them as one."""
    if len(upstream) == 1 and keras.tree.is_nested(upstream[0]):
        return tuple(upstream[0])
    return upstream


def sum_outer_products(left: TensorLike, right: TensorLike) -> Tensor:
    """Returns the sum over batch and time of the outer products of two sequences."""
    left = ops.reshape(left, (-1, left.shape[-1]))
    return ops.matmul(ops.transpose(left), ops.reshape(right, (-1, right.shape[-1])))
