"""What is random in drawing digits: which pixels are ink, and the latent numbers."""

from collections.abc import Callable

import tensorflow as tf

from examples.digits.batches import intensities


def binarized(steps: int, latent_dim: int) -> Callable:
    """Returns what `DrawnBatches` draws: pictures of 0 and 1, and normal noise.

    A pixel is 1 with the probability of its grey. What is drawn for evaluation is always the
    same, for its epoch is always the same.
    """

    def draw(inputs, digit, seed):
        seeds = tf.random.split(seed, 2)
        grey = intensities(inputs["image"])
        image = tf.cast(tf.random.stateless_uniform(tf.shape(grey), seeds[0]) < grey, tf.float32)
        shape = (tf.shape(grey)[0], steps, latent_dim)
        noise = tf.random.stateless_normal(shape, seeds[1])
        return {"image": image, "noise": noise}, image

    return draw
