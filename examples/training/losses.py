"""Masked cross-entropy with label smoothing.

    loss = sum_t mask_t * H(q_t, p_t) / sum_t mask_t        over the whole batch

`p_t` is the softmax of the logits, `q_t` the target distribution and `mask_t` True
where the label is a token (the end mark counts, padding does not). A mean over all
positions, or a mean of per-sentence means, is a different number. That is why the
functions here return the sum and the count: two batches, or two replicas, are joined
by adding both before the one division.

With smoothing eps over V classes the target distribution gives `1 - eps` to the label,
plus eps spread in one of three ways:

    "all"                    eps / V on every class, the label too (Szegedy et al. 2016)
    "wrong"                  eps / (V - 1) on every class but the label
    "wrong_without_padding"  eps / (V - 2) on every class but the label and padding

A smoothed loss does not go to 0, so perplexity is reported from the unsmoothed one.
"""

import tensorflow as tf

from keras_attention import validation

SPREADS = ("all", "wrong", "wrong_without_padding")


def target_distribution(labels, num_classes: int, smoothing: float, spread="all", pad_id=0):
    """Returns the smoothed target distribution, `(..., num_classes)` float32.

    Args:
        labels: Int tensor `(...)`.
        num_classes: Positive int, V.
        smoothing: Float in [0, 1), eps.
        spread: `"all"`, `"wrong"` or `"wrong_without_padding"`, as described above.
        pad_id: Int, the id of padding.

    Raises:
        ValueError: If `smoothing` or `spread` is not as described, or if too few classes
            are left to receive the smoothing.

    Example:

    >>> target_distribution([1], num_classes=4, smoothing=0.3, spread="wrong").numpy().round(3)
    array([[0.1, 0.7, 0.1, 0.1]], dtype=float32)

    Reference: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567, section 7.
    """
    check_smoothing("target_distribution", smoothing, spread)
    left_out = SPREADS.index(spread)
    if num_classes <= left_out:
        raise ValueError(
            f"target_distribution expects at least {left_out + 1} classes with spread={spread!r}. "
            f"Received: num_classes={num_classes}"
        )
    share = smoothing / (num_classes - left_out)
    if spread == "all":
        return tf.one_hot(labels, num_classes, 1.0 - smoothing + share, share)
    distribution = tf.one_hot(labels, num_classes, 1.0 - smoothing, share)
    if spread == "wrong_without_padding":
        labels = tf.convert_to_tensor(labels)
        is_padding = tf.range(num_classes) == pad_id
        distribution = tf.where(is_padding & (labels != pad_id)[..., None], 0.0, distribution)
    return distribution


def token_cross_entropy(logits, labels, smoothing: float = 0.0, spread="all", pad_id=0):
    """Returns the loss at every position, `(batch, target)` float32; padding gives 0.

    Args:
        logits: Float tensor `(batch, target, vocabulary)`; computed on in float32.
        labels: Int tensor `(batch, target)`, padded with `pad_id`.
        smoothing: Float in [0, 1).
        spread: How the smoothing is spread; see the module.
        pad_id: Int, the id of padding.

    Raises:
        ValueError: If ranks or sizes do not fit, or the options are not as described.

    Example:

    >>> token_cross_entropy([[[2.0, 1.0], [0.0, 0.0]]], [[1, 0]]).numpy().round(4)
    array([[1.3133, 0.    ]], dtype=float32)
    """
    check_smoothing("token_cross_entropy", smoothing, spread)
    logits = tf.cast(logits, tf.float32)
    labels = tf.convert_to_tensor(labels)
    validation.check_rank(
        "token_cross_entropy", "logits", logits, (3,), "(batch, target, vocabulary)"
    )
    validation.check_rank("token_cross_entropy", "labels", labels, (2,), "(batch, target)")
    for axis in (0, 1):
        validation.check_same_dim("token_cross_entropy", axis, labels=labels, logits=logits)
    if smoothing:
        targets = target_distribution(labels, logits.shape[-1], smoothing, spread, pad_id)
        losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
    else:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.where(labels != pad_id, losses, 0.0)


def masked_cross_entropy(logits, labels, smoothing: float = 0.0, spread="all", pad_id=0):
    """Returns `(loss_sum, token_count)`, two float32 scalars; the loss is their quotient.

    Arguments and errors are those of `token_cross_entropy`.

    Example:

    >>> loss_sum, token_count = masked_cross_entropy([[[2.0, 1.0], [0.0, 0.0]]], [[1, 0]])
    >>> round(float(loss_sum), 4), float(token_count)
    (1.3133, 1.0)
    """
    losses = token_cross_entropy(logits, labels, smoothing, spread, pad_id)
    kept = tf.convert_to_tensor(labels) != pad_id
    return tf.reduce_sum(losses), tf.reduce_sum(tf.cast(kept, tf.float32))


def check_smoothing(owner: str, smoothing: float, spread: str) -> None:
    """Raises a `ValueError` unless both options are as the module describes them."""
    validation.check_number_in_range(owner, "smoothing", smoothing, 0.0, 1.0, below=True)
    validation.check_one_of(owner, "spread", spread, SPREADS)
