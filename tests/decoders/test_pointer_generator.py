"""The pointer-generator: its mixture, coverage, gradients and errors."""

import keras
import numpy as np
import pytest
from copying_toys import COPY_IDS, DECODERS, IDS, MASK, MEMORY, B, K, M, S, T, V, make_copying_layer
from keras import ops

from keras_attention import (
    CoverageLoss,
    PointerGeneratorDecoder,
    TokenCrossentropy,
    coverage_penalty,
)
from keras_attention.decoders.pointer_generator import mix_distributions


def run(layer, **options):
    log_probs, weights, more = layer(
        IDS,
        MEMORY,
        COPY_IDS,
        memory_mask=MASK,
        return_attention_scores=True,
        return_auxiliary_outputs=True,
        **options,
    )
    return np.array(log_probs), np.array(weights), np.array(more["p_gen"])


def mix_by_loops(logits, weights, copy_ids):
    """Equation 9, word by word."""
    mixed = np.zeros((*logits.shape[:2], V + K))
    for row, time in np.ndindex(*logits.shape[:2]):
        scores, gate = logits[row, time, :V].astype("float64"), logits[row, time, V]
        p_gen = 1 / (1 + np.exp(-float(gate)))
        mixed[row, time, :V] = p_gen * np.exp(scores) / np.exp(scores).sum()
        for place, word in enumerate(copy_ids[row]):
            mixed[row, time, word] += (1 - p_gen) * weights[row, time, place]
    return mixed


def test_the_mixture_is_equation_9():
    random = np.random.RandomState(3)
    logits = (4 * random.randn(B, T, V + 1)).astype("float32")
    weights = random.dirichlet(np.ones(S), (B, T)).astype("float32")
    weights[1, 2] = 0
    copy_ids = random.randint(0, V + K, (B, S))
    log_probs, p_gen = mix_distributions(
        ops.convert_to_tensor(logits), ops.convert_to_tensor(weights), ops.array(copy_ids), K
    )
    expected = mix_by_loops(logits, weights, copy_ids)
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=1e-6)
    np.testing.assert_allclose(np.array(p_gen), 1 / (1 + np.exp(-logits[..., V])), rtol=1e-5)
    assert np.isfinite(np.array(log_probs)).all()


@pytest.mark.parametrize("kind", DECODERS)
def test_the_full_call_mixes_what_the_decoder_returns(kind):
    layer = make_copying_layer("pointer-generator", kind)
    log_probs, weights, p_gen = run(layer)
    logits, expected_weights = layer.decoder(
        np.where(IDS >= V, 1, IDS), MEMORY, memory_mask=MASK, return_attention_scores=True
    )
    expected = mix_by_loops(np.array(logits), np.array(expected_weights), COPY_IDS)
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=2e-6)
    np.testing.assert_array_equal(weights, np.array(expected_weights))
    assert p_gen.shape == IDS.shape and 0 <= p_gen.min() < p_gen.max() <= 1
    # Words that no position copies have no probability, and the rows sum to 1 where one is kept.
    assert (np.exp(log_probs[1, :, V + 1 :]) < 1e-15).all()
    np.testing.assert_allclose(np.exp(log_probs[:2]).sum(-1), 1, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_it_learns_from_copied_words_in_every_dtype(policy):
    layer = make_copying_layer("pointer-generator", dtype=policy)
    ids, states = keras.Input([None], dtype="int32"), keras.Input([None, M])
    copy_ids, mask = keras.Input([None], dtype="int32"), keras.Input([None], dtype="bool")
    logits, weights = layer(ids, states, copy_ids, memory_mask=mask, return_attention_scores=True)
    logits = CoverageLoss()(logits, weights, source_mask=mask)
    model = keras.Model([ids, states, copy_ids, mask], logits)
    model.compile(keras.optimizers.Adam(0.05), TokenCrossentropy(), jit_compile=True)
    labels = np.array([[13, 14, 9, 15, 3], [6, 13, 3, 0, 0], [3, 0, 0, 0, 0]])
    given = [IDS, MEMORY, COPY_IDS, MASK]
    losses = model.fit(given, labels, epochs=12, batch_size=B, verbose=0).history["loss"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0] / 2
    assert all(np.isfinite(np.array(weight)).all() for weight in model.weights)


def test_the_coverage_loss_is_equation_12():
    weights = np.random.RandomState(5).dirichlet(np.ones(S), (B, T)).astype("float32")
    steps, places = np.arange(T) < np.array([[5], [3], [0]]), MASK | (np.arange(S) < 1)
    total = 0.0
    for row in range(B):
        coverage = np.zeros(S)
        for time in np.flatnonzero(steps[row]):
            total += np.minimum(weights[row, time], coverage)[places[row]].sum()
            coverage += weights[row, time]
    found = coverage_penalty(np.where(steps[..., None], weights, np.nan), steps, places)
    assert float(found) == pytest.approx(total / 8, rel=1e-5)
    assert float(coverage_penalty(weights, np.zeros((B, T), bool))) == 0


def test_what_cannot_be_copied_is_refused():
    with pytest.raises(ValueError, match="expects `decoder` to be a `Decoder`"):
        PointerGeneratorDecoder(keras.layers.Dense(3))
    with pytest.raises(ValueError, match="num_copied_words"):
        PointerGeneratorDecoder(DECODERS["luong"](V + 1), 0)
    layer = make_copying_layer("pointer-generator")
    with pytest.raises(ValueError, match="`copy_ids` between 0 and 15"):
        layer(IDS, MEMORY, COPY_IDS + 3)
    with pytest.raises(ValueError, match="`target_ids` between 0 and 15"):
        layer(IDS + 1, MEMORY, COPY_IDS)
    with pytest.raises(ValueError, match="copy_ids"):
        layer(IDS, MEMORY, COPY_IDS[:, :5])
    with pytest.raises(ValueError, match="expects `copy_ids`"):
        layer.prepare(ops.array(MEMORY))
