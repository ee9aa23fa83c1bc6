"""Decoders without attention: the papers' equations, steps, search, masks, dropout, bad input."""

import keras
import numpy as np
import pytest
from cho_reference import cho_step
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import BahdanauGRUCell, ChoDecoder, Seq2SeqDecoder
from keras_attention.decoders import check_decoder
from keras_attention.search import Constraints, SpecialIds, beam_search, score_sequences

B, T, S, V, E, N, M, C, L = 3, 5, 7, 13, 4, 8, 6, 2, 3
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
MASK = np.arange(S) < np.array([[7], [3], [5]])
MEMORY = np.random.RandomState(0).randn(B, S, M)

DECODERS = {
    "summary": lambda **o: ChoDecoder(V, E, N, C, L, **o),
    "summary-authors": lambda **o: ChoDecoder(
        V, E, N, reset_covers_context=False, output_rank=5, **o
    ),
    "seq2seq": lambda **o: Seq2SeqDecoder(V, E, N, num_layers=2, **o),
    "seq2seq-gru": lambda **o: Seq2SeqDecoder(V, E, N, cells=BahdanauGRUCell(N, **o), **o),
}


def _make_decoder(name, **options):
    set_seed(1)
    decoder = DECODERS[name](**{"dtype": "float64", **options})
    decoder.build(IDS.shape, MEMORY.shape)
    for index, weight in enumerate(decoder.trainable_weights):  # no bias at zero, no small logits
        weight.assign(0.7 * np.random.RandomState(index).randn(*weight.shape))
    return decoder


def _state(decoder, rows=B):
    sizes = decoder.recurrence.adapter.state_size
    return keras.tree.map_structure(lambda n: np.random.RandomState(n).randn(rows, n), sizes)


@pytest.fixture(params=DECODERS)
def decoder(request):
    return _make_decoder(request.param)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_steps_equal_the_full_call_with_padding_and_reordered_beams(name, policy):
    decoder = _make_decoder(name, dtype=policy)
    memory, mask = tf.constant(MEMORY, "float32"), tf.constant(MASK)
    check_decoder(decoder, IDS, memory, memory_mask=mask)
    check_decoder(decoder, IDS, memory, memory_mask=mask, initial_state=_state(decoder))


