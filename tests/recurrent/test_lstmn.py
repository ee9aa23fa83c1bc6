"""LSTMN against loops written like the paper, against an LSTM, and its own gradient."""

import re

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.kernels.lstmn_sequence import lstmn_sequence
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.recurrent._lstmn_step import attend

B, T, D, N, U, S, M = 3, 7, 2, 5, 11, 6, 13
RANDOM = np.random.RandomState(1)
INPUTS, MEMORY, CELLS = RANDOM.randn(B, T, D), RANDOM.randn(B, S, M), RANDOM.randn(B, S, N)
MASK = np.array([[1] * T, [1, 1, 0, 1, 1, 0, 0], [0] * T], "bool")
MEMORY_MASK = np.arange(S) < np.array([[S], [4], [0]])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softmax(scores, mask):
    """Over the scores whose mask is True; zeros if there are none."""
    weights = np.where(mask, np.exp(scores - scores.max()), 0.0)
    return weights / max(weights.sum(), 1e-300)


def _layer(fusion=None, dtype="float64", **options):
    set_seed(1)
    layer = ka.LSTMN(N, U, fusion, bias_initializer="normal", dtype=dtype, name="intra", **options)
    layer(*_arguments(fusion))
    return layer


def _arguments(fusion):
    return (INPUTS, MEMORY, CELLS) if fusion else (INPUTS,)


def _masks(fusion):
    return {"mask": MASK, "memory_mask": MEMORY_MASK} if fusion else {"mask": MASK}


def _flags(state=False):
    return {"return_cells": True, "return_attention_scores": True, "return_state": state}


def _paper(layer, row, mask, memory_mask=None):
    """Equations 4 to 9 of section 3.2 and those of section 4, a slot and a step at a time."""
    w = {weight.name: np.array(weight) for weight in layer.weights}
    hs, cs, slots = [np.zeros(N)], [np.zeros(N)], [True]
    attended, memory_attended = np.zeros(N), np.zeros(M)
    results = []
    for t in range(T):
        x = INPUTS[row, t]
        if not mask[t]:
            hs.append(np.zeros(N)), cs.append(np.zeros(N)), slots.append(False)
            results.append((hs[-1], cs[-1], np.zeros(T + 1), np.zeros(S)))
            continue
        scores = np.zeros(t + 1)
        for i in range(t + 1):
            inside = w["key_kernel"].T @ hs[i] + w["input_query_kernel"].T @ x
            scores[i] = w["vector"][:, 0] @ np.tanh(inside + w["query_kernel"].T @ attended)
        s = _softmax(scores, np.array(slots))
        attended = sum(s[i] * hs[i] for i in range(t + 1))
        cell = sum(s[i] * cs[i] for i in range(t + 1))
        gates = w["kernel"].T @ x + w["recurrent_kernel"].T @ attended + w["bias"]
        i, f, g, o = np.split(gates, 4)
        c = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        p = np.zeros(S)
        if memory_mask is not None:
            for j in range(S):
                inside = w["memory_key_kernel"].T @ MEMORY[row, j]
                inside = inside + w["memory_input_kernel"].T @ x
                inside = inside + w["memory_query_kernel"].T @ memory_attended
                p[j] = w["memory_vector"][:, 0] @ np.tanh(inside)
            p = _softmax(p, memory_mask)
            memory_attended = p @ MEMORY[row]
            r = w["memory_gate_kernel"].T @ np.concatenate([memory_attended, x])
            c = c + _sigmoid(r + w["memory_gate_bias"]) * (p @ CELLS[row])
        hs.append(_sigmoid(o) * np.tanh(c)), cs.append(c), slots.append(True)
        results.append((hs[-1], c, np.pad(s, (0, T - t)), p))
    return [np.stack(result) for result in zip(*results, strict=True)]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("fusion", [None, "deep"])
