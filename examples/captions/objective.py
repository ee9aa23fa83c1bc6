"""What a captioner minimizes and what is measured: its words, and where it looked for them."""

import tensorflow as tf

from examples.training.objectives import TokenObjective


class CaptionObjective(TokenObjective):
    """Cross-entropy of the words, and the share of words looked up in the right place.

    Labels are `{"caption": (batch, time), "box": (batch, time, 4)}`, see `captions.words.Encoder`.
    Outputs are `{"logits": (batch, time, vocabulary), "weights": (batch, time or 1, locations)}`.
    A word is found if the middle of the location with the largest weight is inside its box.

    Args:
        locations: Pair of ints, rows and columns of locations.
        side: Points on a side of a picture.

    Example:

    >>> objective = CaptionObjective((2, 2), side=8)
    >>> weights = tf.constant([[[0.1, 0.7, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]]])
    >>> box = tf.constant([[[0.0, 4.0, 4.0, 8.0], [4.0, 0.0, 8.0, 4.0]]])
    >>> labels = {"caption": tf.constant([[4, 5]]), "box": box}
    >>> sums = objective.measured({"logits": tf.zeros((1, 2, 7)), "weights": weights}, labels)
    >>> float(sums["found"]), float(sums["places"])
    (1.0, 2.0)
    """

    larger_is_better = {"loss": False, "accuracy": True, "located": True}

    def __init__(self, locations, side):
        super().__init__()
        self.locations, self.side = tuple(locations), side

    def sums(self, outputs, labels):
        return super().sums(outputs["logits"], labels["caption"])

    def counted(self, labels):
        return labels["caption"] != 0

    def measured(self, outputs, labels):
        sums = super().measured(outputs["logits"], labels["caption"])
        has_place = labels["box"][:, :, 2] > 0
        found = is_inside(middles(outputs["weights"], self.locations, self.side), labels["box"])
        return {
            **sums,
            "found": tf.reduce_sum(tf.cast(found & has_place, "float32")),
            "places": tf.reduce_sum(tf.cast(has_place, "float32")),
        }

    def numbers(self, sums):
        return {**super().numbers(sums), "located": sums["found"] / max(sums["places"], 1.0)}

    def text(self, row):
        return [
            f"accuracy {100 * row['dev_accuracy']:.2f} %",
            f"looks right {100 * row['dev_located']:.2f} %",
        ]


def middles(weights, locations, side):
    """Returns the points `(batch, time, 2)`, y and x, in the middle of the likeliest locations.

    Args:
        weights: `(batch, time, locations)`.
        locations: Pair of ints, rows and columns.
        side: Points on a side of the picture.
    """
    rows, columns = locations
    best = tf.argmax(weights, axis=-1, output_type=tf.int32)
    y, x = (tf.cast(place, "float32") for place in (best // columns, best % columns))
    return tf.stack([(y + 0.5) * (side / rows), (x + 0.5) * (side / columns)], axis=-1)


def is_inside(points, boxes):
    """Returns for each point and box whether it lies inside, boolean `(batch, time)`."""
    y, x = points[..., 0], points[..., 1]
    top, left, bottom, right = (boxes[..., place] for place in range(4))
    return (top <= y) & (y < bottom) & (left <= x) & (x < right)
