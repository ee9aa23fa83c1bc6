"""CopyNet: its shared softmax against loops, steps, searches, learning and errors."""

import keras
import numpy as np
import pytest
from keras import ops
from seeds import set_seed

from keras_attention import (
    BahdanauDecoder,
    CopyNetDecoder,
    LuongDecoder,
    TokenCrossentropy,
    TransformerDecoder,
    beam_search,
    greedy_search,
    score_sequences,
)
from keras_attention.decoders import check_decoder
from keras_attention.decoders.copynet import share_softmax

B, T, S, M, V, K, U = 3, 5, 7, 11, 13, 3, 4
IDS = np.array([[2, 5, 14, 7, 12], [2, 6, 1, 0, 0], [2, 13, 3, 15, 0]])
MASK = np.arange(S) < np.array([[7], [3], [0]])
COPY_IDS = np.where(MASK, [[13, 4, 13, 14, 9, 15, 3], [13, 6, 3, 0, 0, 0, 0], [0] * 7], 0)
MEMORY = np.random.RandomState(1).randn(B, S, M).astype("float32")
DECODERS = {
    "bahdanau": lambda **o: BahdanauDecoder(V + U, 4, 8, **o),
    "luong": lambda **o: LuongDecoder(V + U, 4, 8, num_layers=2, **o),
    "transformer": lambda **o: TransformerDecoder(V + U, 8, 1, 2, **o),
}


def make_layer(kind="bahdanau", **options):
    set_seed(1)
    layer = CopyNetDecoder(DECODERS[kind](**options), K, U, **options)
    layer(IDS, MEMORY, COPY_IDS, memory_mask=MASK)
    for weight in layer.trainable_weights:  # large logits, so that choices are clear
        weight.assign(3.0 * weight)
    return layer


def share_by_loops(logits, copy_scores, mask, copy_ids):
    """Equations 4 to 6, a word and a position at a time, in float64."""
    shared = np.zeros((*logits.shape[:2], V + K))
    generated = np.zeros(logits.shape[:2])
    for row, time in np.ndindex(*logits.shape[:2]):
        for word in range(V):
            shared[row, time, word] += np.exp(float(logits[row, time, word]))
        generated[row, time] = shared[row, time].sum()
        for place in range(copy_ids.shape[1]):
            if mask[row, place]:
                word = copy_ids[row, place]
                shared[row, time, word] += np.exp(float(copy_scores[row, time, place]))
        total = shared[row, time].sum()
        shared[row, time] /= total
        generated[row, time] /= total
    return shared, generated


def test_the_shared_softmax_is_equations_4_to_6():
    random = np.random.RandomState(3)
    logits, copy_scores = 4 * random.randn(B, T, V), 4 * random.randn(B, T, S)
    copy_ids = random.randint(0, V + K, (B, S))
    log_probs, p_gen = share_softmax(
        *(ops.array(x, "float32") for x in (logits, copy_scores)),
        ops.array(MASK),
        ops.array(copy_ids),
        K,
    )
    expected, generated = share_by_loops(logits, copy_scores, MASK, copy_ids)
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=1e-6)
    np.testing.assert_allclose(np.array(p_gen), generated, atol=1e-6)
    assert np.isfinite(np.array(log_probs)).all()
    assert (np.array(p_gen)[2] == 1).all(), "nothing to copy"


def test_worked_numbers():
    """Scores log 1, log 2, log 3 of words, and log 4, log 2 of positions: Z = 12."""
    log_probs, p_gen = share_softmax(
        ops.log(ops.array([[[1.0, 2.0, 3.0]]])),
        ops.log(ops.array([[[4.0, 2.0, 50.0]]])),
        ops.array([[True, True, False]]),
        ops.array([[1, 3, 2]]),
        1,
    )
    found = 12 * np.exp(np.array(log_probs))[0, 0]
    np.testing.assert_allclose(found, [1, 2 + 4, 3, 2], rtol=1e-5)
    assert float(p_gen[0, 0]) == pytest.approx(6 / 12)


