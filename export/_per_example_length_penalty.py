"""A GNMT length penalty with an alpha for each example of a request."""

import tensorflow as tf

# At -10 all outputs of 100 tokens would have the same score, the lowest of searches: -9e8.
MAX_ALPHA = 5.0


class PerExampleLengthPenalty:
    """Divides log-probabilities by `((5 + length) / 6) ** alpha`, with an alpha for each example.

    `GNMTLengthPenalty` does the same with one alpha. Requests are not trusted: alphas are clipped
    to [-5, 5], and NaN is treated as 0.

    Args:
        alpha: Float tensor of shape `(batch,)`.

    Call arguments:
        log_probs: Float tensor of shape `(batch, hypotheses)`.
        lengths: Int tensor that broadcasts to `log_probs`.

    Returns:
        Scores of the shape of `log_probs`.

    Example:

    >>> penalty = PerExampleLengthPenalty(tf.constant([0.0, 1.0]))
    >>> penalty(tf.constant([[-3.0], [-3.0]]), tf.constant([[1]])).numpy().tolist()
    [[-3.0], [-3.0]]
    >>> penalty(tf.constant([[-3.0], [-3.0]]), tf.constant([[13]])).numpy().tolist()
    [[-3.0], [-1.0]]

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7.
    """

    def __init__(self, alpha):
        alpha = tf.where(tf.math.is_nan(alpha), 0.0, alpha)
        self.alpha = tf.clip_by_value(alpha, -MAX_ALPHA, MAX_ALPHA)[:, None]

    def __call__(self, log_probs, lengths):
        return log_probs / ((5.0 + tf.cast(lengths, tf.float32)) / 6.0) ** self.alpha

    def upper_bound(self, log_probs, shortest, longest):
        """Returns the better score of the two lengths; the divisor is monotonic in between."""
        return tf.maximum(self(log_probs, shortest), self(log_probs, longest))
