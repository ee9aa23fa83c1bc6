"""Linear start: when the softmax comes back, in a callback's life and in `fit`."""

import keras
import numpy as np
import pytest

from keras_attention import LinearStart, MemoryHops

STORY = np.random.RandomState(1).randint(1, 7, size=(8, 3, 2))
QUESTION = np.random.RandomState(2).randint(1, 7, size=(8, 2))


def _reader(**options):
    reader = MemoryHops(7, 5, num_hops=2, **options)
    reader(STORY, QUESTION)
    return reader


def _linear_epochs(callback, losses):
    callback.on_train_begin()
    linear = []
    for epoch, loss in enumerate(losses):
        linear.append(callback.layer.is_linear())
        callback.on_epoch_end(epoch, {"val_loss": loss})
    return linear


@pytest.mark.parametrize(
    ("options", "losses", "linear"),
    [
        ({}, [3, 2, 2.5, 1, 1.5], [1, 1, 1, 0, 0]),
        ({}, [3, 2, 2, 1, 1.5], [1, 1, 1, 0, 0]),
        ({"patience": 2}, [3, 3.5, 2, 2.5, 2.5, 1], [1, 1, 1, 1, 1, 0]),
        ({"patience": 2}, [3, 2, 2.5, 1, 1.5, 0], [1, 1, 1, 1, 1, 1]),
        ({"patience": 2}, [3, 1, 2, 1.5, 1.2], [1, 1, 1, 1, 0]),
        ({"patience": 2, "epochs": 2}, [3, 2, 1, 0], [1, 1, 0, 0]),
    ],
)
def test_the_softmax_comes_back_when_the_loss_stops_falling(options, losses, linear):
    assert _linear_epochs(LinearStart(_reader(), **options), losses) == linear


@pytest.mark.parametrize(("begins", "linear"), [(1, [1, 0, 0]), (2, [0, 0, 0]), (30, [0, 0, 0])])
def test_a_fit_that_goes_on_later_has_no_second_linear_part(begins, linear):
    callback = LinearStart(_reader(), patience=9, epochs=2)
    callback.on_train_begin()
    seen = []
    for epoch in range(begins, begins + 3):
        callback.on_epoch_begin(epoch)
        seen.append(callback.layer.is_linear())
        callback.on_epoch_end(epoch, {"val_loss": 1.0})
    assert seen == linear


@pytest.mark.thorough
def test_it_comes_back_in_a_compiled_fit_with_noise_and_unknown_sizes():
    reader = _reader(empty_memory_rate=0.3, seed=1)
    story, question = keras.Input((None, None), dtype="int32"), keras.Input((None,), dtype="int32")
    _, logits = reader(story, question, return_logits=True)
    model = keras.Model([story, question], logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=True)
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: seen.append(reader.is_linear())
    )
    callbacks = [LinearStart(reader, monitor="loss", patience=9, epochs=2), watch]
    model.fit([STORY, QUESTION], STORY[:, 0, 0], epochs=3, callbacks=callbacks, verbose=0)
    assert seen == [True, True, False]


def test_a_loss_that_is_not_reported_is_named():
    callback = LinearStart(_reader())
    callback.on_train_begin()
    with pytest.raises(ValueError, match="'val_loss'.*`validation_data`.*\\['loss'\\]"):
        callback.on_epoch_end(0, {"loss": 1.0})


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: LinearStart(keras.layers.Dense(3)), "`layer` to be a `MemoryHops`"),
        (lambda: LinearStart(_reader(), patience=0), "`patience`.*patience=0"),
        (lambda: LinearStart(_reader(), epochs=0), "`epochs`.*epochs=0"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
