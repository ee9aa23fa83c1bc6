"""Monotonic attention, Raffel et al. 2017 (https://arxiv.org/abs/1704.00784).

    p_ij = sigmoid(e_ij + r + noise)                              equation 6, section 2.7
    q_ij = (1 - p_i,j-1) q_i,j-1 + a_i-1,j                        section 2.4
    a_ij = p_ij q_ij                                              equation 9
    a_i  = p_i cumprod(1 - p_i) cumsum(a_i-1 / cumprod(1 - p_i))  equation 10, in parallel

Code name -> paper name: `scores` -> e, `score_bias` -> r, `choose` -> p, `arriving` -> q,
`weights` -> a, `previous_weights` -> a_i-1. Before the first step all weight is on key 0. The
reader goes over the keys from where it stopped and stops at key j with probability p_ij, so
weights sum to at most 1: the rest is the probability to run off the end.

What we add: a masked key has p = 0 and is passed over; a query without keys leaves the reader
where it stood. Both products are exclusive, and the bounds are those of TensorFlow Addons.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.loop import run_loop
from keras_attention.noise import normal
from keras_attention.normalizers.base import Normalizer
from keras_attention.normalizers.masking import masked_scores, silenced

MODES = ("parallel", "recursive", "hard")
LEAST_PRODUCT = 1e-10  # the divisor of equation 10 is kept from 0
LEAST_FACTOR = 1e-37  # and so is the argument of the logarithm


def monotonic_step(choose, previous):
    """Returns the weights of one step by equation 10.

    Args:
        choose: Float tensor `(..., key)`, the probabilities p_i to stop at each key.
        previous: Float tensor `(..., key)`, the weights of the step before.
    """
    logs = ops.log(ops.maximum(1 - choose, LEAST_FACTOR))
    passed = ops.exp(ops.cumsum(_shifted(logs, 0), axis=-1))
    return choose * passed * ops.cumsum(previous / ops.maximum(passed, LEAST_PRODUCT), axis=-1)


def hard_step(choose, previous):
    """Returns what `monotonic_step` does where `choose` and `previous` hold 0 and 1, exactly."""
    choose = choose * ops.cumsum(previous, axis=-1)
    return choose * ops.cumprod(_shifted(1 - choose, 1), axis=-1)


def _shifted(tensor, first):
    """Returns the tensor one place further along its last axis, `first` at the front."""
    front = ops.full_like(tensor[..., :1], first)
    return ops.concatenate([front, tensor[..., :-1]], axis=-1)


def monotonic_steps(choose, initial, kept=None, one_step=monotonic_step):
    """Returns the weights of all queries, one query after the other.

    Args:
        choose: Float tensor `(batch, query, key)`.
        initial: Float tensor `(batch, key)`, the weights before the first query.
        kept: Optional boolean tensor `(batch, query)`. A query that is False gets zeros and
            changes nothing.
        one_step: `monotonic_step` or `hard_step`.
    """
    if choose.shape[1] == 1:
        return one_step(choose, initial[:, None])

    def step(choose, states):
        weights = one_step(choose, states[0])
        return weights, [weights]

    return run_loop(step, choose, [initial], mask=kept)[0]


def monotonic_recursion(choose, initial, kept=None):
    """Returns what `monotonic_steps` does, by the recursion of equation 9 itself.

    q_ij and a_ij need only their neighbors (i, j - 1) and (i - 1, j), so one loop over the
    diagonals i + j serves all queries at once.
    """
    queries, keys = ops.shape(choose)[1], ops.shape(choose)[2]
    arriving_first = ops.concatenate([initial, ops.zeros_like(choose[:, 1:, 0])], axis=1)
    sequence = ops.concatenate([arriving_first[:, :, None], _skewed(choose)], axis=-1)

    def step(inputs, states):
        staying, above = states  # (batch, query), of the diagonal before
        choose, first = inputs[:, 1:], inputs[:, :1]
        incoming = ops.concatenate([first, above[:, :-1]], axis=1)
        arriving = staying + incoming
        weights = choose * arriving
        below = weights if kept is None else ops.where(kept, weights, incoming)
        return weights, [arriving - weights, below]

    zeros = ops.zeros_like(choose[:, :, 0])
    # A query that is passed over keeps nothing back: what comes from above goes on below.
    weights, _ = run_loop(step, sequence, [zeros, zeros])
    return _unskewed(weights, queries, keys)


def _skewed(rows):
    """Returns `(batch, row + column, row)` from `(batch, row, column)`; elsewhere 0."""
    batch, height, width = ops.shape(rows)
    diagonals = height + width - 1
    # Rows one longer than `diagonals`, read with that length, shift by one from row to row.
    padded = ops.concatenate([rows, ops.zeros((batch, height, height), rows.dtype)], axis=2)
    flat = ops.reshape(padded, (batch, height * (height + width)))[:, : height * diagonals]
    return ops.transpose(ops.reshape(flat, (batch, height, diagonals)), (0, 2, 1))


def _unskewed(diagonals, height, width):
    """Returns `(batch, row, column)` from `(batch, row + column, row)`."""
    batch = ops.shape(diagonals)[0]
    length = height * (height + width - 1)
    flat = ops.reshape(ops.transpose(diagonals, (0, 2, 1)), (batch, length))
    padded = ops.concatenate([flat, ops.zeros((batch, height), flat.dtype)], axis=1)
    return ops.reshape(padded, (batch, height, height + width))[:, :, :width]


@keras.saving.register_keras_serializable(package="keras_attention")
class MonotonicNormalizer(Normalizer):
    """Turns scores into weights that only move forward from query to query.

    Use it where source and target run in one direction, as in speech; with `mode="hard"` the
    keys can be read as they come. Several queries without `previous_weights` are taken as
    steps in time: each starts from the weights of the query before, the first from key 0.
    With `previous_weights` each query is one step from the row it is given.

    Args:
        mode: "parallel" computes the expected weights by cumulative sums, and loses weight
            where the reader has surely passed a long stretch (a product below 1e-10);
            "recursive" is exact, by a loop over the keys; "hard" stops at the first key with
            a score above 0, for models that are trained, and has no gradient.
        sigmoid_noise: Float >= 0, the standard deviation of the noise added to scores while
            training, which drives the probabilities to 0 and 1.
        score_bias_init: Float, where the learnable number r added to all scores starts.
            Negative numbers let the reader look further at first.
        seed: Optional int, the seed of the noise.

    Call arguments:
        scores: Float tensor `(..., query, key)`, or `(batch, key)` for one query.
        mask: Optional boolean tensor that broadcasts to `scores`, True keeps.
        previous_weights: Optional float tensor like `scores`, the weights of the step before.
        training: Whether noise is added.
        noise: Optional float tensor like `scores`, standard normal noise that was drawn
            before.

    Returns:
        Weights of the shape of `scores` in the compute dtype. They sum to at most 1.

    Raises:
        ValueError: If `mode` is none of these, `sigmoid_noise` is negative, or `mask` does
            not fit.

    Masking: masked keys get exactly 0 and are passed over; a row without keys gets zeros, and
        the next query goes on from the row before it.

    Example:

    >>> normalizer = MonotonicNormalizer(mode="hard")
    >>> weights = normalizer(keras.ops.array([[[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]]]))
    >>> [[float(weight) for weight in row] for row in weights[0]]
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Reference: Raffel et al. 2017, https://arxiv.org/abs/1704.00784, section 2.
    """

    random = True
    reads_weights = True

    def __init__(
        self, mode="parallel", sigmoid_noise=0.0, score_bias_init=0.0, seed=None, **kwargs
    ):
        super().__init__(**kwargs)
        owner = "MonotonicNormalizer"
        self.mode = checks.one_of(owner, "mode", mode, MODES)
        self.sigmoid_noise = checks.number_in_range(owner, "sigmoid_noise", sigmoid_noise, 0)
        self.score_bias_init = checks.number_in_range(owner, "score_bias_init", score_bias_init)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, scores_shape, *args, **kwargs):
        start = keras.initializers.Constant(self.score_bias_init)
        self.score_bias = self.add_weight(
            (), start, trainable=self.mode != "hard", name="score_bias", autocast=False
        )
        self.built = True

    def noise(self, shape, training=None):
        draws = training and self.sigmoid_noise > 0
        return normal(shape, self.seed_generator) if draws else None

    def initial_weights(self, batch, num_keys):
        first = ops.cast(ops.arange(num_keys) == 0, self.compute_dtype)
        return ops.broadcast_to(first, (batch, num_keys))

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        shape, num_keys = ops.shape(scores), ops.shape(scores)[-1]
        in_time = previous_weights is None and len(shape) > 2
        rows = (-1, shape[-2] if in_time else 1, num_keys)
        choose = ops.reshape(self._probabilities(scores, mask, noise), rows)
        if previous_weights is None:
            initial = self.initial_weights(ops.shape(choose)[0], num_keys)
        else:
            initial = ops.reshape(previous_weights, (-1, num_keys))
        initial = ops.cast(initial, scores.dtype)
        kept = None
        if mask is not None:
            kept = ops.any(ops.reshape(ops.broadcast_to(mask, shape), rows), axis=-1)
        if self.mode == "recursive":
            weights = monotonic_recursion(choose, initial, kept)
        else:
            one_step = hard_step if self.mode == "hard" else monotonic_step
            weights = monotonic_steps(choose, initial, kept, one_step)
        return ops.reshape(weights, shape)

    def _probabilities(self, scores, mask, noise):
        """Returns p, the probability to stop at each key."""
        if noise is not None:
            scores = scores + self.sigmoid_noise * noise
        scores = scores + ops.cast(self.score_bias, scores.dtype)
        if self.mode == "hard":
            choose = ops.cast(ops.stop_gradient(scores) > 0, scores.dtype)
        else:
            choose = ops.sigmoid(masked_scores(scores, mask))
        return silenced(choose, mask)

    def get_config(self):
        return {
            **super().get_config(),
            "mode": self.mode,
            "sigmoid_noise": self.sigmoid_noise,
            "score_bias_init": self.score_bias_init,
            "seed": self.seed,
        }
