"""Reversed sources, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215), section 3.3.

    a b c pad pad -> c b a 0 0

Only real tokens are reversed: if the whole sequence were, a network would process the padding
first.
"""

import functools
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.kernels.custom_gradients import custom_gradient, flatten_cotangents


def compute_reversed_positions(mask: TensorLike) -> Tensor:
    """Returns the source position of each position, int32 `(batch, time)`.

    The n-th real token from the start and the n-th from the end are swapped, wherever padding
    stands.

    Args:
        mask: Boolean `(batch, time)`.
    """
    positions = ops.broadcast_to(ops.arange(get_shape(mask)[1], dtype="int32"), get_shape(mask))
    real = ops.cast(mask, "int32")
    from_end = ops.sum(real, axis=1, keepdims=True) - ops.cumsum(real, axis=1)
    real_first = ops.argsort(ops.where(mask, positions, positions + get_shape(mask)[1]), axis=1)
    return ops.where(mask, gather_positions(real_first, from_end), positions)


def gather_positions(tensor: TensorLike, positions: TensorLike) -> Tensor:
    """Returns `tensor[b, positions[b, t]]`, `(batch, time, ...)`."""
    return ops.take_along_axis(
        tensor,
        ops.reshape(positions, (*get_shape(positions), *[1] * (len(tensor.shape) - 2))),
        axis=1,
    )


@keras.saving.register_keras_serializable(package="keras_attention")
class ReverseTokens(Layer):
    """Reverses the order of each sequence's real tokens; padding stays in place, as 0.

    Use it after an embedding with a mask, so that a recurrent encoder processes the source in
    reverse. A second one after the encoder restores the order of the source for its states, which
    alignments and local attention need. As part of the model it is exported with it.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask: Boolean `(batch, time)`, True for real tokens; without a mask all are real.
        inputs_mask: Used if `mask` is None.

    Returns:
        A tensor like `inputs`, 0 where it is masked.

    Masking: uses the mask and propagates it: real tokens move only to places of real tokens.

    Example:

    >>> tokens = keras.ops.array([[[1.0], [2.0], [3.0], [0.0]]])
    >>> mask = keras.ops.array([[True, True, True, False]])
    >>> [float(token) for token in ReverseTokens()(tokens, mask=mask)[0, :, 0]]
    [3.0, 2.0, 1.0, 0.0]

    Reference: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215, section 3.3.
    """

    def __init__(self, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self._check_shape(inputs_shape)
        self.built = True

    def _check_shape(self, inputs_shape):
        axes = "(batch, time, dim)"
        validation.check_axes("ReverseTokens", "inputs", inputs_shape, axes, known_width=False)

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, inputs_mask: Tensor | None = None
    ) -> TensorLike:
        self._check_shape(inputs.shape)
        mask = validation.resolve_mask(self, inputs, mask=mask, inputs_mask=inputs_mask)
        if mask is None:
            return ops.flip(inputs, axis=1)
        positions = compute_reversed_positions(mask)

        def reverse(tensor):
            return ops.where(mask[:, :, None], gather_positions(tensor, positions), 0)

        # Reversing is its own inverse, so the gradient is a reversal as well. That of a gather
        # would be a scatter.
        @functools.partial(custom_gradient, reads_inputs_alone=True)
        def run(inputs):
            return reverse(inputs), lambda *cotangents: reverse(flatten_cotangents(cotangents)[0])

        return run(inputs)

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        self._check_shape(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        inputs = call.inputs
        shape = self.compute_output_shape(inputs.shape)
        validation.resolve_mask(self, inputs, mask=call.mask, inputs_mask=call.inputs_mask)
        return keras.KerasTensor(shape, inputs.dtype)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Mask:
        return mask
