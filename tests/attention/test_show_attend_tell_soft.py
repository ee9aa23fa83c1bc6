"""Soft attention: the paper's equations, the gate, the doubly stochastic penalty."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import AttentionRNN, DoublyStochasticLoss, SoftAttention

B, T, S, DQ, DV, N = 3, 5, 7, 11, 13, 4
QUERY_MASK = np.arange(T) < np.array([[5], [2], [0]])
VALUE_MASK = np.arange(S) < np.array([[7], [3], [5]])


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


QUERY, VALUE = _random(B, T, DQ), _random(B, S, DV)


def _attention(**options):
    set_seed(1)
    attention = SoftAttention(N, dtype="float64", **options)
    attention.build(QUERY.shape, VALUE.shape)
    for weight in attention.weights:  # biases too
        weight.assign(_random(*weight.shape, 1)[..., 0])
    return attention


def _reference(attention, query, value, kept):
    """Returns context and weights of one example and one step, as the paper writes them."""
    scorer = attention.scorer
    wh, wa, b = (np.array(w) for w in (scorer.query_kernel, scorer.key_kernel, scorer.bias))
    w, wb, bb = (np.array(x) for x in (scorer.vector, attention.gate_kernel, attention.gate_bias))
    energies = np.array([np.tanh(wa.T @ a + wh.T @ query + b) @ w[:, 0] for a in value])
    alpha = np.exp(energies - energies.max()) * kept
    alpha = alpha / alpha.sum()
    beta = 1.0 / (1.0 + np.exp(-(query @ wb[:, 0] + bb[0])))
    return beta * sum(alpha[i] * value[i] for i in range(len(value))), alpha


def test_it_computes_what_the_paper_writes():
    attention = _attention()
    context, weights = attention(QUERY, VALUE, value_mask=VALUE_MASK, return_attention_scores=True)
    for row in range(B):
        for step in range(T):
            one, alpha = _reference(attention, QUERY[row, step], VALUE[row], VALUE_MASK[row])
            np.testing.assert_allclose(np.array(context)[row, step], one, atol=1e-12)
            np.testing.assert_allclose(np.array(weights)[row, step], alpha, atol=1e-12)


def test_a_constant_added_to_every_score_would_change_nothing():
    """Why there is no b_0: the softmax removes it."""
    attention = _attention()
    scores = attention.scorer(QUERY, VALUE)
    np.testing.assert_allclose(
        np.array(attention.normalizer(scores + 3.7)),
        np.array(attention.normalizer(scores)),
        atol=1e-12,
    )


def test_without_the_gate_the_context_is_the_mean():
    attention = _attention(use_gate=False)
    context, weights = attention(QUERY, VALUE, return_attention_scores=True)
    np.testing.assert_allclose(np.array(context), np.array(weights) @ VALUE, atol=1e-12)
    assert not hasattr(attention, "gate_kernel")


def _penalty(weights, target):
    """Sums over the real steps of each example that has any, location by location."""
    costs = []
    for row in range(B):
        if QUERY_MASK[row].any():
            locations = range(VALUE_MASK[row].sum())
            steps = range(QUERY_MASK[row].sum())
            sums = [sum(weights[row, t, i] for t in steps) for i in locations]
            costs.append(sum((target - total) ** 2 for total in sums))
    return np.mean(costs)


@pytest.mark.parametrize("target", [1.0, 0.4])
def test_the_penalty_counts_real_steps_and_real_locations(target):
    attention = _attention(doubly_stochastic=0.3, doubly_stochastic_target=target)
    masks = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK}
    _, weights = attention(QUERY, VALUE, **masks, return_attention_scores=True)
    (loss,) = attention.losses
    np.testing.assert_allclose(float(loss), 0.3 * _penalty(np.array(weights), target), rtol=1e-12)


def test_locations_that_no_query_may_read_are_not_missed():
    attention = _attention(doubly_stochastic=1.0)
    seen = np.zeros((B, T, S), "bool")
    seen[:, 0, :2] = seen[:, 1:, 1:3] = True
    _, weights = attention(QUERY, VALUE, attention_mask=seen, return_attention_scores=True)
    missed = (1.0 - np.array(weights).sum(axis=1)[:, :3]) ** 2
    np.testing.assert_allclose(float(attention.losses[0]), missed.sum(-1).mean(), rtol=1e-12)


def test_the_penalty_has_the_right_gradient():
    attention = _attention(doubly_stochastic=0.7)
    query, value, mask = tf.constant(QUERY), tf.constant(VALUE), tf.constant(VALUE_MASK)
    vector = attention.scorer.vector

    def loss():
        attention(query, value, value_mask=mask)
        return attention.losses[0]

    with tf.GradientTape() as tape:
        cost = loss()
    gradient, start = np.array(tape.gradient(cost, vector.value)), np.array(vector)
    for index in range(N):
        costs = []
        for sign in (1, -1):
            moved = start.copy()
            moved[index, 0] += sign * 1e-6
            vector.assign(moved)
            costs.append(float(loss()))
        np.testing.assert_allclose(gradient[index, 0], (costs[0] - costs[1]) / 2e-6, rtol=1e-6)
    assert np.abs(gradient).min() > 1e-4


def test_a_single_step_and_a_loop_add_no_penalty():
    attention = SoftAttention(N, doubly_stochastic=1.0)
    attention(QUERY[:, 0], VALUE)
    assert attention.losses == []
    for order in ("bahdanau", "luong"):
        layer = AttentionRNN(keras.layers.GRUCell(DQ), attention, order=order)
        layer(QUERY, VALUE)
        assert layer.losses == []


def test_in_a_loop_the_layer_adds_what_a_call_would():
    """The decoder's queries are its previous states; asked at once they give the same loss."""
    attention = SoftAttention(N, doubly_stochastic=1.0)
    layer = AttentionRNN(keras.layers.GRUCell(3), attention, order="luong", attentional_units=0)
    outputs, weights = layer(QUERY, VALUE, memory_mask=VALUE_MASK, return_attention_scores=True)
    loss = DoublyStochasticLoss()
    loss(outputs, weights, source_mask=VALUE_MASK)
    attention(outputs, VALUE, value_mask=VALUE_MASK)
    np.testing.assert_allclose(float(loss.losses[0]), float(attention.losses[0]), rtol=1e-5)


@pytest.mark.thorough
def test_the_penalty_trains_in_a_compiled_fit():
    inputs = keras.Input((None, DQ)), keras.Input((None, DV))
    attention = SoftAttention(N, use_gate=False, doubly_stochastic=1.0)
    model = keras.Model(inputs, attention(*inputs))
    model.compile(keras.optimizers.Adam(0.05), None, jit_compile=True)
    data = [QUERY.astype("float32"), VALUE.astype("float32")]
    history = model.fit(data, epochs=15, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    attention(*data, training=False)
    assert len(attention.losses) == 1, "like a weight decay it is there in evaluation too"


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="`doubly_stochastic` to be a number.*Received.*-1"):
        SoftAttention(N, doubly_stochastic=-1)
    with pytest.raises(ValueError, match="`units` to be a positive int.*units=0"):
        SoftAttention(0)
