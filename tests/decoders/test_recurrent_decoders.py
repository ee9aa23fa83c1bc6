"""The recurrent decoders: steps, the paper's equations, search, masks, bad input."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    Attention,
    BahdanauAttention,
    BahdanauDecoder,
    BahdanauGRUCell,
    ContextAddCell,
    LuongAttention,
    LuongDecoder,
    Seq2SeqDecoder,
)
from keras_attention.decoders import check_decoder
from keras_attention.search import beam_search, score_sequences

B, T, S, V, E, N, M, L = 3, 5, 7, 13, 4, 8, 6, 3
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
MASK = np.arange(S) < np.array([[7], [3], [5]])


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


MEMORY = _random(B, S, M)
DECODERS = {
    "bahdanau-current": lambda **o: BahdanauDecoder(V, E, N, L, **o),
    "bahdanau-previous": lambda **o: BahdanauDecoder(V, E, N, L, readout_state="previous", **o),
    "bahdanau-dropout": lambda **o: BahdanauDecoder(
        V, E, N, attention=BahdanauAttention(5, dropout=0.4, seed=3, **o), dropout=0.3, seed=1, **o
    ),
    "bahdanau-previous-dropout": lambda **o: BahdanauDecoder(
        V,
        E,
        N,
        attention=BahdanauAttention(5, dropout=0.4, seed=3, **o),
        readout_state="previous",
        dropout=0.3,
        seed=1,
        **o,
    ),
    "bahdanau-uniform": lambda **o: BahdanauDecoder(
        V, E, N, attention=Attention("uniform", **o), **o
    ),
    "luong-stack": lambda **o: LuongDecoder(V, E, N, num_layers=2, **o),
    "luong-no-feeding": lambda **o: LuongDecoder(V, E, N, input_feeding=False, **o),
    "luong-gru": lambda **o: LuongDecoder(
        V,
        E,
        N,
        cells=[keras.layers.GRUCell(5, **o), keras.layers.GRUCell(9, **o)],
        attention=LuongAttention("concat", units=11, dropout=0.4, seed=3, **o),
        dropout=0.3,
        seed=1,
        start_id=2,
        **o,
    ),
}
PLAIN = ("bahdanau-current", "bahdanau-previous", "luong-stack", "luong-no-feeding")


def _make_decoder(name, **options):
    set_seed(1)
    decoder = DECODERS[name](**options)
    decoder.build(IDS.shape, MEMORY.shape)
    return decoder


@pytest.fixture(params=DECODERS)
def decoder(request):
    return _make_decoder(request.param)


def _initial_state(decoder):
    sizes = decoder.recurrence.adapter.state_size
    state = keras.tree.map_structure(lambda size: tf.constant(_random(B, size)), sizes)
    return state[0] if isinstance(decoder, BahdanauDecoder) else state


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_steps_equal_the_full_call_with_padding_and_reordered_beams(name, policy):
    decoder = _make_decoder(name, dtype=policy)
    check_decoder(
        decoder,
        IDS,
        tf.constant(MEMORY),
        memory_mask=tf.constant(MASK),
        initial_state=_initial_state(decoder),
    )


def test_the_alignment_of_the_steps_is_that_of_the_full_call(decoder):
    _, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    state = decoder.start(memory)
    for time in range(T):
        _, state, step_alignment = decoder.step(tf.constant(IDS[:, time]), state, memory)
        np.testing.assert_allclose(step_alignment, alignment[:, time], atol=1e-6)
    assert np.all(np.array(alignment)[np.broadcast_to(~MASK[:, None], alignment.shape)] == 0)
    np.testing.assert_allclose(np.sum(alignment, axis=-1), 1, atol=1e-6)


def test_a_step_of_unknown_rows_runs_no_loop():
    # As in an export: additive scores of few queries would take many times as long by blocks.
    decoder = BahdanauDecoder(V, E, N, L)
    decoder(IDS, MEMORY)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None, M])],
        autograph=False,
    )
    def step(ids, outputs):
        memory = decoder.prepare(outputs)
        return decoder.step(ids, decoder.start(memory), memory)[0]

    graph = step.get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    assert [node.op for body in bodies for node in body if "While" in node.op] == []


@pytest.mark.parametrize("policy", ["float16", "mixed_float16", "mixed_bfloat16", "float64"])
@pytest.mark.parametrize("name", PLAIN)
def test_logits_and_alignment_are_float32_under_every_policy(name, policy):
    decoder = _make_decoder(name, dtype=policy)
    full = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    logits, _, alignment = decoder.step(tf.constant(IDS[:, 0]), decoder.start(memory), memory)
    for tensor in (*full, logits, alignment):
        assert keras.backend.standardize_dtype(tensor.dtype) == "float32"
        assert np.isfinite(tensor).all()


def _bahdanau_in_numpy(decoder, ids, memory, mask, state):
    """SPEC: c_i from s_{i-1}; the gated unit; the readout; loops over rows, steps, positions."""

    def array(variable):
        return np.array(variable).astype("float64")

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    cell = getattr(decoder.recurrence.cell, "cell", decoder.recurrence.cell)
    scorer = decoder.attention.scorer
    kernel, recurrent, bias = map(array, (cell.kernel, cell.recurrent_kernel, cell.bias))
    wa, ua, va = map(array, (scorer.query_kernel, scorer.key_kernel, scorer.vector))
    table = array(decoder.embedding.embeddings)
    pairs, pairs_bias = array(decoder.pairs.kernel), array(decoder.pairs.bias)
    wo, wo_bias = array(decoder.logits.kernel), array(decoder.logits.bias)

    def update(s, embedded, context):
        x = np.concatenate([embedded, context]) @ kernel + bias
        z = sigmoid(x[:N] + s @ recurrent[:, :N])
        r = sigmoid(x[N : 2 * N] + s @ recurrent[:, N : 2 * N])
        candidate = np.tanh(x[2 * N :] + (r * s) @ recurrent[:, 2 * N :])
        return (1 - z) * s + z * candidate

    def attend(s, annotations, kept):
        positions = [j for j in range(len(annotations)) if kept[j]]
        e = [
            va[:, 0] @ np.tanh(wa.T @ s + ua.T @ annotations[j] + array(scorer.bias))
            for j in positions
        ]
        a = np.zeros(len(annotations))
        a[positions] = np.exp(e) / np.sum(np.exp(e))
        return sum(a[j] * annotations[j] for j in positions), a

    def readout(s, embedded, context):
        t = np.concatenate([s, embedded, context]) @ pairs + pairs_bias
        return np.array([max(t[2 * i], t[2 * i + 1]) for i in range(L)]) @ wo + wo_bias

    all_logits, alignments = np.zeros((B, T, V)), np.zeros((B, T, S))
    for row in range(B):
        s = state[row].astype("float64")
        embedded = np.zeros(E)  # y_0
        context, a = attend(s, memory[row], mask[row])
        for time in range(T):
            if time > 0:
                embedded = table[ids[row, time]]
                if decoder.readout_state == "previous":
                    s = update(s, embedded, context)  # with the context that chose y_i
                context, a = attend(s, memory[row], mask[row])
            if decoder.readout_state == "current":
                s = update(s, embedded, context)
            all_logits[row, time] = readout(s, embedded, context)
            alignments[row, time] = a
    return all_logits, alignments


@pytest.mark.parametrize("readout_state", ["current", "previous"])
def test_it_computes_what_the_paper_says(readout_state):
    decoder = _make_decoder(f"bahdanau-{readout_state}")
    for index, weight in enumerate(decoder.weights):  # no bias at zero, all weights of size 1
        weight.assign(0.5 * np.random.RandomState(index).randn(*weight.shape))
    state = _random(B, N)
    logits, alignment = decoder(
        IDS, MEMORY, initial_state=state, memory_mask=MASK, return_attention_scores=True
    )
    expected, expected_alignment = _bahdanau_in_numpy(decoder, IDS, MEMORY, MASK, state)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(alignment, expected_alignment, atol=1e-6)


def test_the_two_readouts_differ():
    first, second = (_make_decoder(f"bahdanau-{form}") for form in ("current", "previous"))
    second.set_weights([weight.numpy() for weight in first.weights])
    np.testing.assert_array_equal(first.prepare(MEMORY)["key"], second.prepare(MEMORY)["key"])
    assert not np.allclose(first(IDS, MEMORY), second(IDS, MEMORY), atol=1e-3)


@pytest.mark.parametrize("readout_state", ["current", "previous"])
def test_a_context_that_is_added_reaches_the_logits(readout_state):
    cell = ContextAddCell(BahdanauGRUCell(N), M)
    decoder = BahdanauDecoder(V, E, N, recurrent_cell=cell, readout_state=readout_state)
    decoder.build(IDS.shape, MEMORY.shape)
    with tf.GradientTape() as tape:
        cost = tf.reduce_sum(decoder(IDS, MEMORY, memory_mask=MASK) ** 2)
    gradient = tape.gradient(cost, cell.kernel.value)
    assert gradient is not None and float(tf.reduce_max(tf.abs(gradient))) > 1e-6
    check_decoder(decoder, IDS, MEMORY, MASK)


@pytest.mark.parametrize("name", PLAIN)
def test_a_mask_of_one_row_holds_for_every_row(name):
    decoder, mask = _make_decoder(name), MASK[1:2]
    memories = [decoder.prepare(MEMORY, memory_mask=m) for m in (mask, np.repeat(mask, B, axis=0))]
    for one, other in zip(*map(keras.tree.flatten, memories), strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    logits = [decoder(IDS, MEMORY, memory_mask=m) for m in (mask, np.repeat(mask, B, axis=0))]
    np.testing.assert_array_equal(np.array(logits[0]), np.array(logits[1]))
    with pytest.raises(ValueError, match="`memory_mask`"):
        decoder.prepare(MEMORY, memory_mask=MASK[:2])


def test_the_start_row_embeds_to_zero_unless_asked_otherwise():
    zeroed = _make_decoder("bahdanau-current")
    embedded = np.array(zeroed.embed(tf.constant(IDS)))
    assert np.all(embedded[:, 0] == 0) and np.all(np.any(embedded[:, 1:] != 0, axis=-1))
    luong = _make_decoder("luong-stack")
    assert np.all(np.any(np.array(luong.embed(tf.constant(IDS))) != 0, axis=-1))


def test_uniform_attention_reads_the_mean_of_the_kept_annotations():
    _, alignment = _make_decoder("bahdanau-uniform")(
        IDS, MEMORY, memory_mask=MASK, return_attention_scores=True
    )
    expected = MASK / MASK.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(alignment, np.repeat(expected[:, None], T, axis=1), atol=1e-6)


@pytest.mark.parametrize("name", ["bahdanau-dropout", "bahdanau-previous-dropout", "luong-gru"])
def test_dropout_acts_in_training_alone_and_follows_its_seed(name):
    def draws():
        decoder = _make_decoder(name)
        return [np.array(decoder(IDS, MEMORY, training=True)) for _ in range(2)]

    (first, second), (again, _) = draws(), draws()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, second)
    decoder = _make_decoder(name)
    np.testing.assert_array_equal(decoder(IDS, MEMORY), decoder(IDS, MEMORY, training=False))
    _, alignment = decoder(IDS, MEMORY, training=True, return_attention_scores=True)
    np.testing.assert_allclose(np.sum(alignment, axis=-1), 1, atol=1e-6)


def _search(decoder, rows, beam_width=3, max_length=6):
    memory = decoder.prepare(tf.constant(MEMORY[rows]), tf.constant(MASK[rows]))
    return beam_search(
        decoder.step,
        decoder.start(memory),
        memory,
        beam_width=beam_width,
        max_length=max_length,
    )


def _make_sharp_decoder(name):
    """A decoder whose choices depend on the source and end at different lengths."""
    decoder = _make_decoder(name)
    decoder.logits.kernel.assign(4 * decoder.logits.kernel)
    return decoder


@pytest.mark.parametrize("name", PLAIN)
def test_scores_are_those_of_scoring_the_ids_and_rows_alone_find_the_same(name):
    decoder = _make_sharp_decoder(name)
    result = _search(decoder, [0, 1, 2])
    assert len({tuple(ids) for ids in np.array(result["ids"])[:, 0]}) > 1, "rows differ"
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    for beam in range(3):
        ids = result["ids"][:, beam]
        scored = score_sequences(decoder.step, decoder.start(memory), memory, ids)
        np.testing.assert_allclose(result["log_probs"][:, beam], scored["log_probs"], atol=1e-5)
        np.testing.assert_array_equal(result["lengths"][:, beam], scored["lengths"])
        np.testing.assert_allclose(result["alignments"][:, beam], scored["alignments"], atol=1e-5)
    for row in range(B):
        alone = _search(decoder, [row])
        np.testing.assert_array_equal(alone["ids"][0], result["ids"][row])
        np.testing.assert_allclose(alone["log_probs"][0], result["log_probs"][row], atol=1e-5)


def _mask_memory():
    memory = tf.constant(MEMORY)
    memory._keras_mask = tf.constant(MASK)
    return memory


@pytest.mark.parametrize("name", PLAIN)
def test_a_mask_attached_to_the_encoder_outputs_is_read(name):
    decoder = _make_decoder(name)
    implicit = decoder(IDS, _mask_memory())
    np.testing.assert_array_equal(implicit, decoder(IDS, MEMORY, memory_mask=MASK))
    assert not np.allclose(implicit, decoder(IDS, MEMORY))


@pytest.mark.parametrize("name", PLAIN)
def test_an_explicit_memory_mask_wins_over_an_attached_one(name):
    decoder = _make_decoder(name)
    other = np.arange(S) < np.array([[2], [7], [4]])
    both = decoder(IDS, _mask_memory(), memory_mask=other)
    np.testing.assert_array_equal(both, decoder(IDS, MEMORY, memory_mask=other))


BAD = [
    (lambda d: d(IDS + 9, MEMORY), "`target_ids` between 0 and 12.*Received: target_ids with 14"),
    (lambda d: d(-IDS, MEMORY), "`target_ids` between 0 and 12.*with -"),
    (lambda d: d(IDS[0], MEMORY), r"`target_ids` of shape \(batch, target\).*\(5,\)"),
    (lambda d: d(IDS, MEMORY[0]), "`encoder_outputs` of shape"),
    (lambda d: d(IDS, MEMORY[:2]), "`target_ids` and `encoder_outputs`.*same size on axis 0"),
    (lambda d: d(IDS, MEMORY, memory_mask=MASK[:, :4]), r"`memory_mask` of shape \(batch, source"),
    (lambda d: d(IDS, MEMORY, memory_mask=MASK.astype("float32")), "`memory_mask` to be boolean"),
    (
        lambda d: d(IDS, _random(B, S, M + 1)),
        r"built for `encoder_outputs` of width 6.*\(3, 7, 7\)",
    ),
    (lambda d: d(IDS, MEMORY, initial_state=_random(B, N + 1)), "Decoder expects `initial_state`"),
    (lambda d: d(IDS, MEMORY, initial_state=_random(B, T, N)), "Decoder expects `initial_state`"),
    (lambda d: d.prepare(MEMORY[0]), "`encoder_outputs` of rank 3"),
    (lambda d: d.prepare(keras.Input((S, M))), "prepare, .start and .step work on values"),
    (lambda d: d.prepare(MEMORY, MASK[:, :4]), "`memory_mask` of shape"),
    (lambda d: _step(d, IDS), r"`ids` of rank 1, \(rows,\).*ids.shape=\(3, 5\)"),
    (lambda d: _step(d, IDS[:, 0] + V), "`ids` between 0 and 12.*with 15"),
    (lambda d: _step(d, keras.Input((), dtype="int32")), "work on values, not on symbolic"),
]


def _step(decoder, ids):
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    return decoder.step(ids, decoder.start(memory), memory)


@pytest.mark.parametrize(("run", "message"), BAD, ids=[message for _, message in BAD])
@pytest.mark.parametrize("name", ["bahdanau-current", "bahdanau-previous", "luong-stack"])
def test_bad_input_says_what_was_expected(name, run, message):
    with pytest.raises(ValueError, match=message):
        run(_make_decoder(name))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BahdanauDecoder(3, E, N), "`vocabulary_size` to be an int of at least 4"),
        (lambda: BahdanauDecoder(V, 0, N), "`embedding_dim`.*Received: embedding_dim=0"),
        (lambda: BahdanauDecoder(V, E, 0), "`units` to be a positive int"),
        (lambda: BahdanauDecoder(V, E, N, 0), "`maxout_units` to be a positive int"),
        (lambda: BahdanauDecoder(V, E, N, readout_state="next"), "'current', 'previous'.*'next'"),
        (lambda: BahdanauDecoder(V, E, N, dropout=1.0), r"\[0, 1\).*dropout=1.0"),
        (lambda: BahdanauDecoder(V, E, N, start_id=-1), "`start_id`.*start_id=-1"),
        (lambda: BahdanauDecoder(V, E, N, attention="dot"), "`attention` to be an attention layer"),
        (
            lambda: BahdanauDecoder(V, E, N, recurrent_cell=keras.layers.GRUCell(N + 1)),
            f"`recurrent_cell`.*`units`={N}. Received: a state of {N + 1}",
        ),
        (lambda: LuongDecoder(V, E, 0), "`units` to be a positive int"),
        (lambda: LuongDecoder(V, E, N, num_layers=0), "`num_layers` to be a positive int"),
        (lambda: LuongDecoder(V, E, N, cells=[]), "non-empty list"),
        (
            lambda: LuongDecoder(V, E, N, cells=[keras.layers.GRUCell(N)] * 2),
            "different cells to stack",
        ),
    ],
)
def test_a_bad_argument_says_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("decoder", [LuongDecoder, Seq2SeqDecoder])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_bare_cell_and_a_stack_of_one_stay_what_they_are(decoder, stacked):
    cell = keras.layers.GRUCell(5)
    one = decoder(11, 3, 5, cells=[cell] if stacked else cell)
    other = decoder.from_config(one.get_config())
    sizes = [[5]] if stacked else [5]
    assert one.recurrence.adapter.state_size == other.recurrence.adapter.state_size == sizes


def test_an_unbuilt_decoder_refuses_to_prepare():
    with pytest.raises(ValueError, match="BahdanauDecoder has no weights yet"):
        BahdanauDecoder(V, E, N).prepare(MEMORY)
