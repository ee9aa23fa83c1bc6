"""The decoder with keys beside values: the equations, steps, what reaches what, bad input."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    Attention,
    BahdanauAttention,
    CoverageScorer,
    GMMAttention,
    HardAttention,
    KeyValueDecoder,
    LocalAttention,
    LuongAttention,
    SoftAttention,
)
from keras_attention.decoders import check_decoder
from keras_attention.search import beam_search, greedy_search

B, T, S, V, N, K, D = 3, 5, 7, 13, 4, 6, 2
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
MASK = np.arange(S) < np.array([[7], [3], [5]])
MEMORY = np.random.RandomState(0).randn(B, S, K + D)
STATE = [np.random.RandomState(seed).randn(B, N) for seed in (1, 2)]


def _make_decoder(**options):
    set_seed(1)
    decoder = KeyValueDecoder(V, N, D, **{"dtype": "float64", **options})
    decoder.build(IDS.shape, MEMORY.shape)
    for index, weight in enumerate(decoder.trainable_weights):  # no bias at zero, no small logits
        weight.assign(0.7 * np.random.RandomState(index).randn(*weight.shape))
    return decoder


def _softmax(x):
    x = np.exp(x - x.max())
    return x / x.sum()


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _scores(attention, query, keys):
    """Additive scores, a source position at a time."""
    scorer = attention.scorer
    w, u, v, b = (
        np.array(x) for x in (scorer.query_kernel, scorer.key_kernel, scorer.vector, scorer.bias)
    )
    return np.array([np.tanh(query @ w + key @ u + b) @ np.ravel(v) for key in keys])


def _in_numpy(decoder, memory, mask, state):
    """Logits and alignment, a batch element and a step at a time."""
    cell, recurrence = decoder.recurrence.cell, decoder.recurrence
    kernel, recurrent, bias = (np.array(x) for x in (cell.kernel, cell.recurrent_kernel, cell.bias))
    logits, alignment = np.zeros((B, T, V)), np.zeros((B, T, S))
    for row in range(B):
        length = mask[row].sum()
        keys, values = memory[row, :length, :K], memory[row, :length, K:]
        h, c = (part[row] for part in state)
        fed = np.zeros(N)
        for time in range(T):
            x = np.concatenate([[0.0], fed])
            i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)  # Keras' order
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
            read = _softmax(_scores(recurrence.attention, h, keys)) @ keys
            fed = np.tanh(np.concatenate([read, h]) @ np.array(recurrence.attentional.kernel))
            weights = _softmax(_scores(decoder.attention, fed, keys))
            alignment[row, time, :length] = weights
            logits[row, time] = (weights @ values) @ np.array(decoder.logits.kernel)
            logits[row, time] += np.array(decoder.logits.bias)
    return logits, alignment


def test_the_decoder_computes_what_the_paper_says():
    decoder = _make_decoder()
    found = decoder(
        IDS, MEMORY, initial_state=STATE, memory_mask=MASK, return_attention_scores=True
    )
    for one, expected in zip(found, _in_numpy(decoder, MEMORY, MASK, STATE), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)  # they are float32


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize(
    "make", [lambda **_: None, lambda **o: LuongAttention(**o), lambda **o: LocalAttention(3, **o)]
)
def test_steps_equal_the_full_call_with_padding_and_reordered_beams(policy, make):
    decoder = _make_decoder(dtype=policy, attention=make(dtype=policy))
    memory, mask = tf.constant(MEMORY, "float32"), tf.constant(MASK)
    check_decoder(decoder, IDS, memory, memory_mask=mask)
    check_decoder(decoder, IDS, memory, memory_mask=mask, initial_state=STATE)


def test_keys_decide_where_and_values_what():
    decoder = _make_decoder()
    other = np.random.RandomState(5).randn(*MEMORY.shape)
    logits, alignment = decoder(IDS, MEMORY, return_attention_scores=True)
    values_changed = np.concatenate([MEMORY[..., :K], other[..., K:]], axis=-1)
    found, same = decoder(IDS, values_changed, return_attention_scores=True)
    np.testing.assert_array_equal(same, alignment)
    assert np.abs(found - logits).max() > 0.1
    # Values that are all alike leave nothing for the weights to choose from.
    alike = MEMORY.copy()
    alike[..., K:] = MEMORY[:, :1, K:]
    keys_changed = np.concatenate([other[..., :K], alike[..., K:]], axis=-1)
    np.testing.assert_allclose(decoder(IDS, keys_changed), decoder(IDS, alike), atol=1e-6)
    moved = decoder(IDS, keys_changed, return_attention_scores=True)[1]
    assert np.abs(moved - alignment).max() > 0.1


def test_target_ids_change_nothing_and_a_search_runs():
    decoder = _make_decoder(dtype="float32")
    memory = tf.constant(MEMORY, "float32")
    np.testing.assert_array_equal(decoder(IDS, memory), decoder((IDS + 1) % V, memory))
    mask = tf.constant(MASK)
    logits = np.array(decoder(np.full((B, 9), 2), memory, memory_mask=mask))
    logits[:, :, [0, 2]] = -np.inf  # no search writes padding or BOS
    prepared = decoder.prepare(memory, memory_mask=mask)
    found = greedy_search(decoder.step, decoder.start(prepared), prepared, max_length=9)
    for ids, length, expected in zip(
        found["ids"], found["lengths"], logits.argmax(-1), strict=True
    ):
        length = int(length)
        np.testing.assert_array_equal(ids[:length], expected[:length])
        assert length == 9 or expected[length - 1] == 3
    beams = beam_search(decoder.step, decoder.start(prepared), prepared, beam_width=3, max_length=9)
    assert np.all(np.array(beams["scores"])[:, 0] >= np.array(beams["scores"])[:, 1])


def test_attention_of_all_steps_at_once_may_compute_its_scores_in_blocks(monkeypatch):
    decoder, calls = _make_decoder(), []
    decoder(IDS, MEMORY)
    score = decoder.attention.scorer.score
    monkeypatch.setattr(
        decoder.attention.scorer, "score", lambda *parts: calls.append(1) or score(*parts)
    )
    decoder(IDS, MEMORY)
    assert len(calls) == 1


def test_dropout_acts_in_training_only():
    decoder = _make_decoder(dropout=0.5, seed=3)
    np.testing.assert_array_equal(decoder(IDS, MEMORY), decoder(IDS, MEMORY, training=False))
    assert np.abs(decoder(IDS, MEMORY, training=True) - decoder(IDS, MEMORY)).max() > 1e-4


def test_the_dropout_and_the_auxiliary_outputs_of_the_attention_are_used():
    decoder = _make_decoder(attention=BahdanauAttention(N, dropout=0.5, seed=3, dtype="float64"))
    np.testing.assert_array_equal(decoder(IDS, MEMORY), decoder(IDS, MEMORY, training=False))
    assert np.abs(decoder(IDS, MEMORY, training=True) - decoder(IDS, MEMORY)).max() > 1e-4
    decoder = _make_decoder(attention=HardAttention(N, dtype="float64"))
    _, auxiliary_outputs = decoder(IDS, MEMORY, training=True, return_auxiliary_outputs=True)
    shapes = {name: tuple(value.shape) for name, value in auxiliary_outputs.items()}
    assert shapes == {"log_alpha": (B, T), "entropy": (B, T)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value_dim": 0}, "`value_dim`.*Received: value_dim=0"),
        ({"units": 2.5}, "`units`.*Received: units=2.5"),
        ({"attention": "dot"}, "`attention`.*Received: attention=.dot."),
        ({"attention": Attention(CoverageScorer(4))}, "earlier steps to `attention`"),
        ({"attention": GMMAttention(2)}, "earlier steps to `attention`"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        KeyValueDecoder(**{"vocabulary_size": V, "units": N, "value_dim": D, **options})


def test_the_attention_may_have_been_called_before():
    attention = SoftAttention(4)
    attention(np.ones((1, 2, N)), np.ones((1, S, D)), np.ones((1, S, K)))
    assert KeyValueDecoder(V, N, D, attention=attention)(IDS, MEMORY).shape == (B, T, V)


def test_a_memory_without_keys_is_refused():
    decoder = KeyValueDecoder(V, N, D)
    message = r"after them .* values of width 2. Received: encoder_outputs.shape=\(3, 7, 2\)"
    with pytest.raises(ValueError, match=message):
        decoder(IDS, MEMORY[..., :D])
    with pytest.raises(ValueError, match="`initial_state` of 2 tensor"):
        _make_decoder()(IDS, MEMORY, initial_state=STATE[:1])


def test_a_reloaded_decoder_is_the_same():
    decoder = _make_decoder(
        attention=LuongAttention("concat", units=3, dtype="float64"), dropout=0.25
    )
    copy = KeyValueDecoder.from_config(decoder.get_config())
    copy.build(IDS.shape, MEMORY.shape)
    copy.set_weights(decoder.get_weights())
    assert copy.get_config() == decoder.get_config()
    np.testing.assert_array_equal(copy(IDS, MEMORY), decoder(IDS, MEMORY))
    assert isinstance(
        keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(decoder)),
        KeyValueDecoder,
    )
