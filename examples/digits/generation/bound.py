"""What DRAW minimizes: a bound on -log p(picture), Gregor et al. 2015, equations 9 to 12
(https://arxiv.org/abs/1502.04623).

    bound = -log D(x | c_T) + sum_t KL(Q(Z_t | h^enc_t) || P(Z_t))

with one draw of z. D is a Bernoulli distribution for each pixel, so pictures hold 0 and 1.
"""

import keras
from keras import ops


def measure_costs(image, outputs):
    """Returns what a picture's pixels and its latent numbers cost, `(batch, 2)`, in nats.

    Args:
        image: Pictures of 0 and 1, `(batch, height, width)`.
        outputs: Those of `examples.models.draw`.

    Example:

    >>> outputs = {"logits": ops.zeros((1, 1, 2)), "kl": ops.array([[0.25, 0.5]])}
    >>> ops.convert_to_numpy(measure_costs(ops.array([[[1.0, 0.0]]]), outputs)).round(3).tolist()
    [[1.3860000371932983, 0.75]]
    """
    of_pixels = ops.binary_crossentropy(image, outputs["logits"], from_logits=True)
    return ops.stack([ops.sum(of_pixels, axis=(1, 2)), ops.sum(outputs["kl"], axis=1)], axis=1)


class Bound(keras.losses.Loss):
    """The mean of the sum of both costs."""

    def __init__(self):
        super().__init__("bound", "mean_with_sample_weight")

    def call(self, y_true, y_pred):
        return ops.sum(y_pred, axis=1)


class DrawingTrainer(keras.Model):
    """A model whose loss and metrics are of `measure_costs`."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.loss(y, measure_costs(y, y_pred), sample_weight)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, measure_costs(y, y_pred), sample_weight)


def make_metrics() -> list[keras.metrics.Metric]:
    """Returns the bound and the part of it that the latent numbers cost."""
    return [
        keras.metrics.MeanMetricWrapper(lambda image, costs: ops.sum(costs, axis=1), "bound"),
        keras.metrics.MeanMetricWrapper(lambda image, costs: costs[:, 1], "kl"),
    ]
