"""What RAM and DRAW minimize.

Mnih et al. 2014 (https://arxiv.org/abs/1406.6247), section 3.2:

    loss = -log p(digit) + mean_t (b_t - R)^2 - lambda sum_t log pi(l_t) A_t,   A_t = R - stop(b_t)

R is 1 where the most probable digit is right. The first term trains what is seen, the third where
to look, and the second the baseline that makes the third less noisy. Code name -> paper name:
`baselines` -> b, `weight` -> lambda, 0.01 in what is known of the authors' code.

Several draws of the locations of one image, Kool et al. 2019
(https://openreview.net/forum?id=r1lgTGL5DE), leave in the third term what tells them apart:

    A_t of draw i = R_i - stop(b_i,t) - mean over the other draws j of (R_j - stop(b_j,t))

Gregor et al. 2015 (https://arxiv.org/abs/1502.04623), equations 9 to 12:

    bound = -log D(x | c_T) + sum_t KL(Q(Z_t | h^enc_t) || P(Z_t))

a bound on -log p(image) with one draw of z. D is a Bernoulli distribution for each pixel, so images
hold 0 and 1.
"""

import keras
from keras import ops

from keras_attention import validation


class RecognitionLoss(keras.losses.Loss):
    """The hybrid loss of RAM, of digits and the outputs of `examples.models.ram`.

    Digits are `(batch,)`, or `(batch, draws)`: then the outputs have `batch * draws` rows, those of
    an image one after another, and its loss is their mean.

    Args:
        weight: Number of at least 0, of the reward's term.

    Raises:
        ValueError: If `weight` is less than 0.

    Example:

    >>> outputs = {"logits": ops.array([[0.0, 2.0]]), "log_pi": ops.array([[-1.0]])}
    >>> outputs["baselines"] = ops.array([[0.5]])
    >>> round(float(RecognitionLoss(0.1)(ops.array([1]), outputs)), 3)  # 0.127 + 0.25 + 0.1 * 0.5
    0.427

    A second draw of the same image that is wrong: the mean over the advantages 1 and -1.

    >>> outputs = {"logits": ops.array([[0.0, 2.0], [2.0, 0.0]])}
    >>> outputs |= {"log_pi": ops.array([[-1.0], [-3.0]]), "baselines": ops.array([[0.5], [0.5]])}
    >>> round(float(RecognitionLoss(0.1)(ops.array([[1, 1]]), outputs)), 3)
    1.277
    """

    def __init__(self, weight: float = 0.01):
        super().__init__("recognition", "mean_with_sample_weight")
        self.weight = validation.check_number_in_range("RecognitionLoss", "weight", weight, 0.0)

    def call(self, y_true, y_pred):
        logits, digit = self.get_measured(y_true, y_pred), ops.cast(y_true, "int32")
        losses = ops.sparse_categorical_crossentropy(digit, logits, from_logits=True)
        if "log_pi" in y_pred:
            baselines, log_pi = (_by_draw(digit, y_pred[name]) for name in ("baselines", "log_pi"))
            is_right = ops.equal(ops.argmax(logits, axis=-1), digit)
            reward = ops.cast(is_right, logits.dtype)[..., None]
            losses += ops.mean(ops.square(baselines - reward), axis=-1)
            advantage = reward - ops.stop_gradient(baselines)
            if len(digit.shape) == 2 and digit.shape[1] > 1:
                of_others = ops.sum(advantage, axis=1, keepdims=True) - advantage
                advantage -= of_others / (digit.shape[1] - 1)
            losses -= self.weight * ops.sum(log_pi * advantage, axis=-1)
        return losses if len(digit.shape) == 1 else ops.mean(losses, axis=1)

    def get_measured(self, y_true, y_pred):
        """Returns the logits, in the shape of the digits and an axis more."""
        return _by_draw(y_true, y_pred["logits"])


def _by_draw(digit, rows):
    """Rows `(batch * draws, size)` as `(batch, draws, size)` if digits are `(batch, draws)`."""
    return (
        rows if len(digit.shape) == 1 else ops.reshape(rows, (-1, digit.shape[1], rows.shape[-1]))
    )


class Bound(keras.losses.Loss):
    """The bound of DRAW in nats, of images of 0 and 1 and the outputs of `examples.models.draw`."""

    def __init__(self):
        super().__init__("bound", "mean_with_sample_weight")

    def call(self, y_true, y_pred):
        return ops.sum(self.get_measured(y_true, y_pred), axis=1)

    def get_measured(self, y_true, y_pred):
        """Returns what an image's pixels and its latent numbers cost, `(batch, 2)`, in nats.

        Example:

        >>> outputs = {"logits": ops.zeros((1, 1, 2)), "kl": ops.array([[0.25, 0.5]])}
        >>> costs = Bound().get_measured(ops.array([[[1.0, 0.0]]]), outputs)
        >>> ops.convert_to_numpy(costs).round(3).tolist()
        [[1.3860000371932983, 0.75]]
        """
        of_pixels = ops.binary_crossentropy(y_true, y_pred["logits"], from_logits=True)
        return ops.stack([ops.sum(of_pixels, axis=(1, 2)), ops.sum(y_pred["kl"], axis=1)], axis=1)


class OutputsTrainer(keras.Model):
    """A model whose loss needs all outputs, and whose metrics what the loss makes of them."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(y, y_pred, sample_weight)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, self.loss.get_measured(y, y_pred), sample_weight)
