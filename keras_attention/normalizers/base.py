"""What every normalizer is: scores and a mask in, weights out."""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.hooks import check_hooks, check_result, name_missing
from keras_attention.layer import Layer
from keras_attention.precision import wide_dtype

#: The hooks of a normalizer, with the arguments that they are called with, by position.
HOOKS = {
    "build": ("scores_shape",),
    "normalize": ("scores", "mask", "previous_weights", "training", "noise"),
    "noise": ("shape", "training"),
    "initial_weights": ("batch", "num_keys"),
    "call": ("scores", "mask", "previous_weights", "training", "noise"),
}


class Normalizer(Layer):
    """Turns scores into weights; the abstract second stage of attention.

    The mask is applied before normalizing. A row with nothing to keep gets weights of
    exactly 0 with finite gradients, in every dtype.

    Hooks, all of them called by position:
        normalize(scores, mask, previous_weights, training, noise): Returns weights of the shape
            of `scores`, which come in float32 (or float64); `mask` is boolean or None and
            broadcasts to them. Draws nothing. Has to be defined.
        noise(shape, training): Returns float32 noise of the shape of the scores, or None.
        initial_weights(batch, num_keys): Returns the weights before the first step,
            `(batch, key)`, where `reads_weights`.
        build(scores_shape): Adds weights.

    Wherever a hook cannot take these arguments the constructor says so.

    Attributes:
        random: Whether `noise` ever draws. A loop then calls `noise` once, before its first
            step, for all steps, and passes each step its part.
        reads_weights: Whether `previous_weights` changes the result. A loop then carries
            them, and starts from `initial_weights`.

    Call arguments:
        scores: Float tensor `(..., key)`: what a scorer returned.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.
        previous_weights: Optional float tensor like `scores`, the weights of the step
            before, for normalizers that look at them.
        training: Optional bool, for normalizers that add noise.
        noise: Optional float tensor like `scores`, what `noise` drew; by default it is
            drawn here.

    Returns:
        Weights of the shape of `scores` in the compute dtype.

    Raises:
        TypeError: If a hook takes other arguments.
        ValueError: If `mask` does not fit, or `normalize` returns another shape.

    Example:

    >>> from keras_attention import Attention, Normalizer
    >>> class SquaredNormalizer(Normalizer):
    ...     "Weighs a key by the square of its score; 0 where all are masked."
    ...     def normalize(
    ...         self, scores, mask=None, previous_weights=None, training=None, noise=None
    ...     ):
    ...         squares = keras.ops.square(scores)
    ...         squares = squares if mask is None else keras.ops.where(mask, squares, 0)
    ...         total = keras.ops.sum(squares, axis=-1, keepdims=True)
    ...         return squares / keras.ops.maximum(total, 1e-9)
    >>> attention = Attention("dot", normalizer=SquaredNormalizer())
    >>> query, value = keras.ops.array([[1.0]]), keras.ops.array([[[1.0], [2.0], [5.0]]])
    >>> mask = keras.ops.array([[True, True, False]])
    >>> context, weights = attention(query, value, value_mask=mask, return_attention_scores=True)
    >>> [round(float(weight), 3) for weight in weights[0]]
    [0.2, 0.8, 0.0]
    """

    random = False
    reads_weights = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # scores and noise are used in float32, not rounded first
        check_hooks(self, Normalizer, HOOKS)

    def build(self, scores_shape, *args, **kwargs):
        self.built = True

    def noise(self, shape, training=None):
        """Returns float32 noise of `shape`, that of the scores, or None where there is none."""
        return None

    def initial_weights(self, batch, num_keys):
        """Returns the weights before the first step, `(batch, key)` in the compute dtype."""
        return ops.zeros((batch, num_keys), dtype=self.compute_dtype)

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        """Returns weights for `scores` already in float32 (or float64).

        It draws nothing: without `noise` there is none.
        """
        name_missing(self, Normalizer, "normalize", "returns weights of the shape of `scores`")

    def call(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        if mask is not None:
            mask = self.check_mask(scores, mask)
        if noise is None:
            noise = self.noise(ops.shape(scores), training)
        scores, previous_weights, noise = map(self._widened, (scores, previous_weights, noise))
        weights = self.normalize(scores, mask, previous_weights, training, noise)
        check_result(self, "normalize", weights, tuple(scores.shape), "(..., key)")
        return ops.cast(weights, self.compute_dtype)

    def _widened(self, tensor):
        """Returns the tensor in float32, or in float64 under that policy."""
        return None if tensor is None else ops.cast(tensor, wide_dtype(self.compute_dtype))

    def check_mask(self, scores, mask):
        """Returns `mask` as booleans; raises `ValueError` unless it broadcasts to `scores`."""
        owner = type(self).__name__
        mask = checks.boolean_mask(owner, "mask", mask)
        rank = len(mask.shape)
        sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
        fits = all(None in pair or pair[0] in (pair[1], 1) for pair in sizes)
        if rank > len(scores.shape) or not fits:
            raise ValueError(
                f"{owner} expects `mask` to broadcast to `scores`. Received: "
                f"mask.shape={tuple(mask.shape)}, scores.shape={tuple(scores.shape)}"
            )
        return mask

    def get_config(self):
        return {**super().get_config()}

    def compute_output_shape(self, scores_shape, *args, **kwargs):
        return tuple(scores_shape)

    def compute_mask(self, *args, **kwargs):
        return None  # attached to the weights, it would not fit a loss on them

    def compute_output_spec(
        self, scores, mask=None, previous_weights=None, training=None, noise=None
    ):
        if mask is not None:
            self.check_mask(scores, mask)
        return keras.KerasTensor(scores.shape, dtype=self.compute_dtype)
