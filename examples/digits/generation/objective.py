"""What DRAW minimizes: a bound on -log p(picture), Gregor et al. 2015, equations 9 to 12
(https://arxiv.org/abs/1502.04623).

    bound = -log D(x | c_T) + sum_t KL(Q(Z_t | h^enc_t) || P(Z_t))

with one draw of z. D is a Bernoulli distribution for each pixel, so pictures hold 0 and 1.
"""

import tensorflow as tf

from examples.training.objectives import Objective


class DrawingObjective(Objective):
    """The variational bound, in nats a picture.

    Labels are `{"image": (batch, height, width), "digit": (batch,)}`, pictures of 0 and 1, and 0
    as the digit of a row that is no picture. Outputs are those of `examples.models.draw`.

    Example:

    >>> outputs = {"logits": tf.zeros((1, 1, 2)), "kl": tf.constant([[0.25, 0.5]])}
    >>> labels = {"image": tf.constant([[[1.0, 0.0]]]), "digit": tf.constant([4])}
    >>> sums = DrawingObjective().measured(outputs, labels)
    >>> {name: round(float(value), 3) for name, value in sums.items()}
    {'loss': 2.136, 'count': 1.0, 'kl': 0.75}
    """

    unit = "pictures"
    larger_is_better = {"loss": False}

    def sums(self, outputs, labels):
        measured = self.measured(outputs, labels)
        return measured["loss"], measured["count"]

    def measured(self, outputs, labels):
        logits, image = tf.cast(outputs["logits"], "float32"), labels["image"]
        shown = tf.cast(labels["digit"] > 0, "float32")
        of_pixels = tf.nn.sigmoid_cross_entropy_with_logits(image, logits)
        reconstruction = tf.reduce_sum(of_pixels, axis=(1, 2))
        kl = tf.reduce_sum(outputs["kl"], axis=1)
        return {
            "loss": tf.reduce_sum(shown * (reconstruction + kl)),
            "count": tf.reduce_sum(shown),
            "kl": tf.reduce_sum(shown * kl),
        }

    def numbers(self, sums):
        return {"loss": sums["loss"] / sums["count"], "kl": sums["kl"] / sums["count"]}

    def text(self, row):
        return [f"{row['dev_kl']:.2f} of the nats are of the latent numbers"]
