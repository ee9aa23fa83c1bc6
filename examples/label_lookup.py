"""Numbers to names, inside of an exported graph: classes, answers, words."""

import keras
import tensorflow as tf


class LabelLookup(keras.layers.Layer):
    """Turns each number into its name; a number outside has the nearest one's.

    Args:
        names: List of str, the name of each number from 0 on.

    Example:

    >>> LabelLookup(["neg", "pos"])(tf.constant([1, 0])).numpy().tolist()
    [b'pos', b'neg']
    """

    def __init__(self, names: list[str], **kwargs):
        super().__init__(**kwargs)
        self._names = list(names)
        self.built = True

    def call(self, numbers):
        numbers = tf.clip_by_value(numbers, 0, len(self._names) - 1)
        return tf.gather(tf.constant(self._names), numbers)

    def compute_output_spec(self, numbers):
        return keras.KerasTensor(numbers.shape, "string")
