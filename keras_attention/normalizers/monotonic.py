"""Monotonic attention, Raffel et al. 2017 (https://arxiv.org/abs/1704.00784).

    p_ij = sigmoid(e_ij + r + noise)                              equation 6, section 2.7
    q_ij = (1 - p_i,j-1) q_i,j-1 + a_i-1,j                        section 2.4
    a_ij = p_ij q_ij                                              equation 9
    a_i  = p_i cumprod(1 - p_i) cumsum(a_i-1 / cumprod(1 - p_i))  equation 10, in parallel

Code name -> paper name: `scores` -> e, `score_bias` -> r, `stop_probabilities` -> p, `arriving` ->
q, `weights` -> a, `previous_weights` -> a_i-1. Before the first step all weight is on key 0. From
the key where it stopped last, attention moves forward and stops at key j with probability p_ij.
Weights sum to at most 1: the rest is the probability of passing the last key.

Our additions: a masked key has p = 0 and is skipped; a fully masked query leaves the position
unchanged. Both products are exclusive, and the bounds are those of TensorFlow Addons.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.counter_random import normal
from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Shape,
    Sizes,
    Tensor,
    TensorLike,
)
from keras_attention.normalizers._masking import apply_mask, mask_scores
from keras_attention.normalizers._stepwise import StepwiseNormalizer, run_steps

MODES = ("parallel", "recursive", "hard")
MIN_PRODUCT = 1e-10  # lower bound of the divisor of equation 10
MIN_FACTOR = 1e-37  # lower bound of the argument of the logarithm


def monotonic_step(stop_probabilities: TensorLike, previous: TensorLike) -> Tensor:
    """Returns the weights of one step by equation 10.

    Args:
        stop_probabilities: Float tensor `(..., key)`, the probabilities p_i to stop at a key.
        previous: Float tensor `(..., key)`, the weights of the previous step.
    """
    logs = ops.log(ops.maximum(1 - stop_probabilities, MIN_FACTOR))
    passed = ops.exp(ops.cumsum(_shift(logs, 0), axis=-1))
    return (
        stop_probabilities
        * passed
        * ops.cumsum(previous / ops.maximum(passed, MIN_PRODUCT), axis=-1)
    )


def hard_step(stop_probabilities: TensorLike, previous: TensorLike) -> Tensor:
    """Returns the exact result of `monotonic_step` if both arguments contain only 0 and 1."""
    stop_probabilities = stop_probabilities * ops.cumsum(previous, axis=-1)
    return stop_probabilities * ops.cumprod(_shift(1 - stop_probabilities, 1), axis=-1)


def _shift(tensor, first):
    """Returns the tensor shifted by one place along its last axis, with `first` in front."""
    front = ops.full_like(tensor[..., :1], first)
    return ops.concatenate([front, tensor[..., :-1]], axis=-1)


def monotonic_recursion(
    stop_probabilities: TensorLike, initial: TensorLike, valid: TensorLike | None = None
) -> Tensor:
    """Returns the weights of all queries by the recursion of equation 9.

    q_ij and a_ij depend only on their neighbors (i, j - 1) and (i - 1, j), so a single loop over
    the diagonals i + j computes all queries at once.
    """
    queries, keys = get_shape(stop_probabilities)[1], get_shape(stop_probabilities)[2]
    arriving_first = ops.concatenate(
        [initial, ops.zeros_like(stop_probabilities[:, 1:, 0])], axis=1
    )
    sequence = ops.concatenate([arriving_first[:, :, None], _skew(stop_probabilities)], axis=-1)

    def step(inputs, states):
        staying, above = states  # (batch, query), of the previous diagonal
        stop_probabilities, first = inputs[:, 1:], inputs[:, :1]
        incoming = ops.concatenate([first, above[:, :-1]], axis=1)
        arriving = staying + incoming
        weights = stop_probabilities * arriving
        below = weights if valid is None else ops.where(valid, weights, incoming)
        return weights, [arriving - weights, below]

    zeros = ops.zeros_like(stop_probabilities[:, :, 0])
    # A masked query stops nothing: it passes the weight of the query before on to the next one.
    weights, _ = run_loop(step, sequence, [zeros, zeros])
    return _unskew(weights, queries, keys)


def _skew(rows):
    """Returns `(batch, row + column, row)` from `(batch, row, column)`, padded with 0."""
    batch, height, width = get_shape(rows)
    diagonals = height + width - 1
    # Rows padded to one more than `diagonals` and reshaped to `diagonals` shift by one each.
    padded = ops.concatenate([rows, ops.zeros((batch, height, height), rows.dtype)], axis=2)
    flat = ops.reshape(padded, (batch, height * (height + width)))[:, : height * diagonals]
    return ops.transpose(ops.reshape(flat, (batch, height, diagonals)), (0, 2, 1))


def _unskew(diagonals, height, width):
    """Returns `(batch, row, column)` from `(batch, row + column, row)`."""
    batch = get_shape(diagonals)[0]
    length = height * (height + width - 1)
    flat = ops.reshape(ops.transpose(diagonals, (0, 2, 1)), (batch, length))
    padded = ops.concatenate([flat, ops.zeros((batch, height), flat.dtype)], axis=1)
    return ops.reshape(padded, (batch, height, height + width))[:, :, :width]


@keras.saving.register_keras_serializable(package="keras_attention")
class MonotonicNormalizer(StepwiseNormalizer):
    """Returns weights whose position only moves forward from query to query.

    Use it if source and target are in the same order, as in speech. With `mode="hard"` the keys
    can be consumed as a stream. Several queries without `previous_weights` are steps in time:
    each starts from the weights of the query before, the first from key 0. With
    `previous_weights` each query is one step from its own previous weights.

    Args:
        mode: "parallel" computes the expected weights by cumulative sums. It loses weight
            after a long stretch that attention has almost surely passed (a product below
            1e-10). "recursive" is exact and loops over the diagonals. "hard" stops at the first
            key with a score above 0; it is for trained models and has no gradient.
        sigmoid_noise: Float >= 0, the standard deviation of the noise added to scores during
            training, which drives the probabilities to 0 and 1.
        score_bias_init: Float, the initial value of the learnable number r that is added to all
            scores. Negative values make attention move further at first.
        seed: Optional int, the seed of the noise.

    Call arguments:
        scores: Float tensor `(..., query, key)`, or `(batch, key)` for one query.
        mask: Optional boolean tensor that broadcasts to `scores`; `True` means attend.
        previous_weights: Optional float tensor like `scores`, the weights of the previous step.
        training: Whether to add noise.
        noise: Optional float tensor like `scores`, standard normal noise to use instead of
            sampling it.

    Returns:
        Weights of the shape of `scores` in the compute dtype. They sum to at most 1.

    Raises:
        ValueError: If `mode` is unknown, `sigmoid_noise` is negative, or `mask` does not fit.

    Masking: masked keys get exactly 0 and are skipped. Fully masked queries get zeros, and the
        next query continues from the weights before them.

    Example:

    >>> normalizer = MonotonicNormalizer(mode="hard")
    >>> weights = normalizer(keras.ops.array([[[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]]]))
    >>> [[float(weight) for weight in row] for row in weights[0]]
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Reference: Raffel et al. 2017, https://arxiv.org/abs/1704.00784, section 2.
    """

    random = True

    def __init__(
        self,
        mode: str = "parallel",
        sigmoid_noise: float = 0.0,
        score_bias_init: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "MonotonicNormalizer"
        self.mode: str = validation.check_one_of(owner, "mode", mode, MODES)
        self.sigmoid_noise: float = validation.check_number_in_range(
            owner, "sigmoid_noise", sigmoid_noise, 0
        )
        self.score_bias_init: float = validation.check_number_in_range(
            owner, "score_bias_init", score_bias_init
        )
        self.seed = seed
        self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator(seed)

    def build(self, scores_shape: Shape, *args: Shape, **kwargs: Shape) -> None:
        start = keras.initializers.Constant(self.score_bias_init)
        self.score_bias: keras.Variable = self.add_weight(
            (), start, trainable=self.mode != "hard", name="score_bias", autocast=False
        )
        self.built = True

    def noise(self, shape: Sizes, training: bool | None = None) -> TensorLike | None:
        draws = training and self.sigmoid_noise > 0
        return normal(shape, self.seed_generator) if draws else None

    def normalize(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        previous_weights: Tensor | None = None,
        training: bool | None = None,
        noise: Tensor | None = None,
    ) -> TensorLike:
        def recursion(stop_probabilities, initial, valid):
            if self.mode == "recursive":
                return monotonic_recursion(stop_probabilities, initial, valid)
            step_function = hard_step if self.mode == "hard" else monotonic_step
            return run_steps(stop_probabilities, initial, valid, step_function)

        stop_probabilities = self._probabilities(scores, mask, noise)
        return self.recur(stop_probabilities, mask, previous_weights, recursion)

    def _probabilities(self, scores, mask, noise):
        """Returns p, the probability of stopping at each key."""
        if noise is not None:
            scores = scores + self.sigmoid_noise * noise
        scores = scores + ops.cast(self.score_bias, scores.dtype)
        if self.mode == "hard":
            stop_probabilities = ops.cast(ops.stop_gradient(scores) > 0, scores.dtype)
        else:
            stop_probabilities = ops.sigmoid(mask_scores(scores, mask))
        return apply_mask(stop_probabilities, mask)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "mode": self.mode,
            "sigmoid_noise": self.sigmoid_noise,
            "score_bias_init": self.score_bias_init,
            "seed": self.seed,
        }
