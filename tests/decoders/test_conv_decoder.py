"""The decoder of ConvS2S: the paper's arithmetic by hand, steps, search, masks, gradients."""

import keras
import numpy as np
import pytest
from conv_reference import gate_in_numpy, linear_in_numpy
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import ConvDecoder
from keras_attention.decoders import check_decoder
from keras_attention.search import beam_search, greedy_search, score_sequences

B, T, S, V, F = 3, 5, 7, 13, 4
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
LENGTHS = (7, 3, 5)
MASK = np.arange(S) < np.array(LENGTHS)[:, None]
MEMORY = np.random.RandomState(1).randn(B, S, 2 * F).astype("float32")
LAYERS = [(6, 3), (6, 2), (11, 3)]

KINDS = {
    "code": {},
    "paper": {"scaling": "paper"},
    "one attends": {"attention_layers": [1], "alignment_layer": 1},
    "last": {"alignment_layer": "last", "weight_normalization": False},
    "projected": {"source_embeddings": False, "scaling": "paper"},
    "dropout": {"dropout": 0.3, "seed": 1},
    "kernel 1": {"convolutions": [(6, 1), (4, 1)]},
}


def make_decoder(kind="code", **options):
    set_seed(1)
    decoder = ConvDecoder(V, F, **{"convolutions": LAYERS, **KINDS[kind], **options})
    decoder.build(IDS.shape, MEMORY.shape)
    random = np.random.RandomState(2)  # weights that matter, no bias at zero
    decoder.set_weights([0.5 * random.randn(*w.shape) for w in decoder.weights])
    return decoder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_steps_equal_the_full_call_with_padding_and_reordered_beams(kind, policy):
    decoder = make_decoder(kind, dtype=policy)
    check_decoder(decoder, IDS, tf.constant(MEMORY), memory_mask=tf.constant(MASK))


@pytest.mark.parametrize("kind", KINDS)
def test_the_alignment_of_the_steps_is_that_of_the_full_call(kind):
    decoder = make_decoder(kind)
    _, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    state = decoder.start(memory, max_length=T)
    for time in range(T):
        _, state, one = decoder.step(tf.constant(IDS[:, time]), state, memory)
        np.testing.assert_allclose(one, alignment[:, time], atol=1e-6)
    assert np.all(np.array(alignment)[np.broadcast_to(~MASK[:, None], alignment.shape)] == 0)
    np.testing.assert_allclose(np.sum(alignment, axis=-1), 1, atol=1e-6)


def decoder_in_numpy(decoder, ids, memory, scaling, attending):
    """One row, layer after layer, position after position: logits and the weights of each layer."""
    half = np.sqrt(0.5) if scaling == "code" else 1.0

    def linear(layer, x):
        kernel, bias = linear_in_numpy(layer)
        return x @ kernel + bias

    z, e = np.split(memory, 2, axis=-1)
    m = len(z)
    words, places = (np.array(w) for w in (decoder.embedding.embeddings, decoder.positions.table))
    g = words[ids] + places[: len(ids)]
    h, weights = linear(decoder.input_projection, g), {}

    def attend(layer, y, index):
        attention, outputs, rows = layer.attention, [], []
        for i in range(len(y)):
            d = (linear(attention.query_map, y[i]) + g[i]) * half
            a = np.exp([d @ z[j] for j in range(m)])
            a /= a.sum()
            c = m * np.sqrt(1 / m) * sum(a[j] * (z[j] + e[j]) * half for j in range(m))
            outputs.append((y[i] + linear(attention.output_map, c)) * half)
            rows.append(a)
        weights[index] = np.array(rows)
        return np.array(outputs)

    for index, layer in enumerate(decoder.layers):
        block = layer.block
        y = gate_in_numpy(h, *linear_in_numpy(block.convolution), block.kernel_size, True)
        residual = h if block.projection is None else linear(block.projection, h)
        if scaling == "code":
            y = attend(layer, y, index) if index in attending else y
            h = (y + residual) * np.sqrt(0.5)
        else:
            h = (y + residual) * np.sqrt(0.5)
            h = attend(layer, h, index) if index in attending else h
    return linear(decoder.logits, linear(decoder.output_projection, h)), weights


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("attending", [[0, 1, 2], [2], [0, 1]])
@pytest.mark.parametrize("scaling", ["code", "paper"])
def test_it_computes_what_the_paper_says(scaling, attending, normalized):
    decoder = make_decoder(
        scaling=scaling,
        attention_layers=attending,
        weight_normalization=normalized,
        dtype="float64",
    )
    logits, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    for row, m in enumerate(LENGTHS):
        memory = MEMORY[row, :m].astype("float64")
        expected, weights = decoder_in_numpy(decoder, IDS[row], memory, scaling, attending)
        atol = 1e-6 * np.abs(expected).max()  # logits are float32
        np.testing.assert_allclose(logits[row], expected, atol=atol)
        mean = np.mean([weights[index] for index in attending], axis=0)
        np.testing.assert_allclose(alignment[row, :, :m], mean, atol=1e-7)


