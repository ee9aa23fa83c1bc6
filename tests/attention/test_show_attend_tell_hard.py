"""Hard attention: what is drawn, what is read, which gradients there are, what it tells."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    AttentionRNN,
    HardAttention,
    LuongDecoder,
    SampleNormalizer,
    SoftAttention,
)
from keras_attention.decoders import check_decoder

B, T, S, DQ, DV, N = 3, 5, 7, 11, 13, 4
VALUE_MASK = np.arange(S) < np.array([[7], [3], [0]])


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


QUERY, VALUE = _random(B, T, DQ), _random(B, S, DV)
ALL = {"return_attention_scores": True, "return_auxiliary_outputs": True}


def _attention(dtype="float64", **options):
    set_seed(1)
    attention = HardAttention(N, dtype=dtype, seed=options.pop("seed", 7), **options)
    attention.build(QUERY.shape, VALUE.shape)
    return attention


def _alpha(attention, mask=None):
    scores = np.array(attention.scorer(QUERY, VALUE))
    kept = np.ones_like(scores) if mask is None else mask[:, None, :] * np.ones((B, T, 1))
    exponentials = np.exp(scores) * kept
    return exponentials / np.maximum(exponentials.sum(-1, keepdims=True), 1e-300)


def _gate(attention):
    energy = QUERY @ np.array(attention.gate_kernel) + np.array(attention.gate_bias)
    return 1 / (1 + np.exp(-energy))


def test_training_reads_the_value_at_one_drawn_location():
    attention = _attention(expected_rate=0.0)
    context, weights, auxiliary_outputs = attention(QUERY, VALUE, training=True, **ALL)
    weights, alpha = np.array(weights), _alpha(attention)
    assert set(np.unique(weights)) == {0.0, 1.0} and np.all(weights.sum(-1) == 1)
    places = weights.argmax(-1)
    drawn = np.take_along_axis(VALUE, places[:, :, None], axis=1)
    np.testing.assert_allclose(np.array(context), _gate(attention) * drawn, atol=1e-12)
    chosen = np.take_along_axis(alpha, places[:, :, None], axis=-1)[:, :, 0]
    np.testing.assert_allclose(np.array(auxiliary_outputs["log_alpha"]), np.log(chosen), rtol=1e-6)
    entropy = -(alpha * np.log(alpha)).sum(-1)
    np.testing.assert_allclose(np.array(auxiliary_outputs["entropy"]), entropy, rtol=1e-6)


def test_the_entropies_of_the_worked_numbers():
    scores = np.log([[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]])
    entropies = np.array(SampleNormalizer.entropy(keras.ops.convert_to_tensor(scores)))
    np.testing.assert_allclose(entropies, [[1.029653, 0.897946]], atol=1e-6)


def test_locations_are_drawn_as_often_as_the_softmax_says():
    attention = _attention(expected_rate=0.0, dtype="float32")
    times = 1000
    query, value = np.tile(QUERY, (times, 1, 1)), np.tile(VALUE, (times, 1, 1))
    weights = np.array(attention(query, value, training=True, **ALL)[1])
    shares = weights.reshape(times, B, T, S).mean(axis=0)
    assert np.abs(shares - _alpha(attention)).max() < 4.5 * 0.5 / np.sqrt(times)


def test_no_gradient_reaches_the_scores_through_a_drawn_location():
    attention = _attention(expected_rate=0.0)
    value = tf.constant(VALUE)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(value)
        context, weights, auxiliary_outputs = attention(QUERY, value, training=True, **ALL)
        drawn, told = tf.reduce_sum(context), tf.reduce_sum(auxiliary_outputs["log_alpha"])
        spread = tf.reduce_sum(auxiliary_outputs["entropy"])
    kernel = attention.scorer.vector.value
    assert tape.gradient(drawn, kernel) is None
    assert np.abs(tape.gradient(told, kernel)).max() > 1e-3
    assert np.abs(tape.gradient(spread, kernel)).max() > 1e-3
    expected = np.einsum("bts,bto->bs", np.array(weights), _gate(attention))
    np.testing.assert_allclose(
        np.array(tape.gradient(drawn, value)), expected[:, :, None] * np.ones(DV), atol=1e-12
    )


def test_examples_set_to_expected_are_soft_attention():
    hard = _attention(expected_rate=1.0)
    soft = SoftAttention(N, dtype="float64")
    soft.build(QUERY.shape, VALUE.shape)
    soft.set_weights(hard.get_weights())
    with tf.GradientTape(persistent=True) as tape:
        context, weights, auxiliary_outputs = hard(QUERY, VALUE, training=True, **ALL)
        other = soft(QUERY, VALUE)
        costs = [tf.reduce_sum(x**2) for x in (context, other)]
    np.testing.assert_allclose(np.array(context), np.array(other), atol=1e-12)
    np.testing.assert_allclose(np.array(weights), _alpha(hard), atol=1e-12)
    assert np.all(np.array(auxiliary_outputs["log_alpha"]) == 0) and np.all(
        np.array(auxiliary_outputs["entropy"]) > 0
    )
    one = tape.gradient(costs[0], [w.value for w in hard.trainable_variables])
    two = tape.gradient(costs[1], [w.value for w in soft.trainable_variables])
    for gradient, expected in zip(one, two, strict=True):
        np.testing.assert_allclose(np.array(gradient), np.array(expected), atol=1e-12)


def test_the_coin_is_tossed_once_an_example():
    attention = HardAttention(N, expected_rate=0.3, seed=3)
    rows = 600
    noise = attention.noise(rows, T, S, training=True)
    coins = np.array(noise["expected"])
    assert coins.shape == (rows, T, 1)
    assert np.all(coins == coins[:, :1]) and abs(coins.mean() - 0.3) < 0.08
    # Numbers of its own: with one seed for both, each coin would repeat a number of the noise.
    first = np.array(noise["normalizer"]).ravel()[:rows]
    assert abs(np.corrcoef(first, coins[:, 0, 0])[0, 1]) < 0.15


@pytest.mark.parametrize("inference_mode", ["argmax", "expected"])
def test_inference_is_deterministic_by_default(inference_mode):
    attention = _attention(inference_mode=inference_mode)
    context, weights, auxiliary_outputs = attention(QUERY, VALUE, **ALL)
    again = attention(QUERY, VALUE, **ALL)
    assert all(
        np.array_equal(*pair)
        for pair in zip(
            keras.tree.flatten((context, weights, auxiliary_outputs)),
            keras.tree.flatten(again),
            strict=True,
        )
    )
    alpha = _alpha(attention)
    used = np.eye(S)[alpha.argmax(-1)] if inference_mode == "argmax" else alpha
    told = np.log(alpha.max(-1)) if inference_mode == "argmax" else np.zeros((B, T))
    np.testing.assert_allclose(np.array(weights), used, atol=1e-12)
    np.testing.assert_allclose(np.array(auxiliary_outputs["log_alpha"]), told, atol=1e-6)
    np.testing.assert_allclose(np.array(context), _gate(attention) * (used @ VALUE), atol=1e-12)


def test_sampled_inference_draws_in_predict_and_in_steps():
    attention = _attention(inference_mode="sample", dtype="float32")
    one, other = (np.array(attention(QUERY, VALUE, **ALL)[1]) for _ in range(2))
    assert not np.array_equal(one, other) and np.all(one.sum(-1) == 1)
    layer = AttentionRNN(keras.layers.GRUCell(DQ), attention, order="luong")
    layer.build((B, T, DQ), VALUE.shape)
    memory = layer.prepare(VALUE.astype("float32"))
    state = layer.start(memory)
    inputs = tf.constant(QUERY[:, 0], "float32")
    drawn = {tuple(np.array(layer.step(inputs, state, memory)[2]).argmax(-1)) for _ in range(20)}
    assert len(drawn) > 1


def test_one_seed_gives_one_series_of_draws():
    draws = [np.array(_attention(seed=5)(QUERY, VALUE, training=True, **ALL)[1]) for _ in range(2)]
    np.testing.assert_array_equal(*draws)
    other = np.array(_attention(seed=6)(QUERY, VALUE, training=True, **ALL)[1])
    assert not np.array_equal(draws[0], other)


@pytest.mark.parametrize("expected_rate", [0.0, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "bfloat16"])
def test_rows_without_locations_read_nothing_and_say_so(dtype, expected_rate):
    attention = _attention(dtype=dtype, expected_rate=expected_rate)
    with tf.GradientTape() as tape:
        context, weights, auxiliary_outputs = attention(
            QUERY, VALUE, value_mask=VALUE_MASK, training=True, **ALL
        )
        results = [context, weights, *auxiliary_outputs.values()]
        total = tf.add_n([tf.reduce_sum(tf.cast(x, "float32")) for x in results])
    for result in results:
        assert np.all(np.array(keras.ops.cast(result, "float32"))[2] == 0)
    masked = np.array(keras.ops.cast(weights, "float32"))[1, :, 3:]
    assert np.all(masked == 0)
    for gradient in tape.gradient(total, [w.value for w in attention.trainable_variables]):
        assert gradient is None or np.isfinite(np.array(tf.cast(gradient, "float32"))).all()


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_a_loop_tells_what_a_call_does(order):
    """With the noise of the loop, asking all queries at once gives the loop's details."""
    cell = keras.layers.GRUCell(DQ, dtype="float64")
    attention = HardAttention(N, seed=7, dtype="float64")
    units = {} if order == "bahdanau" else {"attentional_units": 0}
    layer = AttentionRNN(cell, attention, order=order, dtype="float64", **units)
    layer.build((B, T, DQ), VALUE.shape)
    seeds = [v for v in layer.non_trainable_variables if "seed" in v.path]
    before = [np.array(seed) for seed in seeds]
    outputs, weights, auxiliary_outputs = layer(
        QUERY, VALUE, memory_mask=VALUE_MASK, training=True, **ALL
    )
    for seed, value in zip(seeds, before, strict=True):
        seed.assign(value)
    noise = attention.noise(B, T, S, training=True)
    states = np.array(outputs)
    if order == "bahdanau":  # the query is the state before the step
        states = np.concatenate([np.zeros((B, 1, DQ)), states[:, :-1]], axis=1)
    memory = attention.prepare(tf.constant(VALUE), value_mask=tf.constant(VALUE_MASK))
    _, expected, told = attention.attend(
        tf.constant(states), memory, noise=noise, training=True, return_auxiliary_outputs=True
    )
    np.testing.assert_allclose(np.array(weights), np.array(expected), atol=1e-9)
    for name in ("log_alpha", "entropy"):
        assert auxiliary_outputs[name].shape == (B, T)
        np.testing.assert_allclose(
            np.array(auxiliary_outputs[name]), np.array(told[name]), atol=1e-6
        )


def test_a_decoder_steps_as_it_is_called():
    decoder = LuongDecoder(13, 4, 6, attention=HardAttention(N, seed=1))
    ids, memory = np.random.RandomState(2).randint(2, 13, (B, T)), tf.constant(VALUE, "float32")
    decoder(ids, memory)
    mask = tf.constant(np.arange(S) < np.array([[7], [3], [5]]))
    assert check_decoder(decoder, ids, memory, mask) <= 1e-5


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`inference_mode` to be one of 'argmax'.*'soft'"):
        HardAttention(N, inference_mode="soft")
    with pytest.raises(ValueError, match="`expected_rate` to be a number in .0, 1.*1.5"):
        HardAttention(N, expected_rate=1.5)
