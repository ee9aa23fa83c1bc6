"""Figures of attention weights arrive in TensorBoard's files, one image an epoch."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention.callbacks import AlignmentImages

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]])


def _fit(callback, epochs):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 1)), np.ones((2, 1)), epochs=epochs, verbose=0, callbacks=[callback])


def _read_images(directory):
    """Returns step, tag, and the pixels of each image in the event files."""
    images = []
    for path in sorted(directory.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                pixels = tf.io.decode_png(value.tensor.string_val[2]).numpy()
                images.append((event.step, value.tag, pixels))
    return images


def test_an_image_is_written_every_other_epoch(tmp_path):
    asked = []

    def align():
        asked.append(1)
        return [(WEIGHTS / len(asked), ["ein", "Hund", "."], ["a", "dog"])] * 2

    _fit(AlignmentImages(tmp_path, align, tag="words", freq=2), 5)
    images = _read_images(tmp_path)
    assert [(step, tag) for step, tag, _ in images] == [(1, "words"), (3, "words")]
    first, second = (pixels for _, _, pixels in images)
    assert first.shape[2] == 3 and min(first.shape[:2]) > 100
    assert first.mean() < second.mean()  # smaller weights are lighter


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("logs", None), "`align` to be a function.*Received: align=None"),
        (("logs", list, "tag", 0), "`freq`.*Received: freq=0"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        AlignmentImages(*arguments)


def test_a_wrong_alignment_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ValueError, match="weights"):
        _fit(AlignmentImages(tmp_path, lambda: [(WEIGHTS, ["one"], ["a", "dog"])]), 1)
    assert not list(tmp_path.iterdir())