def _summary_in_numpy(decoder, ids, memory, mask):
    """SPEC 3, loops over rows and steps."""

    def array(variable):
        return np.array(variable)

    def affine(layer, x):
        y = x @ array(layer.kernel)
        return y if layer.bias is None else y + array(layer.bias)

    table, cell = array(decoder.embedding.embeddings), decoder.recurrence.cell
    logits = np.zeros((*ids.shape, V))
    for row in range(len(ids)):
        last = max(s for s in range(S) if mask[row, s])
        c = np.tanh(affine(decoder.recurrence.summary, memory[row, last]))
        h = np.tanh(affine(decoder.initial_state_dense, c))
        for time in range(ids.shape[1]):
            e = np.zeros(E) if time == 0 else table[ids[row, time]]  # y_0 is the zero vector
            h = cho_step(cell, e, c, h)
            pairs = affine(decoder.pairs, np.concatenate([h, e, c]))
            s = np.array([max(pairs[2 * i], pairs[2 * i + 1]) for i in range(len(pairs) // 2)])
            s = s if decoder.low_rank is None else affine(decoder.low_rank, s)
            logits[row, time] = affine(decoder.logits, s)
    return logits


@pytest.mark.parametrize("name", ["summary", "summary-authors"])
def test_the_summary_decoder_computes_what_the_paper_says(name):
    decoder = _make_decoder(name)
    logits = decoder(IDS, MEMORY, memory_mask=MASK)
    expected = _summary_in_numpy(decoder, IDS, MEMORY, MASK)
    np.testing.assert_allclose(logits, expected, rtol=1e-6, atol=1e-6)  # logits are float32


def test_the_stacked_decoder_computes_what_the_paper_says():
    decoder = _make_decoder("seq2seq")
    state = _state(decoder)
    table = np.array(decoder.embedding.embeddings)
    expected = np.zeros((B, T, V))
    for row in range(B):
        layers = [[h[row], c[row]] for h, c in state]
        for time in range(T):
            x = table[IDS[row, time]]
            for layer, cell in zip(layers, decoder.cells, strict=True):
                h, c = layer
                gates = x @ np.array(cell.kernel) + h @ np.array(cell.recurrent_kernel)
                i, f, g, o = np.split(gates + np.array(cell.bias), 4)  # Keras' order
                i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
                c = f * c + i * np.tanh(g)
                layer[:] = [o * np.tanh(c), c]
                x = layer[0]
            expected[row, time] = x @ np.array(decoder.logits.kernel) + decoder.logits.bias
    logits = decoder(IDS, MEMORY, initial_state=state)
    np.testing.assert_allclose(logits, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.thorough
def test_gradients_of_every_weight_are_right(decoder):
    state = None if isinstance(decoder, ChoDecoder) else _state(decoder)
    # Logits are float32: the outputs before them are what differences can tell of.
    memory = tf.constant(MEMORY)

    def call():
        prepared = decoder.prepare(memory, tf.constant(MASK))
        begun = decoder.start(prepared, state)
        embedded = decoder.embed(tf.constant(IDS))
        outputs, contexts, *_ = decoder.recurrence.run(embedded, begun, prepared)
        return decoder.readout(embedded, outputs, contexts)

    rows = [w for w in decoder.trainable_weights if "embeddings" not in w.path]
    assert_gradients_are_right(call, rows, samples=3)


@pytest.mark.parametrize("name", ["summary", "summary-authors"])
def test_the_summary_is_that_of_the_last_real_position(name):
    decoder = _make_decoder(name)
    logits = decoder(IDS, MEMORY, memory_mask=MASK)
    junk = np.where(MASK[:, :, None], MEMORY, np.nan)
    np.testing.assert_array_equal(decoder(IDS, junk, memory_mask=MASK), logits)
    cut = decoder(IDS[1:2], MEMORY[1:2, :3])
    np.testing.assert_allclose(cut, logits[1:2], rtol=1e-6)
    attached = tf.constant(MEMORY)
    attached._keras_mask = tf.constant(MASK)
    np.testing.assert_array_equal(decoder(IDS, attached), logits)
    assert not np.allclose(decoder(IDS, MEMORY)[1], logits[1])


def test_a_source_without_a_real_position_gives_finite_numbers(decoder):
    mask = MASK & (np.arange(B) != 1)[:, None]
    with tf.GradientTape() as tape:
        logits = decoder(IDS, np.full_like(MEMORY, np.nan), memory_mask=np.zeros_like(mask))
        cost = tf.reduce_sum(logits**2)
    assert np.isfinite(logits).all()
    values = [weight.value for weight in decoder.trainable_weights]
    for gradient in tape.gradient(cost, values):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_the_alignment_is_zero_and_knows_the_source(decoder):
    logits, alignment = decoder(IDS, MEMORY, return_attention_scores=True)
    assert alignment.shape == (B, T, S) and not np.any(alignment)
    np.testing.assert_array_equal(logits, decoder(IDS, MEMORY))
    symbols = decoder(
        keras.Input([None], dtype="int32"), keras.Input([None, M]), return_attention_scores=True
    )
    assert [tuple(one.shape) for one in symbols] == [(None, None, V), (None, None, None)]


def test_every_layer_begins_from_its_own_state():
    decoder = _make_decoder("seq2seq")
    state = _state(decoder)
    whole = decoder(IDS, MEMORY, initial_state=state)
    for layer in range(2):
        for part in range(2):
            other = [list(one) for one in state]
            other[layer][part] = 0 * other[layer][part]
            changed = decoder(IDS, MEMORY, initial_state=other)
            assert np.all(np.abs(changed - whole)[:, 0].max(axis=-1) > 1e-3)


def test_every_score_of_a_beam_is_that_of_scoring_its_ids(decoder):
    special_ids = SpecialIds(start_id=decoder.decoder_start_id)
    decoder.logits.bias.assign(np.where(np.arange(V) == 3, -3.0, 0.0))  # no row ends at once
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    state = decoder.start(memory, None if decoder.decoder_start_id == 2 else _state(decoder))
    found = beam_search(
        decoder.step,
        state,
        memory,
        beam_width=3,
        max_length=6,
        constraints=Constraints(special_ids=special_ids),
    )
    assert len({tuple(ids) for ids in np.array(found["ids"])[:, 0]}) > 1, "rows differ"
    for beam in range(3):
        ids = found["ids"][:, beam]
        scored = score_sequences(decoder.step, state, memory, ids, special_ids=special_ids)
        np.testing.assert_allclose(found["log_probs"][:, beam], scored["log_probs"], atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["summary", "seq2seq"])
def test_dropout_acts_in_training_alone_and_follows_its_seed(name):
    def draws():
        decoder = _make_decoder(name, dropout=0.4, seed=3)
        return [np.array(decoder(IDS, MEMORY, training=True)) for _ in range(2)]

    (first, second), (again, _) = draws(), draws()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, second)
    decoder = _make_decoder(name, dropout=0.4, seed=3)
    np.testing.assert_array_equal(decoder(IDS, MEMORY), _make_decoder(name)(IDS, MEMORY))


def test_a_stack_carries_its_state_in_its_own_precision():
    # It was float32 whatever the cells', so that a float64 stack had errors of 1e-3 in gradients.
    for policy, dtype in (("float64", "float64"), ("mixed_bfloat16", "bfloat16")):
        decoder = _make_decoder("seq2seq", dtype=policy)
        state = decoder.start(decoder.prepare(tf.constant(MEMORY)))
        leaves = keras.tree.flatten(state["cell"])
        assert {keras.backend.standardize_dtype(leaf.dtype) for leaf in leaves} == {dtype}


def test_layers_above_the_first_drop_from_what_they_read():
    rates = [cell.dropout for cell in _make_decoder("seq2seq", dropout=0.4).cells]
    assert rates == [0.0, 0.4]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: ChoDecoder(V, E, 0), "`units` to be a positive int.*units=0"),
        (lambda: ChoDecoder(V, E, N, 0), "`summary_units` to be a positive.*summary_units=0"),
        (lambda: ChoDecoder(V, E, N, output_rank=0), "`output_rank`.*output_rank=0"),
        (lambda: Seq2SeqDecoder(V, E, N, 0), "`num_layers` to be a positive.*num_layers=0"),
        (
            lambda: Seq2SeqDecoder(V, E, N, decoder_start_id=0),
            "`decoder_start_id`.*decoder_start_id=0",
        ),
        (lambda: Seq2SeqDecoder(V, E, N, cells="lstm"), "`cell` to be a Keras cell.*'lstm'"),
        (lambda: _make_decoder("seq2seq")(IDS, MEMORY, initial_state=MEMORY[:, 0]), "of 4 tensor"),
        (lambda: _make_decoder("summary").prepare(keras.Input((S, M))), "work on values"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
