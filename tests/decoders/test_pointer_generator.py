"""The pointer-generator: its mixture, steps, searches, gradients and errors."""

import keras
import numpy as np
import pytest
from keras import ops
from seeds import set_seed

from keras_attention import (
    BahdanauDecoder,
    ConvDecoder,
    CoverageLoss,
    LuongDecoder,
    PointerGeneratorDecoder,
    TokenCrossentropy,
    TransformerDecoder,
    beam_search,
    coverage_penalty,
    greedy_search,
    score_sequences,
)
from keras_attention.decoders import check_decoder
from keras_attention.decoders.pointer_generator import mix_distributions

B, T, S, M, V, K = 3, 5, 7, 11, 13, 3
IDS = np.array([[2, 5, 14, 7, 12], [2, 6, 1, 0, 0], [2, 13, 3, 15, 0]])
MASK = np.arange(S) < np.array([[7], [3], [0]])
COPY_IDS = np.where(MASK, [[13, 4, 13, 14, 9, 15, 3], [13, 6, 3, 0, 0, 0, 0], [0] * 7], 0)
MEMORY = np.random.RandomState(1).randn(B, S, M).astype("float32")
DECODERS = {
    "bahdanau": lambda **o: BahdanauDecoder(V + 1, 4, 8, **o),
    "luong": lambda **o: LuongDecoder(V + 1, 4, 8, num_layers=2, **o),
    "transformer": lambda **o: TransformerDecoder(V + 1, 8, 1, 2, **o),
    "convolutional": lambda **o: ConvDecoder(V + 1, 4, [(6, 3)], source_embeddings=False, **o),
}
SEARCH = {"max_length": 6, "return_alignments": True}


def make_layer(kind="bahdanau", **options):
    set_seed(1)
    layer = PointerGeneratorDecoder(DECODERS[kind](**options), K, **options)
    layer(IDS, MEMORY, COPY_IDS, memory_mask=MASK)
    for weight in layer.trainable_weights:  # large logits, so that choices are clear
        weight.assign(3.0 * weight)
    return layer


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
    layer = make_layer(kind)
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
    layer = make_layer(kind)
    check_decoder(WithCopyIds(layer), IDS, ops.array(MEMORY), ops.array(MASK))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_searches_copy(kind):
    layer = make_layer(kind)
    memory = layer.prepare(ops.array(MEMORY), ops.array(MASK), ops.array(COPY_IDS))
    state = layer.start(memory, max_length=6)
    found = beam_search(
        layer.step,
        state,
        memory,
        beam_width=4,
        **SEARCH,
    )
    ids = np.array(found["ids"])
    scored = [
        score_sequences(layer.step, state, memory, ops.array(ids[:, beam])) for beam in range(4)
    ]
    for beam, one in enumerate(scored):
        np.testing.assert_allclose(
            np.array(one["log_probs"]), np.array(found["log_probs"])[:, beam], rtol=1e-4, atol=1e-4
        )
    greedy = np.array(greedy_search(layer.step, state, memory, **SEARCH)["ids"])
    assert (ids >= V).any() or (greedy >= V).any()
    assert (greedy[2] < V).all(), "nothing to copy"
    inputs = np.concatenate([np.full((B, 1), 2), greedy[:, :-1]], axis=1)
    full = np.array(layer(inputs, MEMORY, COPY_IDS, memory_mask=MASK))
    full[..., [0, 2]] = -np.inf  # a search produces neither padding nor BOS
    full = full.argmax(-1)
    length = int(np.argmax(greedy[0] == 3)) + 1 if (greedy[0] == 3).any() else 6
    np.testing.assert_array_equal(full[0, :length], greedy[0, :length])


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_it_learns_from_copied_words_in_every_dtype(policy):
    layer = make_layer(dtype=policy)
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
        PointerGeneratorDecoder(DECODERS["luong"](), 0)
    layer = make_layer()
    with pytest.raises(ValueError, match="`copy_ids` between 0 and 15"):
        layer(IDS, MEMORY, COPY_IDS + 3)
    with pytest.raises(ValueError, match="`target_ids` between 0 and 15"):
        layer(IDS + 1, MEMORY, COPY_IDS)
    with pytest.raises(ValueError, match="copy_ids"):
        layer(IDS, MEMORY, COPY_IDS[:, :5])
    with pytest.raises(ValueError, match="expects `copy_ids`"):
        layer.prepare(ops.array(MEMORY))
