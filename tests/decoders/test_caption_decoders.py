"""Decoders of captions: the papers' equations, steps, what they begin from, details, bad input."""

import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    ConcatenateSources,
    HardAttention,
    MultiSourceAttention,
    ShowAttendTellDecoder,
    ShowTellDecoder,
    SoftAttention,
)
from keras_attention.decoders import check_decoder

B, T, S, V, E, N, M, U = 3, 5, 7, 13, 4, 8, 6, 2
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
MASK = np.arange(S) < np.array([[7], [3], [5]])
MEMORY = np.random.RandomState(0).randn(B, S, M)

DECODERS = {
    "soft": lambda **o: ShowAttendTellDecoder(V, E, N, SoftAttention(U, dtype=o["dtype"]), **o),
    "hard": lambda **o: ShowAttendTellDecoder(
        V, E, N, HardAttention(U, seed=3, dtype=o["dtype"]), readout_activation="linear", **o
    ),
    "told": lambda **o: ShowTellDecoder(V, E, N, **o),
}


def _make_decoder(name, **options):
    set_seed(1)
    decoder = DECODERS[name](**{"dtype": "float64", **options})
    decoder.build(IDS.shape, MEMORY.shape)
    for index, weight in enumerate(decoder.trainable_weights):  # no bias at zero, no small logits
        weight.assign(0.7 * np.random.RandomState(index).randn(*weight.shape))
    return decoder


def _affine(layer, x):
    return x @ np.array(layer.kernel) + np.array(layer.bias)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(cell, x, h, c):
    gates = x @ np.array(cell.kernel) + h @ np.array(cell.recurrent_kernel) + np.array(cell.bias)
    i, f, g, o = np.split(gates, 4)  # Keras' order
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _soft_in_numpy(decoder):
    """SPEC 7, loops over rows and steps: logits and alpha."""
    table = np.array(decoder.embedding.embeddings)
    attention, cell = decoder.attention, decoder.recurrence.cell
    w_h, w_a, b, w = (
        np.array(weight)
        for weight in (
            attention.scorer.query_kernel,
            attention.scorer.key_kernel,
            attention.scorer.bias,
            attention.scorer.vector,
        )
    )
    logits, alphas = np.zeros((B, T, V)), np.zeros((B, T, S))
    for row in range(B):
        a = MEMORY[row, MASK[row]]
        h = np.tanh(_affine(decoder.initial_hidden_dense, a.mean(axis=0)))
        c = np.tanh(_affine(decoder.initial_cell_dense, a.mean(axis=0)))
        for time in range(T):
            y = np.zeros(E) if time == 0 else table[IDS[row, time]]  # y_0 is the zero vector
            e = np.tanh(a @ w_a + h @ w_h + b) @ w[:, 0]
            alpha = np.exp(e - e.max()) / np.exp(e - e.max()).sum()
            beta = _sigmoid(h @ np.array(attention.gate_kernel)[:, 0] + attention.gate_bias[0])
            z = beta * (alpha @ a)
            h, c = _lstm(cell, np.concatenate([y, z]), h, c)
            inner = np.tanh(y + _affine(decoder.readout_dense, np.concatenate([h, z])))
            logits[row, time] = _affine(decoder.logits, inner)
            alphas[row, time, : len(a)] = alpha
    return logits, alphas


def test_show_attend_and_tell_computes_what_the_paper_says():
    decoder = _make_decoder("soft")
    logits, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    expected, alphas = _soft_in_numpy(decoder)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)  # logits are float32
    np.testing.assert_allclose(alignment, alphas, rtol=1e-5, atol=1e-6)


