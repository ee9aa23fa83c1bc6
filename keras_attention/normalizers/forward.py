"""Forward attention, Zhang et al. 2018 (https://arxiv.org/abs/1807.06736).

    a'_t(n) = (a_{t-1}(n) + a_{t-1}(n - 1)) y_t(n)
    a'_t(n) = ((1 - u) a_{t-1}(n) + u a_{t-1}(n - 1)) y_t(n)            with a transition agent
    a_t(n)  = a'_t(n) / sum_m a'_t(m),   y_t = softmax(e_t)

Code name -> paper name: `scores` -> e, `transition` -> u, `previous_weights` -> a_{t-1}. Before the
first step all weight is on key 0. The denominator of y cancels, so that a_t is the softmax of
e_t(n) + log of the weight that reaches key n, which cannot underflow.

Our additions: a masked key is skipped, so n - 1 is the unmasked key before n; a fully masked query
leaves the position unchanged; a key that a weight of at most 1e-10 (1e-4 in float16) reaches
gets 0; attention without any weight on unmasked keys starts on the first of them.
"""

import functools

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.normalizers._masking import MASKED_SCORE, mask_scores
from keras_attention.normalizers._stepwise import StepwiseNormalizer, run_steps
from keras_attention.normalizers.softmax import masked_softmax

MIN_WEIGHT = 1e-10  # the smallest weight that moves on; its reciprocal is a gradient
MIN_WEIGHT_FLOAT16 = 1e-4  # so that float16 can hold that gradient


def smallest_weight(dtype: str) -> float:
    """Returns the smallest weight that moves on, for weights that are carried in `dtype`."""
    return MIN_WEIGHT_FLOAT16 if dtype == "float16" else MIN_WEIGHT


def forward_step(
    scores: TensorLike,
    previous: TensorLike,
    transition: TensorLike | None = None,
    min_weight: float = MIN_WEIGHT,
) -> Tensor:
    """Returns the weights of one step.

    Args:
        scores: Float tensor `(..., key)` with MASKED_SCORE at masked keys.
        previous: Float tensor `(..., key)`, the weights of the previous step.
        transition: Optional float tensor `(..., 1)`, the probability u of moving on. None weighs
            staying and moving equally.
        min_weight: Number, the smallest weight that moves on.
    """
    valid = scores > MASKED_SCORE / 2
    counts = ops.cumsum(ops.cast(valid, "int32"), axis=-1)  # of unmasked keys up to each
    stay = ops.where(valid, previous, 0)
    is_placed = ops.any(stay > min_weight, axis=-1, keepdims=True)
    stay = ops.where(is_placed, stay, ops.cast(valid & (counts == 1), stay.dtype))
    move = _shift_valid(stay, valid, counts)
    if transition is not None:
        stay, move = (1 - transition) * stay, transition * move
    reach = stay + move
    is_reached = valid & (reach > min_weight)
    logs = ops.log(ops.where(is_reached, reach, 1))
    return masked_softmax(ops.where(is_reached, scores, 0) + logs, is_reached)


def _shift_valid(weights, valid, counts):
    """Returns the weight of the last valid key before each valid key, or 0."""
    num_keys = get_shape(weights)[-1]
    positions = ops.arange(num_keys, dtype="int32")
    order = ops.argsort(ops.where(valid, positions, positions + num_keys), axis=-1)
    before = _take(order, ops.maximum(counts - 2, 0))  # `order` has the valid keys first
    return ops.where(valid & (counts > 1), _take(weights, before), 0)


def _take(tensor, places):
    """Returns `ops.take_along_axis` for the last axis; XLA can differentiate it in a loop."""
    sizes = get_shape(tensor)
    flat, num_keys = ops.reshape(tensor, (-1,)), sizes[-1]
    places = ops.reshape(ops.cast(places, "int32"), (-1, num_keys))
    first = num_keys * ops.arange(get_shape(places)[0], dtype="int32")[:, None]
    return ops.reshape(ops.take(flat, places + first, axis=0), sizes)


@keras.saving.register_keras_serializable(package="keras_attention")
class ForwardNormalizer(StepwiseNormalizer):
    """Returns weights that stay on a key or move to the next one, from query to query.

    Use it if source and target are in the same order and no key may be skipped, as in speech
    synthesis: attention is learned fast and does not lose its place. `ForwardAttention` learns how
    fast to move. Several queries without `previous_weights` are steps in time: each starts from the
    weights of the query before, the first from key 0. With `previous_weights` each query is one
    step from its own previous weights.

    Call arguments:
        scores: Float tensor `(..., query, key)`, or `(batch, key)` for one query.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.
        previous_weights: Optional float tensor like `scores`, the weights of the previous step.

    Returns:
        Weights of the shape of `scores` in the compute dtype.

    Raises:
        ValueError: If `mask` does not fit.

    Masking: masked keys get exactly 0 and are skipped. Fully masked queries get zeros, and the
        next query continues from the weights before them.

    Example:

    >>> normalizer = ForwardNormalizer()
    >>> weights = normalizer(keras.ops.zeros((1, 2, 4)))
    >>> [[round(float(weight), 2) for weight in row] for row in weights[0]]
    [[0.5, 0.5, 0.0, 0.0], [0.25, 0.5, 0.25, 0.0]]

    Reference: Zhang et al. 2018, https://arxiv.org/abs/1807.06736.
    """

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        min_weight = smallest_weight(self.compute_dtype)
        step_function = functools.partial(forward_step, min_weight=min_weight)

        def recursion(scores, initial, valid):
            return run_steps(scores, initial, valid, step_function)

        return self.recur(mask_scores(scores, mask), mask, previous_weights, recursion)
