"""Decoded samples are printed and measured; callbacks after it see the metrics."""

import keras
import numpy as np
import pytest

from keras_attention.callbacks import DecodeSamples
from keras_attention.metrics import WordErrorRate

INPUTS, REFERENCES = ["a", "b", "c"], ["x y", ["p", "q r"], "z"]


def _model():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def _fit(model, callbacks, epochs):
    x = np.ones((5, 1))
    return model.fit(x, x, epochs=epochs, verbose=0, callbacks=callbacks).history


def test_texts_are_decoded_each_epoch_and_the_best_is_kept(capsys, tmp_path):
    model, seen = _model(), []

    def decode(inputs):
        assert inputs == INPUTS
        seen.append(float(model.get_weights()[0][0, 0]))
        return [["x y", "x n", "n n"][len(seen) % 3], "q r", "z"]

    samples = DecodeSamples(decode, INPUTS, REFERENCES, [WordErrorRate()], num_printed=2)
    path = str(tmp_path / "best.weights.h5")
    best = keras.callbacks.ModelCheckpoint(
        path, "val_word_error_rate", save_best_only=True, save_weights_only=True, mode="min"
    )
    history = _fit(model, [samples, best], 4)
    assert history["val_word_error_rate"] == pytest.approx([1 / 5, 2 / 5, 0, 1 / 5])
    assert seen == sorted(seen) and len(set(seen)) == 4
    model.load_weights(path)
    assert float(model.get_weights()[0][0, 0]) == seen[2]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 * 3
    assert lines[:3] == [
        "Epoch 1: val_word_error_rate 0.2000",
        "  a -> x n (reference: x y)",
        "  b -> q r (reference: p | q r)",
    ]


def test_without_references_it_prints_every_other_epoch(capsys):
    _fit(_model(), [DecodeSamples(lambda inputs: inputs, [1, 2], num_printed=1, freq=2)], 5)
    expected = ["Epoch 2: decoded samples", "  1 -> 1", "Epoch 4: decoded samples", "  1 -> 1"]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((None, INPUTS), "`decode` to be a function.*Received: decode=None"),
        ((len, INPUTS, INPUTS, [WordErrorRate()] * 2), "different names.*word_error_rate, word"),
        ((len, INPUTS, ["x"]), "a reference for each input. Received: 3 inputs, 1 references"),
        ((len, INPUTS, None, [WordErrorRate()]), "needs `references`.*1 metrics"),
        ((len, INPUTS, None, (), -1), "`num_printed`.*Received: num_printed=-1"),
        ((len, INPUTS, None, (), 1, 0), "`freq`.*Received: freq=0"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DecodeSamples(*arguments)


def test_another_number_of_texts_is_refused():
    with pytest.raises(ValueError, match="1 texts for 3 inputs"):
        _fit(_model(), [DecodeSamples(lambda inputs: ["x"], INPUTS)], 1)
