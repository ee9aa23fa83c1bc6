"""What a captioner minimizes, and how often it says the right word and looks at the right place."""

import keras
import tensorflow as tf

from keras_attention import TokenCrossentropy
from keras_attention.metrics import Perplexity, TokenAccuracy


class PointingAccuracy(keras.metrics.Mean):
    """The fraction of words looked up in the right place.

    A word is found if the middle of the location with the largest weight is inside its box. What
    has no box, the EOS token and padding, does not count.

    Args:
        locations: Pair of ints, rows and columns of locations.
        side: Points on a side of an image.
        name: Str.

    Call arguments:
        y_true: Boxes `(batch, time, 4)`, see `examples.data.scene_stream.Encoder`.
        y_pred: Weights `(batch, time or 1, locations)`.

    Example:

    >>> pointing = PointingAccuracy((2, 2), side=8)
    >>> weights = tf.constant([[[0.1, 0.7, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]]])
    >>> boxes = tf.constant([[[0.0, 4.0, 4.0, 8.0], [4.0, 0.0, 8.0, 4.0]]])
    >>> pointing.update_state(boxes, weights)
    >>> float(pointing.result())
    0.5
    """

    def __init__(
        self, locations: tuple[int, int], side: int, name: str = "pointing_accuracy"
    ) -> None:
        super().__init__(name)
        self.locations, self.side = tuple(locations), side

    def update_state(self, y_true, y_pred, sample_weight=None):
        found = is_inside(middles(y_pred, self.locations, self.side), y_true)
        has_place = y_true[:, :, 2] > 0
        # Flat: of more dimensions Keras takes means, and captions would weigh as much as words.
        super().update_state(*(tf.reshape(bits, [-1]) for bits in (found, has_place)))


def middles(weights, locations, side):
    """Returns the points `(batch, time, 2)`, y and x, in the middle of the most probable locations.

    Args:
        weights: `(batch, time, locations)`.
        locations: Pair of ints, rows and columns.
        side: Points on a side of the image.
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


class CaptionTrainer(keras.Model):
    """A model whose metrics are named without their outputs, which Keras puts before."""

    def get_metrics_result(self):
        metrics = super().get_metrics_result()
        outputs = tuple(f"{name}_" for name in self.output)
        return {
            name.partition("_")[2] if name.startswith(outputs) else name: value
            for name, value in metrics.items()
        }


def make_loss() -> dict[str, keras.losses.Loss | None]:
    """Returns the cross-entropy of the words; the weights have none."""
    return {"logits": TokenCrossentropy(), "weights": None}


def make_metrics(locations: tuple[int, int], side: int) -> dict[str, list[keras.metrics.Metric]]:
    """Returns what is measured of the words, and of the looks for them; see `PointingAccuracy`."""
    return {
        "logits": [Perplexity(), TokenAccuracy(name="accuracy")],
        "weights": [PointingAccuracy(locations, side)],
    }
