"""What is minimized and measured of bits: their cross-entropy, and how many are wrong.

Labels are bits `(batch, time, bits)`, predictions their logits, and `sample_weight` `(batch, time)`
is 1 where the bits are due and 0 elsewhere. Sequences in which nothing is due only fill a batch up.
"""

import math

import keras
from keras import ops


def sum_costs(bits, logits, due):
    """Returns the bits that each sequence costs, and 1 or 0 for whether anything is due in it.

    Example:

    >>> costs, counts = sum_costs(ops.ones((2, 3, 1)), ops.zeros((2, 3, 1)), [[1, 1, 0], [0, 0, 0]])
    >>> ops.convert_to_numpy(costs).round(4).tolist(), ops.convert_to_numpy(counts).tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """
    bits, logits, due = (ops.convert_to_tensor(tensor, "float32") for tensor in (bits, logits, due))
    costs = ops.binary_crossentropy(bits, logits, from_logits=True) / math.log(2)
    counts = ops.cast(ops.any(due > 0, axis=1), "float32")
    return ops.sum(costs * due[:, :, None], axis=(1, 2)), counts


class BitsPerSequence(keras.losses.Loss):
    """The cross-entropy of a sequence in bits, a mean over the sequences in which any is due."""

    def __init__(self):
        super().__init__("bits", "mean_with_sample_weight")

    def __call__(self, y_true, y_pred, sample_weight):
        costs, counts = sum_costs(y_true, y_pred, sample_weight)
        return super().__call__(costs, costs, counts)

    def call(self, y_true, y_pred):
        return y_pred


class Bits(keras.metrics.Mean):
    """Bits a sequence, over all batches."""

    def update_state(self, y_true, y_pred, sample_weight):
        super().update_state(*sum_costs(y_true, y_pred, sample_weight))


class BitError(keras.metrics.Mean):
    """The fraction of the bits due that are wrong, over batches of any lengths."""

    def update_state(self, y_true, y_pred, sample_weight):
        wrong = ops.cast((y_pred > 0) != (y_true > 0.5), "float32")
        # Flat: Keras would take the mean of each sequence first, whose weight is its padded length.
        super().update_state(ops.ravel(ops.mean(wrong, axis=-1)), ops.ravel(sample_weight))
