"""The interface of all normalizers: turn scores and a mask into weights."""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.subclass_hooks import check_hook_result, check_hooks, name_missing
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Size,
    Sizes,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)

#: The hooks of a normalizer and the positional arguments that the library passes.
HOOKS: dict[str, tuple[str, ...]] = {
    "build": ("scores_shape",),
    "normalize": ("scores", "mask", "previous_weights", "training", "noise"),
    "noise": ("shape", "training"),
    "initial_weights": ("batch", "num_keys"),
    "call": ("scores", "mask", "previous_weights", "training", "noise"),
}


class Normalizer(Layer):
    """Turns scores into weights; the abstract second stage of attention.

    The mask is applied before normalizing. Fully masked queries get weights of exactly 0 and
    finite gradients, in every dtype.

    Hooks, all called with positional arguments:

    * `normalize(scores, mask, previous_weights, training, noise)`: Returns weights of the shape
      of `scores`, which are float32 (or float64); `mask` is boolean or None and broadcasts to
      them. Must not sample. Required.
    * `noise(shape, training)`: Returns float32 noise of the shape of the scores, or None.
    * `initial_weights(batch, num_keys)`: Returns the weights before the first step, `(batch,
      key)`. Required if `reads_weights`.
    * `build(scores_shape)`: Adds weights.

    The constructor raises if a hook cannot take these arguments.

    Attributes:
        random: Whether `noise` ever samples. A loop then calls `noise` once before its first
            step, for all steps, and passes each step its slice.
        reads_weights: Whether `previous_weights` changes the result. A loop then carries
            the weights, beginning with `initial_weights`.

    Call arguments:
        scores: Float tensor `(..., key)`, the output of a scorer.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.
        previous_weights: Optional float tensor like `scores`, the weights of the previous
            step, for normalizers that use them.
        training: Optional bool, for normalizers that add noise.
        noise: Optional float tensor like `scores`, the result of the method `noise`, which
            the layer calls if it is None.

    Returns:
        Weights of the shape of `scores` in the compute dtype.

    Raises:
        TypeError: If a hook takes different arguments.
        ValueError: If `mask` does not fit, or `normalize` returns a different shape.

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

    def __init__(self, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # keeps scores and noise in float32 instead of rounding them
        check_hooks(self, Normalizer, HOOKS)

    def build(self, scores_shape: Shape, *args: Shape, **kwargs: Shape) -> None:
        self.built = True

    def noise(self, shape: Sizes, training: bool | None = None) -> TensorLike | None:
        """Returns float32 noise of `shape`, the shape of the scores, or None."""
        return None

    def initial_weights(self, batch: Size, num_keys: Size) -> TensorLike:
        """Returns the weights before the first step, `(batch, key)` in the compute dtype."""
        return ops.zeros((batch, num_keys), dtype=self.compute_dtype)

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        """Returns weights for `scores` in float32 (or float64).

        It does not sample: if `noise` is None, no noise is added.
        """
        name_missing(self, Normalizer, "normalize", "returns weights of the shape of `scores`")

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        if mask is not None:
            mask = self.check_mask(scores, mask)
        if noise is None:
            noise = self.noise(get_shape(scores), training)
        scores, previous_weights, noise = map(self._widen, (scores, previous_weights, noise))
        weights = self.normalize(scores, mask, previous_weights, training, noise)
        check_hook_result(self, "normalize", weights, tuple(scores.shape), "(..., key)")
        return ops.cast(weights, self.compute_dtype)

    def _widen(self, tensor):
        """Returns the tensor in float32, or in float64 under that policy."""
        return None if tensor is None else ops.cast(tensor, wide_dtype(self.compute_dtype))

    def check_mask(self, scores: TensorLike, mask: TensorLike) -> Tensor:
        """Returns `mask` as booleans; raises `ValueError` unless it broadcasts to `scores`."""
        owner = type(self).__name__
        mask = validation.convert_mask(owner, "mask", mask)
        rank = len(mask.shape)
        sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
        fits = all(None in pair or pair[0] in (pair[1], 1) for pair in sizes)
        if rank > len(scores.shape) or not fits:
            raise ValueError(
                f"{owner} expects `mask` to broadcast to `scores`. Received: "
                f"mask.shape={tuple(mask.shape)}, scores.shape={tuple(scores.shape)}"
            )
        return mask

    def get_config(self) -> Config:
        return {**super().get_config()}

    def compute_output_shape(
        self, scores_shape: Shape, *args: Shape, **kwargs: Shape
    ) -> OutputShape:
        return tuple(scores_shape)

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None  # a mask on the weights would not fit a loss on them

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        if call.mask is not None:
            self.check_mask(call.scores, call.mask)
        return keras.KerasTensor(call.scores.shape, dtype=self.compute_dtype)
