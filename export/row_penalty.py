"""A length penalty with an exponent of its own for every row of a request."""

import tensorflow as tf

# At -10 all outputs of 100 tokens would have one score, the lowest that searches give: -9e8.
LARGEST_ALPHA = 5.0


class RowLengthPenalty:
    """Divides log-probabilities by `((5 + length) / 6) ** alpha`, a row's own `alpha`.

    What `GNMTLengthPenalty` is for one number. A request may say anything: alphas are clipped
    to -5..5, and one that is no number counts as 0.

    Args:
        alpha: Float tensor of shape `(batch,)`.

    Call arguments:
        log_probs: Float tensor of shape `(batch, hypotheses)`.
        lengths: Int tensor that broadcasts to it.

    Returns:
        Scores of the shape of `log_probs`.

    Example:

    >>> penalty = RowLengthPenalty(tf.constant([0.0, 1.0]))
    >>> penalty(tf.constant([[-3.0], [-3.0]]), tf.constant([[1]])).numpy().tolist()
    [[-3.0], [-3.0]]
    >>> penalty(tf.constant([[-3.0], [-3.0]]), tf.constant([[13]])).numpy().tolist()
    [[-3.0], [-1.0]]

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7.
    """

    def __init__(self, alpha):
        alpha = tf.where(tf.math.is_nan(alpha), 0.0, alpha)
        self.alpha = tf.clip_by_value(alpha, -LARGEST_ALPHA, LARGEST_ALPHA)[:, None]

    def __call__(self, log_probs, lengths):
        return log_probs / ((5.0 + tf.cast(lengths, tf.float32)) / 6.0) ** self.alpha

    def bound(self, log_probs, shortest, longest):
        """Returns the score at the better end of the lengths: the divisor is monotonic."""
        return tf.maximum(self(log_probs, shortest), self(log_probs, longest))
