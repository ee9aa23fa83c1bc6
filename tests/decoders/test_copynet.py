"""CopyNet: its shared softmax against loops, and its errors."""

import keras
import numpy as np
import pytest
from copying_toys import COPY_IDS, DECODERS, IDS, MASK, MEMORY, B, K, S, T, U, V, make_copying_layer
from keras import ops

from keras_attention import (
    CopyNetDecoder,
)
from keras_attention.decoders.copynet import share_softmax


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
    layer = make_copying_layer("copynet", kind)
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


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"`Decoder` with 32 ids more.*vocabulary_size \+ 32"):
        CopyNetDecoder(keras.layers.Dense(3))
    with pytest.raises(ValueError, match="with 20 ids more than the vocabulary.*with 17 ids"):
        CopyNetDecoder(DECODERS["luong"](V + U), K, 20)
    with pytest.raises(ValueError, match="copy_units"):
        CopyNetDecoder(DECODERS["luong"](V + U), K, 0)
    layer = make_copying_layer("copynet")
    with pytest.raises(ValueError, match="CopyNetDecoder expects `copy_ids` between 0 and 15"):
        layer(IDS, MEMORY, COPY_IDS + 3)
    with pytest.raises(ValueError, match="expects `copy_ids`"):
        layer.prepare(ops.array(MEMORY))
