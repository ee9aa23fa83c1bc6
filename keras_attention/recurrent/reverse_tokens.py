"""Reversed sources, Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215), section 3.3.

    a b c pad pad -> c b a 0 0

Only real tokens change places: were the whole row turned around, a network would read padding
first.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.written_gradient import custom_gradient, flat_upstream


def reversed_places(mask):
    """Returns where each place of a row takes its vector from, int32 `(batch, time)`.

    The n-th real token from the start and the n-th from the end change places, wherever
    padding stands.

    Args:
        mask: Boolean `(batch, time)`.
    """
    places = ops.broadcast_to(ops.arange(ops.shape(mask)[1], dtype="int32"), ops.shape(mask))
    real = ops.cast(mask, "int32")
    from_end = ops.sum(real, axis=1, keepdims=True) - ops.cumsum(real, axis=1)
    real_first = ops.argsort(ops.where(mask, places, places + ops.shape(mask)[1]), axis=1)
    return ops.where(mask, take_places(real_first, from_end), places)


def take_places(tensor, places):
    """Returns `tensor[row, places[row, t]]`, `(batch, time, ...)`."""
    return ops.take_along_axis(
        tensor, ops.reshape(places, (*ops.shape(places), *[1] * (len(tensor.shape) - 2))), axis=1
    )


@keras.saving.register_keras_serializable(package="keras_attention")
class ReverseTokens(Layer):
    """Turns the order of each row's real tokens around; padding stays at its places, as 0.

    Use it after an embedding that masks, so that a recurrent encoder reads the source
    backwards; a second one after the encoder puts its states in the source's order again, as
    alignments and local attention count it. In the model's graph, it is exported with it.

    Call arguments:
        inputs: Float tensor `(batch, time, dim)`.
        mask: Boolean `(batch, time)`, True for real tokens; without a mask all are.
        inputs_mask: Used where `mask` is None.

    Returns:
        A tensor like `inputs`, 0 where it is masked.

    Masking: reads the mask and passes it on: real tokens change places with real tokens.

    Example:

    >>> tokens = keras.ops.array([[[1.0], [2.0], [3.0], [0.0]]])
    >>> mask = keras.ops.array([[True, True, True, False]])
    >>> [float(token) for token in ReverseTokens()(tokens, mask=mask)[0, :, 0]]
    [3.0, 2.0, 1.0, 0.0]

    Reference: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215, section 3.3.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, inputs_shape):
        if len(inputs_shape) != 3:
            raise ValueError(
                "ReverseTokens expects `inputs` of shape (batch, time, dim). "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        self.built = True

    def call(self, inputs, mask=None, inputs_mask=None):
        masks = {"mask": mask, "inputs_mask": inputs_mask}
        mask = checks.own_mask("ReverseTokens", inputs.shape[:2], "(batch, time)", **masks)
        if mask is None:
            return ops.flip(inputs, axis=1)
        places = reversed_places(mask)

        def reverse(tensor):
            return ops.where(mask[:, :, None], take_places(tensor, places), 0)

        # Reversing is its own inverse: the gradient is reversed alike, where that of a
        # gather would be a scatter.
        @custom_gradient
        def run(inputs):
            return reverse(inputs), lambda *upstream: reverse(flat_upstream(upstream)[0])

        return run(inputs)

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)

    def compute_mask(self, inputs, mask=None):
        return mask