def test_the_alignment_of_one_layer_can_be_chosen():
    def alignment(choice):
        decoder = make_decoder(alignment_layer=choice)
        return np.array(decoder(IDS, MEMORY, return_attention_scores=True)[1])

    layers = [alignment(index) for index in range(3)]
    np.testing.assert_allclose(alignment("mean"), np.mean(layers, axis=0), atol=1e-6)
    np.testing.assert_array_equal(alignment("last"), layers[2])
    assert not np.allclose(layers[0], layers[2], atol=1e-2)


def test_a_memory_without_embeddings_is_projected_and_e_is_zero():
    plain = make_decoder("projected")
    kernel, bias = linear_in_numpy(plain.memory_projection)
    beside = make_decoder("paper")
    weights = {w.path: w for w in plain.weights if "memory_projection" not in w.path}
    beside.set_weights([np.array(w) for w in weights.values()])
    memory = np.concatenate([MEMORY @ kernel + bias, np.zeros((B, S, F))], axis=-1)
    np.testing.assert_allclose(
        plain(IDS, MEMORY, memory_mask=MASK),
        beside(IDS, memory.astype("float32"), memory_mask=MASK),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("kind", ["code", "paper"])
def test_a_token_changes_nothing_before_it_and_something_from_it_on(kind):
    decoder, changed = make_decoder(kind), IDS.copy()
    changed[:, 2] = 8
    moved = np.any(np.array(decoder(changed, MEMORY)) != np.array(decoder(IDS, MEMORY)), axis=-1)
    assert not moved[:, :2].any() and moved[:, 2:].all()


def test_the_gradient_of_the_outputs_is_scaled_and_that_of_the_embeddings_is_not():
    """1 / (2 layers) in the code, 1 / layers in the text; `layers` are those that attend."""

    def gradients(decoder):
        memory = tf.constant(MEMORY)
        with tf.GradientTape() as tape:
            tape.watch(memory)
            loss = tf.reduce_sum(decoder(IDS, memory, memory_mask=MASK) ** 2)
        return np.split(np.array(tape.gradient(loss, memory)), 2, axis=-1)

    for kind, layers, share in [("code", 3, 0.5), ("paper", 3, 1.0), ("one attends", 1, 0.5)]:
        decoder = make_decoder(kind)
        assert decoder.gradient_scaling.factor == share / layers
        z, e = gradients(decoder)
        decoder.gradient_scaling.factor = 1.0
        whole_z, whole_e = gradients(decoder)
        np.testing.assert_allclose(z, share / layers * whole_z, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(e, whole_e, rtol=1e-5, atol=1e-6)


def make_sharp_decoder():
    """A decoder whose choices depend on the source."""
    decoder = make_decoder()
    for weight in decoder.weights:
        if weight.name == "bias":
            weight.assign(np.zeros(weight.shape))
        if weight.name == "gain":
            weight.assign(np.full(weight.shape, 2.0))
    return decoder


def test_a_search_finds_in_a_batch_what_it_finds_alone_and_scores_it_alike():
    decoder = make_sharp_decoder()

    def search(rows):
        memory = decoder.prepare(tf.constant(MEMORY[rows]), tf.constant(MASK[rows]))
        state = decoder.start(memory, max_length=6)
        return beam_search(decoder.step, state, memory, beam_width=3, max_length=6)

    together = search([0, 1, 2])
    assert len({tuple(ids) for ids in np.array(together["ids"])[:, 0]}) > 1, "rows differ"
    for row in range(B):
        alone = search([row])
        np.testing.assert_array_equal(alone["ids"][0], together["ids"][row])
        np.testing.assert_allclose(alone["log_probs"][0], together["log_probs"][row], atol=1e-4)
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    scored = score_sequences(decoder.step, decoder.start(memory), memory, together["ids"][:, 1])
    np.testing.assert_allclose(together["log_probs"][:, 1], scored["log_probs"], atol=1e-4)


@pytest.mark.thorough
def test_a_search_compiles_for_unknown_batch_and_length():
    decoder = make_decoder()

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, 2 * F]), tf.TensorSpec([None, None], tf.bool)],
        autograph=False,
    )
    def search(encoder_outputs, mask):
        memory = decoder.prepare(encoder_outputs, mask)
        state = decoder.start(memory, max_length=6)
        return greedy_search(decoder.step, state, memory, max_length=6)["ids"]

    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    expected = greedy_search(decoder.step, decoder.start(memory), memory, max_length=6)["ids"]
    np.testing.assert_array_equal(search(MEMORY, MASK), expected)
    np.testing.assert_array_equal(search(MEMORY[:2, :5], MASK[:2, :5])[1], expected[1])


