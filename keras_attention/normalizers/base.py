"""What every normalizer is: scores and a mask in, weights out."""

import keras
from keras import ops

from keras_attention import checks


class Normalizer(keras.layers.Layer):
    """Turns scores into weights; the abstract second stage of attention.

    The mask is applied before normalizing. A row with nothing to keep gets weights of
    exactly 0 with finite gradients, in every dtype. A subclass defines `normalize`.

    Call arguments:
        scores: Float tensor `(..., key)`: what a scorer returned.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.
        previous_weights: Optional float tensor like `scores`, the weights of the step
            before, for normalizers that look at them.
        training: Optional bool, for normalizers that add noise.

    Returns:
        Weights of the shape and dtype of `scores`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, scores_shape, *args, **kwargs):
        self.built = True

    def normalize(self, scores, mask=None, previous_weights=None, training=None):
        """Returns weights for `scores` already in float32 (or float64)."""
        raise NotImplementedError

    def call(self, scores, mask=None, previous_weights=None, training=None):
        if mask is not None:
            self.check_mask(scores, mask)
        wide = at_least_float32(scores)
        weights = self.normalize(wide, mask, previous_weights, training)
        return ops.cast(weights, scores.dtype)

    def check_mask(self, scores, mask):
        """Raises `ValueError` unless `mask` is boolean and broadcasts to `scores`."""
        owner = type(self).__name__
        checks.boolean_mask(owner, "mask", mask)
        rank = len(mask.shape)
        sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
        fits = all(None in pair or pair[0] in (pair[1], 1) for pair in sizes)
        if rank > len(scores.shape) or not fits:
            raise ValueError(
                f"{owner} expects `mask` to broadcast to `scores`. Received: "
                f"mask.shape={tuple(mask.shape)}, scores.shape={tuple(scores.shape)}"
            )

    def get_config(self):
        return {**super().get_config()}

    def compute_output_shape(self, scores_shape, *args, **kwargs):
        return tuple(scores_shape)

    def compute_mask(self, *args, **kwargs):
        return None  # attached to the weights, it would not fit a loss on them

    def compute_output_spec(self, scores, mask=None, previous_weights=None, training=None):
        if mask is not None:
            self.check_mask(scores, mask)
        return keras.KerasTensor(scores.shape, dtype=self.compute_dtype)


def at_least_float32(scores):
    """Returns `scores` in float32, or unchanged when they are float64."""
    return (
        scores
        if keras.backend.standardize_dtype(scores.dtype) == "float64"
        else (ops.cast(scores, "float32"))
    )
