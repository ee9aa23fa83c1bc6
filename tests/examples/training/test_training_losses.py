import numpy as np
import pytest
import tensorflow as tf

from examples.training import losses

LOGITS = np.array([[[2.0, 0.0, -1.0, 1.0]]], "float32")


def reference(logits, labels, smoothing, spread, pad_id=0):
    """The sums of the module's docstring, loops and all, in float64."""
    total, count, classes = 0.0, 0, logits.shape[-1]
    for row, row_labels in zip(logits.astype("float64"), labels, strict=True):
        for scores, label in zip(row, row_labels, strict=True):
            if label == pad_id:
                continue
            log_probs = scores - np.log(np.sum(np.exp(scores)))
            for wrong in range(classes):
                if spread == "all":
                    q = smoothing / classes
                elif spread == "wrong":
                    q = smoothing / (classes - 1) * (wrong != label)
                else:
                    q = smoothing / (classes - 2) * (wrong not in (label, pad_id))
                total -= (q + (1 - smoothing) * (wrong == label)) * log_probs[wrong]
            count += 1
    return total, count


@pytest.mark.parametrize(
    ("smoothing", "spread", "expected"),
    [(0.0, "all", 0.440190), (0.1, "all", 0.590190), (0.1, "wrong", 0.640190)],
)
def test_worked_numbers_of_smoothing(smoothing, spread, expected):
    # The worked numbers take class 0 as the target, so padding is another id here.
    loss = losses.token_cross_entropy(LOGITS, [[0]], smoothing, spread, pad_id=9)
    np.testing.assert_allclose(loss, [[expected]], atol=1e-6)


def test_smoothing_that_leaves_out_padding_gives_it_nothing():
    # Target 3 of 4 classes: eps / 2 on classes 1 and 2 alone.
    distribution = losses.target_distribution([3], 4, 0.1, "wrong_without_padding")
    np.testing.assert_allclose(distribution, [[0.0, 0.05, 0.05, 0.9]], atol=1e-7)


@pytest.mark.parametrize("spread", losses.SPREADS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_sum_and_count_equal_the_reference(smoothing, spread):
    draw = np.random.default_rng(3)
    logits = draw.normal(size=(3, 5, 7)).astype("float32")
    labels = draw.integers(1, 7, (3, 5)).astype("int32")
    labels[0, 2:] = labels[2, 4:] = 0
    loss_sum, count = losses.masked_cross_entropy(logits, labels, smoothing, spread)
    np.testing.assert_allclose(
        (loss_sum, count), reference(logits, labels, smoothing, spread), rtol=1e-6
    )


def test_per_token_mean_is_neither_the_mean_over_positions_nor_of_sentence_means():
    draw = np.random.default_rng(4)
    logits = (3 * draw.normal(size=(2, 5, 11))).astype("float32")
    labels = draw.integers(1, 11, (2, 5)).astype("int32")
    labels[1, 2:] = 0
    losses_of_tokens = losses.token_cross_entropy(logits, labels).numpy()
    loss_sum, count = losses.masked_cross_entropy(logits, labels)
    per_token = float(loss_sum / count)
    assert float(count) == 7
    np.testing.assert_allclose(per_token, losses_of_tokens.sum() / 7, rtol=1e-6)
    assert abs(per_token - losses_of_tokens.mean()) > 0.1
    assert abs(per_token - np.mean(losses_of_tokens.sum(1) / [5, 2])) > 0.1


def test_padded_positions_receive_no_gradient():
    logits = tf.Variable(np.random.default_rng(5).normal(size=(2, 3, 5)).astype("float32"))
    labels = tf.constant([[1, 3, 0], [3, 0, 0]])
    with tf.GradientTape() as tape:
        loss_sum, _ = losses.masked_cross_entropy(logits, labels, 0.1)
    gradient = tape.gradient(loss_sum, logits).numpy()
    assert np.all(gradient[labels.numpy() == 0] == 0)
    assert np.all(np.any(gradient[labels.numpy() != 0] != 0, axis=-1))


def test_losses_are_float32_under_half_precision_logits():
    loss_sum, count = losses.masked_cross_entropy(tf.cast(LOGITS, tf.bfloat16), [[1]])
    assert loss_sum.dtype == count.dtype == tf.float32


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([[1.0]], [[1]]), r"`logits` of rank 3.*Received: logits.shape=\(1, 1\)"),
        ((LOGITS, [[1, 2]]), r"same size on axis 1.*labels.shape=\(1, 2\), logits.shape"),
        ((LOGITS, [[1]], 1.0), r"`smoothing` to be a number in \[0.0, 1.0\).*smoothing=1.0"),
        ((LOGITS, [[1]], 0.1, "even"), r"`spread` to be one of 'all', 'wrong'.*spread='even'"),
        ((LOGITS[..., :2], [[1]], 0.1, "wrong_without_padding"), "at least 3 classes"),
    ],
)
def test_errors_name_what_came(arguments, text):
    with pytest.raises(ValueError, match=text):
        losses.token_cross_entropy(*arguments)
