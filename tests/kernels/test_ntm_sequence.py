"""The gradient that `NTM` has written out, against the automatic one and finite differences."""

import keras
import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.ntm import ntm

LSTM, DENSE = keras.layers.LSTMCell, keras.layers.Dense
MASK = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]], bool)


def stack_cells(*units, **options):
    return keras.layers.StackedRNNCells(
        [LSTM(one, dtype="float64", **options) for one in units], dtype="float64"
    )


#: Heads that read and write, the controller, further options: every piece at least twice.
CASES = {
    "lstm": ((1, 1), lambda: LSTM(3, dtype="float64"), {}),
    "heads": ((2, 3), lambda: LSTM(3, dtype="float64"), {"shift": ka.ScalarShift(2)}),
    "previous": ((3, 2), lambda: LSTM(3, dtype="float64"), {"read_from": "previous"}),
    "stack": ((2, 1), lambda: stack_cells(5, 3), {"shift": "scalar", "read_from": "previous"}),
    "bare": (
        (1, 2),
        lambda: stack_cells(3, 5, use_bias=False),
        {"head_activation": "linear", "shift": ka.SoftmaxShift(0)},
    ),
    "tanh": ((1, 1), lambda: DENSE(3, "tanh", dtype="float64"), {"shift": "scalar"}),
    "relu": ((2, 2), lambda: DENSE(3, "relu", dtype="float64"), {"shift": ka.SoftmaxShift(2)}),
    "sigmoid": (
        (1, 3),
        lambda: DENSE(3, "sigmoid", use_bias=False, dtype="float64"),
        {"read_from": "previous"},
    ),
    "linear": ((2, 1), lambda: DENSE(3, dtype="float64"), {"head_activation": "linear"}),
}


def make_layer(case, scale=0.7):
    """Returns a layer whose state is learned, built, every weight drawn."""
    heads, controller, options = CASES[case]
    cell = ka.NTMCell(
        2,
        7,
        5,
        controller(),
        *heads,
        activation=None,
        initial_memory="learned",
        initial_controller="learned",
        dtype="float64",
        **options,
    )
    layer = ka.NTM(cell, return_state=True, dtype="float64")
    layer.build((None, None, 11))
    random = np.random.RandomState(1)
    for weight in layer.weights:
        weight.assign(scale * random.randn(*weight.shape))
    return layer


def automatic(monkeypatch):
    """Has `NTM` leave every gradient to the backend."""
    monkeypatch.setattr(ntm, "make_custom_gradient_controller", lambda controller, training: None)


def weigh(results):
    """Returns the sum of all results, each entry times a number of its own."""
    total = 0.0
    for index, result in enumerate(keras.tree.flatten(results)):
        noise = np.random.RandomState(index).randn(*result.shape)
        total += tf.reduce_sum(result * noise)
    return total


def gradients(layer, inputs, state=None, **options):
    """Returns all results, and the gradients of weights, of the inputs and of the first state."""
    inputs = tf.constant(inputs)
    weights = [weight.value for weight in layer.trainable_weights]
    if state is not None:  # the learned one is not used then
        learned = {id(one) for one in layer.cell.initial_state.learned.values()}
        weights = [w.value for w in layer.trainable_weights if id(w) not in learned]
    leaves = keras.tree.flatten(state) if state is not None else []
    with tf.GradientTape() as tape:
        tape.watch([inputs, *leaves])
        results = layer(inputs, initial_state=state, return_auxiliary_outputs=True, **options)
        total = weigh(results)
    found = tape.gradient(total, [*weights, inputs, *leaves])
    return [np.array(one) for one in keras.tree.flatten(results)], [np.array(g) for g in found]


@pytest.mark.thorough
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_automatic_gradient(case, masked, monkeypatch):
    """Of outputs, of the history of weights and memory, and of the last state."""
    layer, inputs = make_layer(case), np.random.RandomState(2).randn(3, 4, 11)
    options = {"inputs_mask": tf.constant(MASK)} if masked else {}
    results, found = gradients(layer, inputs, **options)
    automatic(monkeypatch)
    expected_results, expected = gradients(layer, inputs, **options)
    for one, other in zip(results + found, expected_results + expected, strict=True):
        assert np.any(other != 0)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["heads", "relu"])
def test_it_reaches_a_state_that_is_handed_in(case, monkeypatch):
    layer, random = make_layer(case), np.random.RandomState(3)
    inputs, state = random.randn(3, 4, 11), layer.cell.start(3)
    _, state = layer(inputs, initial_state=state)  # of three rows that differ
    _, found = gradients(layer, inputs, state, inputs_mask=tf.constant(MASK))
    automatic(monkeypatch)
    _, expected = gradients(layer, inputs, state, inputs_mask=tf.constant(MASK))
    for one, other in zip(found, expected, strict=True):
        assert np.any(other != 0)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_beyond_the_limits_of_the_heads_it_is_0_as_well(monkeypatch):
    layer, inputs = make_layer("linear", scale=0.3), np.random.RandomState(2).randn(3, 4, 11)
    cell = layer.cell
    bias = np.array(cell.head_bias)
    bias[::3], bias[1::3] = 50.0, -50.0
    cell.head_bias.assign(bias)
    _, found = gradients(layer, inputs)
    automatic(monkeypatch)
    _, expected = gradients(layer, inputs)
    (place,) = (i for i, w in enumerate(layer.trainable_weights) if w is cell.head_bias)
    assert np.all(found[place][::3] == 0) and np.all(found[place][1::3] == 0)
    assert np.any(found[place] != 0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


@pytest.mark.thorough
def test_it_is_the_slope_of_the_outputs():
    layer = make_layer("heads")
    layer.return_state = False
    inputs = tf.Variable(np.random.RandomState(4).randn(3, 4, 11))
    call = tf.function(lambda: layer(inputs, inputs_mask=tf.constant(MASK)), autograph=False)
    assert_gradients_are_right(call, [inputs, *layer.trainable_weights], samples=3)


@pytest.mark.thorough
def test_the_sum_of_losses_in_parts_has_the_sum_of_their_gradients():
    """Each result alone: what is not used has no gradient, and none is assumed."""
    layer, inputs = make_layer("tanh"), tf.constant(np.random.RandomState(5).randn(2, 3, 11))
    weights = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape(persistent=True) as tape:
        results = keras.tree.flatten(layer(inputs, return_auxiliary_outputs=True))
        parts = [tf.reduce_sum(result * result) for result in results]
        total = sum(parts)
    expected = tape.gradient(total, weights)
    zero = tf.UnconnectedGradients.ZERO
    alone = [tape.gradient(part, weights, unconnected_gradients=zero) for part in parts]
    for one, *others in zip(expected, *alone, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(sum(others)), rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_xla_computes_the_gradients_of_a_graph():
    layer = make_layer("tanh", scale=0.3)
    weights = [weight.value for weight in layer.trainable_weights]

    def both(inputs, mask):
        with tf.GradientTape() as tape:
            total = weigh(layer(inputs, inputs_mask=mask, return_auxiliary_outputs=True)[0])
        return tape.gradient(total, weights[:4])

    inputs, mask = tf.constant(np.random.RandomState(6).randn(3, 4, 11)), tf.constant(MASK)
    graph = tf.function(both)(inputs, mask)
    for one, other in zip(tf.function(both, jit_compile=True)(inputs, mask), graph, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-9, atol=1e-12)
