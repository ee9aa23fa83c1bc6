"""Log-probabilities of logits: finite, and precise beside a large common offset."""

from typing import NamedTuple

import numpy as np
from keras import ops

# The log-probability of an impossible event. It is finite, so that sums and comparisons stay free
# of NaN. Anything below half of it is treated as impossible and never returned as a hypothesis.
IMPOSSIBLE = -1e9
POSSIBLE_THRESHOLD = IMPOSSIBLE / 2  # below this log-probability there is no hypothesis
# The identity element of `max` for float32 logits.
MIN_FLOAT32 = float(np.finfo("float32").min)


class SoftmaxDenominator(NamedTuple):
    """A softmax's denominator, `exp(largest) * exp(log_sum)`, of each row, `(rows, 1)`.

    It has two parts, because the sum would lose its digits beside a large common offset.
    """

    largest: object
    log_sum: object

    def __call__(self, logits):
        """Returns the logits minus the logarithm of the denominator."""
        return (logits - self.largest) - self.log_sum


def softmax_denominator(logits):
    """Returns the `SoftmaxDenominator` of rows of logits; finite also where all are -inf."""
    largest = ops.max(logits, axis=-1, keepdims=True, initial=IMPOSSIBLE)
    total = ops.sum(ops.exp(logits - largest), axis=-1, keepdims=True)
    # Only a row of -inf sums to 0; all other sums are at least 1, and NaN stays NaN.
    return SoftmaxDenominator(largest, ops.log(ops.where(total < 1.0, 1.0, total)))


def compute_log_probs(logits, denominator):
    """Returns log-probabilities in `[IMPOSSIBLE, 0]`; NaN becomes IMPOSSIBLE."""
    log_probs = denominator(logits)
    log_probs = ops.where(ops.isnan(log_probs), IMPOSSIBLE, log_probs)
    return ops.clip(log_probs, IMPOSSIBLE, 0.0)
