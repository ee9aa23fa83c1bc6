"""AttentionRNN with attention that looks at its earlier weights."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import Attention, AttentionRNN, Scorer

BATCH, TIME, SOURCE, DIM = 2, 5, 7, 3


@keras.saving.register_keras_serializable(package="tests")
class Fatigue(Scorer):
    """Dot products, less `rate` times the earlier weights: what was read loses interest."""

    requires_equal_dims = True

    def __init__(self, rate=3.0, reads="accumulated", **kwargs):
        super().__init__(**kwargs)
        self.rate, self.reads, self.reads_weights = rate, reads, reads

    def score(self, query, prepared, previous_weights=None):
        scores = keras.ops.einsum("bqd,bkd->bqk", query, prepared)
        if previous_weights is None:
            return scores
        return scores - self.rate * keras.ops.cast(previous_weights, scores.dtype)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "reads": self.reads}


def _layer(reads, order, dtype="float64", **options):
    cell = keras.layers.SimpleRNNCell(DIM, recurrent_initializer="normal", dtype=dtype)
    attention = Attention(Fatigue(reads=reads, dtype=dtype), dtype=dtype)
    options = {"attentional_units": 0, **options} if order == "luong" else options
    return AttentionRNN(cell, attention, order=order, dtype=dtype, **options)


def _data():
    random = np.random.RandomState(5)
    return random.randn(BATCH, TIME, DIM), random.randn(BATCH, SOURCE, DIM)


def _softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _by_hand(layer, inputs, memory, reads, order):
    """The recurrence, one row and one step at a time."""
    kernel, recurrent, bias = (np.array(w) for w in layer.cell.get_weights())
    outputs, weights = np.zeros((BATCH, TIME, DIM)), np.zeros((BATCH, TIME, SOURCE))
    for row in range(BATCH):
        state, seen = np.zeros(DIM), np.zeros(SOURCE)
        for step in range(TIME):
            if order == "luong":
                state = np.tanh(inputs[row, step] @ kernel + state @ recurrent + bias)
            weight = _softmax(memory[row] @ state - 3.0 * seen)
            seen = seen + weight if reads == "accumulated" else weight
            if order == "bahdanau":
                fed = np.concatenate([inputs[row, step], weight @ memory[row]])
                state = np.tanh(fed @ kernel + state @ recurrent + bias)
            outputs[row, step], weights[row, step] = state, weight
    return outputs, weights


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("reads", ["previous", "accumulated"])
def test_weights_are_carried_as_the_scorer_asks(reads, order):
    (inputs, memory), layer = _data(), _layer(reads, order)
    results = layer(inputs, memory, return_attention_scores=True)
    for result, expected in zip(
        results, _by_hand(layer, inputs, memory, reads, order), strict=True
    ):
        np.testing.assert_allclose(result, expected, atol=1e-12)


def test_the_layer_can_decide_what_is_carried():
    (inputs, memory), layer = _data(), _layer("previous", "luong", attention_history="accumulated")
    weights = layer(inputs, memory, return_attention_scores=True)[1]
    expected = _by_hand(layer, inputs, memory, "accumulated", "luong")[1]
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    again = AttentionRNN.from_config(layer.get_config())
    assert again.attention_history == "accumulated"


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_steps_with_beams_equal_the_call(order):
    (inputs, memory), layer = _data(), _layer("accumulated", order)
    outputs, weights, last = layer(inputs, memory, return_attention_scores=True, return_state=True)
    prepared = layer.prepare(tf.constant(memory))
    state = layer.start(prepared)
    twice = keras.tree.map_structure(lambda leaf: tf.repeat(leaf, 2, axis=0), state)
    for step in range(TIME):
        rows = tf.repeat(inputs[:, step], 2, axis=0)
        output, _, weight, twice = layer.step(rows, twice, prepared)
        np.testing.assert_allclose(output[::2], outputs[:, step], atol=1e-12)
        np.testing.assert_allclose(weight[1::2], weights[:, step], atol=1e-12)
    np.testing.assert_allclose(twice["weights"][::2], last["weights"], atol=1e-12)
    np.testing.assert_allclose(tf.reduce_sum(last["weights"], -1), TIME, atol=1e-12)


def test_masked_steps_leave_the_carried_weights():
    (inputs, memory), layer = _data(), _layer("accumulated", "luong")
    mask = np.array([[True, False, True, False, False], [True] * 5])
    _, state = layer(inputs, memory, inputs_mask=mask, return_state=True)
    np.testing.assert_allclose(tf.reduce_sum(state["weights"], -1), [2, 5], atol=1e-12)


def test_half_precision_carries_float32():
    inputs, memory = _data()
    layer = _layer("accumulated", "luong", dtype="float16")
    symbols = keras.Input((None, DIM)), keras.Input((None, DIM))
    _, symbolic = layer(*symbols, return_state=True)
    _, state = layer(inputs.astype("float16"), memory.astype("float16"), return_state=True)
    assert symbolic["weights"].dtype == state["weights"].dtype.name == "float32"


def test_bad_choice_is_refused():
    with pytest.raises(ValueError, match="`attention_history` to be one of.*Received.*'all'"):
        _layer("previous", "luong", attention_history="all")