def test_a_sequence_is_the_papers(fusion, masked):
    layer = _layer(fusion)
    outputs = layer(*_arguments(fusion), **_flags(), **(_masks(fusion) if masked else {}))
    for row in range(B):
        mask = MASK[row] if masked else np.ones(T, "bool")
        memory_mask = None
        if fusion:
            memory_mask = MEMORY_MASK[row] if masked else np.ones(S, "bool")
        expected = _paper(layer, row, mask, memory_mask)
        for one, other in zip(outputs, expected, strict=False):
            np.testing.assert_allclose(np.array(one)[row], other, rtol=0, atol=1e-12)


def test_worked_numbers():
    hidden, cell = np.array([[0, 0], [0.5, -0.2]]), np.array([[0, 0], [0.8, 0.1]])
    query = 0.5 * np.array([1.0, -1.0]) + np.array([[0, 0.3], [0.3, 0]]) @ [0.1, 0.2]
    value = np.concatenate([hidden, cell], axis=-1)
    arrays = [keras.ops.array(a) for a in (query[None], hidden[None], np.ones(2), value[None])]
    pairs = np.tanh(query + hidden).sum(-1)
    np.testing.assert_allclose(pairs, [0.069778, 0.200684], atol=5e-7)
    weights, reading = attend(*arrays, keras.ops.ones((1, 2), "bool"))
    np.testing.assert_allclose(weights[0], [0.467320, 0.532680], atol=5e-7)
    expected = [0.266340, -0.106536, 0.426144, 0.053268]
    np.testing.assert_allclose(reading[0], expected, atol=5e-7)


@keras.saving.register_keras_serializable(package="tests")
class LastSlot(ka.Normalizer):
    """Puts all weight on the last slot that may be read."""

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        length = scores.shape[-1]
        last = keras.ops.max(keras.ops.where(mask, keras.ops.arange(length), -1), axis=-1)
        return keras.ops.one_hot(last, length, dtype=scores.dtype)


def test_attention_on_the_last_slot_is_an_lstm():
    layer = _layer(normalizer=LastSlot(dtype="float64"))
    lstm = keras.layers.LSTM(N, return_sequences=True, dtype="float64")
    lstm.build((B, T, D))
    lstm.set_weights([layer.kernel, layer.recurrent_kernel, layer.bias])
    for options in ({}, {"mask": MASK}):
        expected = np.array(lstm(INPUTS, **options))
        kept = options.get("mask", np.ones((B, T), "bool"))[:, :, None]
        outputs = np.array(layer(INPUTS, **options))
        np.testing.assert_allclose(outputs, np.where(kept, expected, 0), rtol=0, atol=1e-12)


def test_weights_sum_to_one_over_the_slots_before():
    outputs, weights = _layer()(INPUTS, return_attention_scores=True)
    weights = np.array(weights)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(weights[:, 0, 0], 1.0)
    for t in range(T):
        assert np.all(weights[:, t, : t + 1] > 0) and np.all(weights[:, t, t + 1 :] == 0)
    assert outputs.shape == (B, T, N)


def _loss(outputs):
    random = np.random.RandomState(2)
    return tf.add_n([tf.reduce_sum(x * random.randn(*x.shape)) for x in outputs])


def _floats(outputs):
    """All float tensors, those of the state included."""
    return [x for x in keras.tree.flatten(outputs) if x.dtype.is_floating]


@pytest.mark.thorough
@pytest.mark.parametrize("fusion", [None, "deep"])
def test_the_gradient_is_that_of_the_automatic_one(fusion):
    inputs = [tf.constant(array) for array in _arguments(fusion)]
    gradients = []
    for normalizer in ("softmax", SameSoftmax(dtype="float64")):
        layer = _layer(fusion, normalizer=normalizer)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = _loss(_floats(layer(*inputs, **_flags(state=True), **_masks(fusion))))
        gradients.append(tape.gradient(total, [*inputs, *layer.trainable_variables]))
    assert len(gradients[0]) == (16 if fusion else 8)
    for one, other in zip(*gradients, strict=True):
        assert np.any(other.numpy() != 0)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