@pytest.mark.parametrize("kind", DECODERS)
def test_the_full_call_scores_words_and_positions(kind):
    layer = make_layer(kind)
    memory = np.where(MASK[..., None], MEMORY, np.nan)
    log_probs, weights, more = layer(
        IDS,
        memory,
        COPY_IDS,
        memory_mask=MASK,
        return_attention_scores=True,
        return_auxiliary_outputs=True,
    )
    logits, expected_weights = layer.decoder(
        np.where(IDS >= V, 1, IDS), MEMORY, memory_mask=MASK, return_attention_scores=True
    )
    logits = np.array(logits)
    keys = np.tanh(MEMORY @ np.array(layer.copy_key.kernel))
    copy_scores = np.einsum("btu,bsu->bts", logits[..., V:], keys)
    expected, generated = share_by_loops(logits[..., :V], copy_scores, MASK, COPY_IDS)
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=1e-5)
    np.testing.assert_allclose(np.array(more["p_gen"]), generated, atol=1e-5)
    np.testing.assert_allclose(np.array(weights), np.array(expected_weights), atol=1e-6)
    np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1, atol=1e-5)


class WithCopyIds:
    """The layer with its `copy_ids`, and none at the columns that `check_decoder` appends."""

    compute_dtype = "float32"

    def __init__(self, layer):
        self.start, self.step, self._layer = layer.start, layer.step, layer

    def prepare(self, encoder_outputs, memory_mask=None):
        more = encoder_outputs.shape[1] - S
        copy_ids = ops.pad(ops.array(COPY_IDS), [(0, 0), (0, more)], constant_values=V)
        return self._layer.prepare(encoder_outputs, memory_mask, copy_ids)

    def __call__(self, target_ids, encoder_outputs, memory_mask=None):
        return self._layer(target_ids, encoder_outputs, COPY_IDS, memory_mask=memory_mask)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", DECODERS)
def test_steps_equal_the_full_call(kind):
    check_decoder(WithCopyIds(make_layer(kind)), IDS, ops.array(MEMORY), ops.array(MASK))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_searches_copy(kind):
    layer = make_layer(kind)
    memory = layer.prepare(ops.array(MEMORY), ops.array(MASK), ops.array(COPY_IDS))
    state = layer.start(memory, max_length=6)
    found = beam_search(layer.step, state, memory, beam_width=4, max_length=6)
    ids = np.array(found["ids"])
    for beam in range(4):
        one = score_sequences(layer.step, state, memory, ops.array(ids[:, beam]))
        np.testing.assert_allclose(
            np.array(one["log_probs"]), np.array(found["log_probs"])[:, beam], rtol=1e-4, atol=1e-4
        )
    greedy = np.array(greedy_search(layer.step, state, memory, max_length=6)["ids"])
    assert (ids >= V).any() or (greedy >= V).any()
    assert (greedy[2] < V).all() and (ids[2] < V).all(), "nothing to copy"


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_it_learns_to_copy_in_every_dtype(policy):
    layer = make_layer(dtype=policy)
    ids, states = keras.Input([None], dtype="int32"), keras.Input([None, M])
    copy_ids, mask = keras.Input([None], dtype="int32"), keras.Input([None], dtype="bool")
    logits = layer(ids, states, copy_ids, memory_mask=mask)
    model = keras.Model([ids, states, copy_ids, mask], logits)
    model.compile(keras.optimizers.Adam(0.05), TokenCrossentropy(), jit_compile=True)
    labels = np.array([[13, 14, 9, 15, 3], [6, 13, 3, 0, 0], [3, 0, 0, 0, 0]])
    memory = np.where(MASK[..., None], MEMORY, np.nan)
    given = [IDS, memory, COPY_IDS, MASK]
    losses = model.fit(given, labels, epochs=12, batch_size=B, verbose=0).history["loss"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0] / 2
    assert all(np.isfinite(np.array(weight)).all() for weight in model.weights)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"`Decoder` with 32 ids more.*vocabulary_size \+ 32"):
        CopyNetDecoder(keras.layers.Dense(3))
    with pytest.raises(ValueError, match="with 20 ids more than the vocabulary.*with 17 ids"):
        CopyNetDecoder(DECODERS["luong"](), K, 20)
    with pytest.raises(ValueError, match="copy_units"):
        CopyNetDecoder(DECODERS["luong"](), K, 0)
    layer = make_layer()
    with pytest.raises(ValueError, match="CopyNetDecoder expects `copy_ids` between 0 and 15"):
        layer(IDS, MEMORY, COPY_IDS + 3)
    with pytest.raises(ValueError, match="expects `copy_ids`"):
        layer.prepare(ops.array(MEMORY))