def test_show_and_tell_reads_the_picture_before_the_words():
    decoder = _make_decoder("told")
    table, cell = np.array(decoder.embedding.embeddings), decoder.recurrence.cell
    expected = np.zeros((B, T, V))
    for row in range(B):
        image = np.maximum(_affine(decoder.image, MEMORY[row, MASK[row]].mean(axis=0)), 0)
        h, c = _lstm(cell, image, np.zeros(N), np.zeros(N))
        for time in range(T):
            h, c = _lstm(cell, table[IDS[row, time]], h, c)
            expected[row, time] = _affine(decoder.logits, h)
    logits, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    assert alignment.shape == (B, T, S) and not np.any(alignment)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_steps_equal_the_full_call_with_padding_and_reordered_beams(name, policy):
    decoder = _make_decoder(name, dtype=policy)
    memory, mask = tf.constant(MEMORY, "float32"), tf.constant(MASK)
    check_decoder(decoder, IDS, memory, memory_mask=mask)
    state = [np.random.RandomState(n).randn(B, N).astype("float32") for n in (1, 2)]
    check_decoder(decoder, IDS, memory, memory_mask=mask, initial_state=state)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["soft", "told"])
def test_gradients_of_every_weight_are_right(name):
    decoder, memory = _make_decoder(name), tf.constant(MEMORY)

    @tf.function
    def call():
        # Logits are float32: the outputs before them are what differences can tell of.
        prepared = decoder.prepare(memory, tf.constant(MASK))
        embedded = decoder.embed(tf.constant(IDS))
        run = decoder.recurrence.run(embedded, decoder.start(prepared), prepared)
        return decoder.readout(embedded, *run[:2])

    rows = [w for w in decoder.trainable_weights if "embeddings" not in w.path]
    assert_gradients_are_right(call, rows, samples=1)


@pytest.mark.parametrize("name", DECODERS)
def test_masked_locations_may_hold_anything_and_none_at_all_gives_finite_numbers(name):
    decoder = _make_decoder(name)
    logits = decoder(IDS, MEMORY, memory_mask=MASK)
    junk = np.where(MASK[:, :, None], MEMORY, np.nan)
    np.testing.assert_array_equal(decoder(IDS, junk, memory_mask=MASK), logits)
    with tf.GradientTape() as tape:
        empty = decoder(IDS, np.full_like(MEMORY, np.nan), memory_mask=np.zeros_like(MASK))
        cost = tf.reduce_sum(empty**2)
    assert np.isfinite(empty).all()
    for gradient in tape.gradient(cost, [w.value for w in decoder.trainable_weights]):
        if gradient is not None:  # hard attention tells its scores nothing
            assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_hard_attention_tells_what_reinforce_needs():
    decoder = _make_decoder("hard")
    _, weights, auxiliary_outputs = decoder(
        IDS, MEMORY, memory_mask=MASK, return_attention_scores=True, return_auxiliary_outputs=True
    )
    assert sorted(auxiliary_outputs) == ["entropy", "log_alpha"]
    assert all(tuple(one.shape) == (B, T) for one in auxiliary_outputs.values())
    np.testing.assert_array_equal(np.max(weights, axis=2), 1.0)  # argmax: one location a step
    assert np.all(np.array(auxiliary_outputs["log_alpha"]) < 0)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_comes_back_from_its_config(name):
    decoder = _make_decoder(name)
    again = type(decoder).from_config(decoder.get_config())
    again.build(IDS.shape, MEMORY.shape)
    again.set_weights(decoder.get_weights())
    np.testing.assert_allclose(again(IDS, MEMORY), decoder(IDS, MEMORY), rtol=1e-6)


@pytest.mark.parametrize("decoder", [ShowAttendTellDecoder, ShowTellDecoder])
def test_arguments_are_checked(decoder):
    with pytest.raises(ValueError, match="`units` to be a positive int. Received: units=0"):
        decoder(V, E, 0)


def test_contexts_may_have_another_width_than_annotations():
    decoder = ShowAttendTellDecoder(V, E, N, MultiSourceAttention(U, 2, context_dim=11))
    memory = ConcatenateSources()([MEMORY, MEMORY[:, :3, :4]])
    assert tuple(decoder(IDS, memory).shape) == (B, T, V)
    assert check_decoder(decoder, IDS, memory) <= 1e-5