def test_dropout_acts_in_training_alone_and_follows_its_seed():
    first, again = (np.array(make_decoder("dropout")(IDS, MEMORY, training=True)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    decoder = make_decoder("dropout")
    assert not np.allclose(first, decoder(IDS, MEMORY), atol=1e-2)
    np.testing.assert_array_equal(decoder(IDS, MEMORY), decoder(IDS, MEMORY, training=False))


def test_an_initial_state_is_taken_and_not_used():
    decoder, state = make_decoder(), np.ones((B, 3), "float32")
    np.testing.assert_array_equal(decoder(IDS, MEMORY, initial_state=state), decoder(IDS, MEMORY))
    check_decoder(decoder, IDS, tf.constant(MEMORY), initial_state=tf.constant(state))


def test_the_embedding_of_the_padding_begins_at_zero():
    set_seed(1)
    decoder = ConvDecoder(997, 89, LAYERS)
    decoder.build((None, None), (None, None, 2 * 89))
    table = np.array(decoder.embedding.embeddings)
    assert np.all(table[0] == 0)
    np.testing.assert_allclose(table[1:].std(), 0.1, rtol=0.02)
    np.testing.assert_allclose(np.array(decoder.positions.table).std(), 0.1, rtol=0.02)


def test_steps_beyond_the_learned_positions_are_refused():
    decoder = make_decoder(max_length=T)
    memory = decoder.prepare(tf.constant(MEMORY))
    with pytest.raises(ValueError, match="learned 5 positions.*larger `max_length`.*max_length=6"):
        decoder.start(memory, max_length=6)
    with pytest.raises(ValueError, match="learned 5 positions"):
        decoder(np.concatenate([IDS, IDS], axis=1), MEMORY)


BAD = [
    (lambda d: d(IDS + 9, MEMORY), "`target_ids` between 0 and 12.*Received: target_ids with 14"),
    (lambda d: d(IDS[0], MEMORY), r"`target_ids` of shape \(batch, target\).*\(5,\)"),
    (lambda d: d(IDS, MEMORY[0]), "`encoder_outputs` of shape"),
    (lambda d: d(IDS, MEMORY[:2]), "`target_ids` and `encoder_outputs`.*same size on axis 0"),
    (lambda d: d(IDS, MEMORY, memory_mask=MASK[:, :4]), r"`memory_mask` of shape \(batch, source"),
    (lambda d: d(IDS, MEMORY[:, :, 1:]), "built for `encoder_outputs` of width 8"),
    (lambda d: d.prepare(MEMORY[:, :, 1:]), "built for `encoder_outputs` of width 8"),
    (lambda d: d.prepare(MEMORY[0]), "`encoder_outputs` of rank 3"),
    (lambda d: d.prepare(keras.Input((S, 2 * F))), "prepare, .start and .step work on values"),
    (lambda d: step(d, IDS), r"`ids` of rank 1, \(rows,\).*ids.shape=\(3, 5\)"),
    (lambda d: step(d, IDS[:, 0] + V), "`ids` between 0 and 12.*with 15"),
]


def step(decoder, ids):
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    return decoder.step(ids, decoder.start(memory), memory)


@pytest.mark.parametrize(("run", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run(make_decoder())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary_size": 3}, "`vocabulary_size` to be an int of at least 4"),
        ({"embedding_dim": 0}, "`embedding_dim` to be a positive int"),
        ({"convolutions": []}, r"list of \(units, kernel_size\).*convolutions=\[\]"),
        ({"convolutions": [6, 3]}, r"list of \(units, kernel_size\).*\[6, 3\]"),
        ({"convolutions": [(6, 0)]}, "`kernel_size` to be a positive int.*kernel_size=0"),
        ({"scaling": "text"}, "`scaling` to be one of 'code', 'paper'"),
        ({"attention_layers": []}, "at least one layer between 0 and 2.*attention_layers=.."),
        ({"attention_layers": [3]}, "between 0 and 2.*attention_layers=.3."),
        ({"attention_layers": [1], "alignment_layer": 0}, "a layer that attends.*layer=0"),
        ({"max_length": 0}, "`max_length` to be a positive int"),
        ({"dropout": 1.0}, r"\[0, 1\).*dropout=1.0"),
    ],
)
def test_a_bad_argument_says_what_was_expected(options, message):
    arguments = {"vocabulary_size": V, "embedding_dim": F, "convolutions": LAYERS}
    with pytest.raises(ValueError, match=message):
        ConvDecoder(**{**arguments, **options})


def test_an_unbuilt_decoder_refuses_to_prepare():
    with pytest.raises(ValueError, match="ConvDecoder has no weights yet"):
        ConvDecoder(V, F, LAYERS).prepare(MEMORY)


def test_an_unbuilt_decoder_says_what_its_memory_holds():
    with pytest.raises(ValueError, match="2 . embedding_dim.*`source_embeddings=False`"):
        ConvDecoder(V, F, LAYERS)(IDS, MEMORY[:, :, 1:])
