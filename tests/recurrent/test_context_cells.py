"""A context at the output or input of a cell: equations, reductions, other cells, both homes."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import (
    AttentionalVectorCell,
    AttentionRNN,
    BahdanauAttention,
    BahdanauGRUCell,
    ContextAddCell,
    ContextInputCell,
    SkipFirstUpdate,
)

B, T, NI, NH, NZ, S = 3, 5, 2, 7, 4, 11
CELLS = {
    "simple": keras.layers.SimpleRNNCell,
    "gru": keras.layers.GRUCell,
    "lstm": keras.layers.LSTMCell,
    "bahdanau": BahdanauGRUCell,
}


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


X, Z, MEMORY = _random(B, T, NI), _random(B, T, NZ), _random(B, S, NZ)
WIDE = _random(B, T, NH)


def _simple_cell():
    """Returns a plain cell and its parameters as the equations name them."""
    cell = keras.layers.SimpleRNNCell(NH, dtype="float64")
    cell.build((None, NI))
    w, u, b = _random(NI, NH), _random(NH, NH) / 4, _random(NH)
    cell.set_weights([w, u, b])
    return cell, w, u, b


def _run(cell, x, z):
    layer = keras.layers.RNN(cell, return_sequences=True, return_state=True, dtype="float64")
    outputs, *state = layer(np.concatenate([x, z], axis=-1))
    return np.array(outputs), [np.array(one) for one in state]


def test_add_changes_the_output_only():
    cell, w, u, b = _simple_cell()
    outputs, (last,) = _run(ContextAddCell(cell, NH, dtype="float64"), X, WIDE)
    h = np.zeros((B, NH))
    for t in range(T):
        h = np.tanh(X[:, t] @ w + h @ u + b)
        np.testing.assert_allclose(outputs[:, t], h + WIDE[:, t], atol=1e-12)
    np.testing.assert_allclose(last, h, atol=1e-12)


def test_add_projects_a_context_of_another_width():
    cell, w, u, b = _simple_cell()
    wrapped = ContextAddCell(cell, NZ, dtype="float64")
    outputs, _ = _run(wrapped, X, Z)
    plain, _ = _run(ContextAddCell(cell, NH, dtype="float64"), X, np.zeros((B, T, NH)))
    np.testing.assert_allclose(outputs, plain + Z @ np.array(wrapped.kernel), atol=1e-12)


@pytest.mark.parametrize("output_is_state", [False, True])
@pytest.mark.parametrize("activation", [None, "tanh"])
def test_an_attentional_vector_changes_what_is_read_out_and_if_carried_remembered(
    activation, output_is_state
):
    cell, w, u, b = _simple_cell()
    wrapped = AttentionalVectorCell(cell, NZ, activation, output_is_state, dtype="float64")
    outputs, (last,) = _run(wrapped, X, Z)
    wc, h = np.array(wrapped.kernel), np.zeros((B, NH))
    assert wc.shape == (NH + NZ, NH)
    for t in range(T):
        h = np.tanh(X[:, t] @ w + h @ u + b)
        read = np.concatenate([h, Z[:, t]], axis=-1) @ wc
        read = np.tanh(read) if activation else read
        np.testing.assert_allclose(outputs[:, t], read, atol=1e-12)
        h = read if output_is_state else h
    np.testing.assert_allclose(last, h, atol=1e-12)


def test_a_context_input_changes_the_update_itself():
    wih, wzh, whh = _random(NI, NH), _random(NZ, NH), _random(NH, NH) / 4
    bih, bhh, bzh = _random(NH), _random(NH, 1)[:, 0], _random(1, NH)[0]
    cell = keras.layers.SimpleRNNCell(NH, dtype="float64")
    wrapped = ContextInputCell(cell, NZ, dtype="float64")
    wrapped.build((None, NI + NZ))
    cell.set_weights([np.concatenate([wih, wzh]), whh, bih + bhh + bzh])
    outputs, (last,) = _run(wrapped, X, Z)
    h = np.zeros((B, NH))
    for t in range(T):
        h = np.tanh(X[:, t] @ wih + bih + h @ whh + bhh + Z[:, t] @ wzh + bzh)
        np.testing.assert_allclose(outputs[:, t], h, atol=1e-12)
    np.testing.assert_allclose(last, h, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_a_context_input_is_the_cell_over_both_inputs(kind):
    cell = CELLS[kind](NH, dtype="float64")
    outputs, _ = _run(ContextInputCell(cell, NZ, dtype="float64"), X, Z)
    plain = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    both = np.concatenate([X, Z], axis=-1)
    np.testing.assert_allclose(outputs, np.array(plain(both)), atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("place", ["add", "attentional_vector", "input"])
def test_without_context_all_three_are_the_plain_network(kind, place):
    cell = CELLS[kind](NH, dtype="float64")
    if place == "input":
        wrapped = ContextInputCell(cell, NZ, dtype="float64")
    else:
        make = {"add": ContextAddCell, "attentional_vector": AttentionalVectorCell}[place]
        wrapped = make(cell, NZ, dtype="float64")
    wrapped.build((None, NI + NZ))
    if place == "attentional_vector":
        wrapped.kernel.assign(np.eye(NH + NZ, NH))
    outputs, state = _run(wrapped, X, np.zeros_like(Z))
    plain = CELLS[kind](NH, dtype="float64")
    plain.build((None, NI))
    weights = cell.get_weights()
    plain.set_weights([weights[0][:NI], *weights[1:]])
    expected, *last = keras.layers.RNN(
        plain, return_sequences=True, return_state=True, dtype="float64"
    )(X)
    np.testing.assert_allclose(outputs, np.array(expected), atol=1e-12)
    for one, other in zip(state, last, strict=True):
        np.testing.assert_allclose(one, np.array(other), atol=1e-12)


PLACES = {
    "add": lambda cell, **o: ContextAddCell(cell, NZ, **o),
    "attentional_vector": lambda cell, **o: AttentionalVectorCell(cell, NZ, "tanh", **o),
    "output_is_state": lambda cell, **o: AttentionalVectorCell(
        cell, NZ, "tanh", output_is_state=True, **o
    ),
    "input": lambda cell, **o: ContextInputCell(cell, NZ, **o),
}


@pytest.mark.parametrize("kind", ["lstm", "bahdanau"])
@pytest.mark.parametrize("place", PLACES)
def test_attention_gives_the_context_step_by_step_as_in_a_full_call(place, kind):
    cell = PLACES[place](CELLS[kind](NH, dtype="float64"), dtype="float64")
    layer = AttentionRNN(
        cell, BahdanauAttention(3, dtype="float64"), order="bahdanau", dtype="float64"
    )
    outputs, contexts, weights = layer(X, MEMORY, return_context=True, return_attention_scores=True)
    memory = layer.prepare(tf.constant(MEMORY))
    state = layer.start(memory)
    for t in range(T):
        before = layer.adapter.get_output(state["cell"])
        _, expected = layer.attention(before, MEMORY, return_attention_scores=True)
        output, context, weight, state = layer.step(tf.constant(X[:, t]), state, memory)
        np.testing.assert_allclose(np.array(weight), np.array(expected), atol=1e-12)
        for one, all_steps in ((output, outputs), (context, contexts), (weight, weights)):
            np.testing.assert_allclose(np.array(one), np.array(all_steps)[:, t], atol=1e-12)
    # The same as telling the cell known contexts.
    known, _ = _run(cell, X, np.array(contexts))
    np.testing.assert_allclose(np.array(outputs), known, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
def test_dropout_of_the_wrapped_cell_is_drawn_before_the_loop(place):
    cell = keras.layers.GRUCell(NH, dropout=0.4, recurrent_dropout=0.3, seed=1)
    layer = AttentionRNN(PLACES[place](cell), BahdanauAttention(3), order="bahdanau")
    x, memory = X.astype("float32"), MEMORY.astype("float32")
    layer(x, memory)

    @tf.function(jit_compile=place == "output_is_state")
    def run(training):
        return layer(x, memory, training=training)

    first, second = np.array(run(True)), np.array(run(True))
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(np.array(run(False)), np.array(layer(x, memory)), atol=1e-5)


@pytest.mark.parametrize("wrap", [lambda cell: ContextAddCell(cell, NZ), SkipFirstUpdate])
def test_dropout_of_the_wrapped_cell_is_refused_where_it_would_leak(wrap):
    layer = keras.layers.RNN(wrap(keras.layers.GRUCell(NH, dropout=0.4)))
    inputs = np.concatenate([X, Z], axis=-1)
    layer(inputs)
    with pytest.raises(ValueError, match="cannot apply the dropout.*cell.dropout=0.4"):
        layer(inputs, training=True)


@pytest.mark.thorough
def test_one_compiled_fit_with_unknown_batch_and_length():
    inputs = keras.Input((None, NI)), keras.Input((None, NZ))
    cell = AttentionalVectorCell(keras.layers.LSTMCell(NH), NZ, "tanh", output_is_state=True)
    both = keras.layers.Concatenate()(inputs)
    model = keras.Model(inputs, keras.layers.RNN(cell, return_sequences=True)(both))
    model.compile("sgd", "mse", jit_compile=True)

    def batches():
        for batch, length in ((3, 5), (2, 3)):
            data = (_random(batch, length, NI), _random(batch, length, NZ))
            yield data, _random(batch, length, NH)

    history = model.fit(batches(), steps_per_epoch=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`context_dim` to be a positive int.*context_dim=0"):
        ContextInputCell(keras.layers.GRUCell(NH), 0)
    with pytest.raises(ValueError, match="`cell` to be a Keras cell.*cell=3"):
        ContextAddCell(3, NZ)
    with pytest.raises(ValueError, match="wraps a single cell"):
        AttentionalVectorCell([keras.layers.GRUCell(NH)], NZ)
    cell = ContextAddCell(keras.layers.GRUCell(NH), NZ)
    with pytest.raises(ValueError, match="z the last context_dim=4 .*inputs.shape=.None, 4"):
        cell.build((None, NZ))