@keras.saving.register_keras_serializable(package="tests")
class SameSoftmax(ka.Normalizer):
    """The softmax under another name, so that the automatic gradient is taken."""

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return masked_softmax(scores, mask)


@pytest.mark.thorough
@pytest.mark.parametrize("fusion", [None, "deep"])
def test_gradients_equal_finite_differences(fusion):
    layer = _layer(fusion)

    def loss():
        return _loss(_floats(layer(*_arguments(fusion), **_flags(), **_masks(fusion))))

    with tf.GradientTape() as tape:
        total = loss()
    variables = layer.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(total, variables), strict=True):
        before, index = variable.numpy(), np.unravel_index(1, variable.shape)
        values = []
        for sign in (1, -1):
            moved = before.copy()
            moved[index] += sign * 1e-6
            variable.assign(moved)
            values.append(loss())
        variable.assign(before)
        difference = (values[0] - values[1]) / 2e-6
        np.testing.assert_allclose(gradient.numpy()[index], difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("fusion", [None, "deep"])
def test_steps_equal_the_call(fusion):
    layer = _layer(fusion)
    arguments = _arguments(fusion)
    masks = {"memory_mask": MEMORY_MASK} if fusion else {}
    outputs, *weights, last = layer(
        *arguments, **masks, return_attention_scores=True, return_state=True
    )
    memory = layer.prepare(*arguments[1:], **masks) if fusion else None
    state = layer.get_initial_state(B, T)
    for t in range(T):
        output, *row, state = layer.step(INPUTS[:, t], state, memory)
        np.testing.assert_allclose(output, outputs[:, t], atol=1e-12)
        for one, other in zip(row, weights, strict=True):
            np.testing.assert_allclose(one, other[:, t], atol=1e-12)
    assert state.keys() == last.keys()
    for name in state:
        np.testing.assert_allclose(np.array(state[name]), np.array(last[name]), atol=1e-12)


def test_a_call_can_be_continued_by_steps():
    layer, first = _layer(), 4
    outputs = layer(INPUTS, mask=MASK)
    _, state = layer(INPUTS[:, :first], mask=MASK[:, :first], return_state=True)
    state = layer.extend(state, T)
    kept = np.flatnonzero(MASK[1])
    for t in range(first, T):
        output, _, state = layer.step(INPUTS[:, t], state)
        np.testing.assert_allclose(output[0], outputs[0, t], atol=1e-12)
        if t in kept:  # the row with a gap before the cut
            np.testing.assert_allclose(output[1], outputs[1, t], atol=1e-12)


def test_beams_share_their_memory():
    layer, width = _layer("deep"), 2
    memory = layer.prepare(MEMORY, CELLS, memory_mask=MEMORY_MASK)
    inputs = RANDOM.randn(B * width, D)
    output, weights, memory_weights, _ = layer.step(
        inputs, layer.get_initial_state(B * width, 3), memory
    )
    tiled = {name: np.repeat(np.array(leaf), width, axis=0) for name, leaf in memory.items()}
    expected = layer.step(inputs, layer.get_initial_state(B * width, 3), tiled)
    assert memory_weights.shape == (B * width, S)
    for one, other in zip((output, weights, memory_weights), expected, strict=False):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_layers_stack_and_masks_pass_through():
    inputs = keras.Input((None, D))
    masked = keras.layers.Masking(mask_value=9.0)(inputs)
    states = ka.LSTMN(N)(ka.LSTMN(U)(masked))
    model = keras.Model(inputs, states)
    padded = np.where(MASK[:, :, None], INPUTS, 9.0)
    outputs = np.array(model(padded))
    assert np.all(outputs[~MASK] == 0) and np.all(np.any(outputs[MASK] != 0, axis=-1))
    np.testing.assert_array_equal(model(padded)._keras_mask, MASK)


def test_shallow_fusion_is_an_attention_over_the_encoders_states():
    source, target = keras.Input((None, D)), keras.Input((None, D))
    encoder, decoder = ka.LSTMN(N), ka.LSTMN(N)
    encoded = encoder(keras.layers.Masking(mask_value=9.0)(source))
    context, weights = ka.BahdanauAttention(U)(
        decoder(target), encoded, return_attention_scores=True
    )
    model = keras.Model([source, target], [context, weights])
    padded = np.where(MASK[:, :, None], INPUTS, 9.0)
    context, weights = model([padded, INPUTS[:, :3]])
    assert context.shape == (B, 3, N)
    np.testing.assert_allclose(np.array(weights).sum(-1)[:2], 1.0, atol=1e-6)
    assert np.all(np.array(weights)[~np.repeat(MASK[:, None], 3, axis=1)] == 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ka.LSTMN(0), "`units` to be a positive int"),
        (lambda: ka.LSTMN(3, 0), "`attention_units` to be a positive int"),
        (lambda: ka.LSTMN(3, fusion="shallow"), "`fusion` to be one of None, 'deep'"),
        (lambda: ka.LSTMN(3, normalizer="sample"), "uses neither noise"),
        (lambda: ka.LSTMN(3)(INPUTS[0]), r"inputs.shape=\(7, 2\)"),
        (lambda: ka.LSTMN(3)(INPUTS, MEMORY, CELLS), "For shallow fusion"),
        (lambda: ka.LSTMN(N, fusion="deep")(INPUTS), "expects `memory` and"),
        (lambda: ka.LSTMN(N, fusion="deep")(INPUTS, MEMORY), "expects `memory` and"),
        (lambda: ka.LSTMN(N, fusion="deep")(INPUTS, MEMORY, MEMORY), "width 5; project"),
        (lambda: ka.LSTMN(N, fusion="deep")(INPUTS, MEMORY, CELLS[:, 1:]), "on axis 1"),
        (lambda: ka.LSTMN(3).get_initial_state(2, 3), "has no weights yet"),
        (lambda: _layer()(RANDOM.randn(B, T, D + 1)), "built for inputs of width 2"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.thorough
def test_a_tape_that_is_not_asked_for_is_not_kept():
    """The largest tensor that the compiled gradient allocates is the weights', not a tape's."""
    layer = ka.LSTMN(32)
    time, batch = 40, 2
    layer.build((batch, time, D))

    @tf.function(jit_compile=True)
    def gradients(inputs):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(inputs) ** 2)
        return tape.gradient(total, layer.trainable_variables)

    text = gradients.experimental_get_compiler_ir(tf.ones((batch, time, D)))(stage="optimized_hlo")
    tapes = batch * time * (time + 1) * 32
    sizes = [
        int(np.prod([int(n) for n in found.split(",")]))
        for found in re.findall(r"f32\[([\d,]+)\]", text)
    ]
    assert max(sizes) < tapes


def test_other_normalizers_work_and_may_be_sparse():
    layer = ka.LSTMN(N, normalizer="sparsemax", dtype="float64")
    layer.build((None, None, D))
    layer.vector.assign(100 * np.array(layer.vector))
    _, weights = layer(INPUTS, mask=MASK, return_attention_scores=True)
    weights = np.array(weights)
    np.testing.assert_allclose(weights.sum(-1)[MASK], 1.0, atol=1e-12)
    assert np.any(weights[0, -1] == 0)


def test_it_is_reached_through_its_sequence_function_too():
    layer = _layer()
    projected = layer._project(INPUTS)
    step_outputs = lstmn_sequence(projected, keras.ops.array(MASK), layer._weights())
    np.testing.assert_array_equal(step_outputs["hidden"], layer(INPUTS, mask=MASK))
