"""The decoder: the paper's equations, causality, steps, beams, sharing, files, the copy task."""

import keras
import numpy as np
import pytest
import transformer_reference as reference
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import TransformerDecoder, TransformerDecoderLayer
from keras_attention._utils.flat_beams import gather_beams
from keras_attention.attention import _key_value_cache
from keras_attention.decoders import check_decoder
from keras_attention.search import (
    BeamOptions,
    beam_search,
    ensemble_step,
    greedy_search,
    score_sequences,
)

B, T, S, V, D, H, F, M = 3, 5, 7, 13, 10, 5, 11, 6
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
MASK = np.arange(S) < np.array([[7], [3], [5]])
MEMORY = np.random.RandomState(7).randn(B, S, M)
KINDS = pytest.mark.parametrize("normalization", ["post", "pre"])


def _make_decoder(seed=1, noise=0.3, **options):
    set_seed(seed)
    options = {"dropout": 0.0, "dtype": "float64", **options}
    decoder = TransformerDecoder(V, D, 2, H, F, **options)
    decoder.build((None, None), (None, None, M))
    for weight in decoder.trainable_weights:
        weight.assign(weight + noise * np.random.randn(*weight.shape))
    return decoder


def _memory(decoder, **options):
    memory = decoder.prepare(tf.constant(MEMORY), tf.constant(MASK))
    return memory, decoder.start(memory, **options)


@KINDS
@pytest.mark.parametrize("window", [None, 3])
def test_it_is_the_decoder_of_the_paper(normalization, window):
    decoder = _make_decoder(normalization=normalization, window=window)
    logits, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    rows = zip(IDS, MEMORY, MASK, strict=True)
    for index, (ids, memory, kept) in enumerate(rows):
        expected, weights = reference.decoder(decoder, ids, memory, kept)
        np.testing.assert_allclose(logits[index], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(alignment[index], weights, atol=1e-6)


POLICIES = ["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.thorough)]
STEPPED = {
    "sinusoidal": {},
    "learned": {"positions": "learned", "max_length": 9},
    "rotary": {"positions": "rotary", "normalization": "pre", "tie_output": False},
    "relative": {"positions": "relative", "max_distance": 2},
    "window": {"window": 3, "use_bias": True, "alignment_layer": 0},
    "mean": {"alignment_layer": "mean", "normalization": "pre"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("policy", [*POLICIES, "bfloat16"])
@pytest.mark.parametrize("name", STEPPED)
def test_steps_equal_the_full_call_with_padding_and_reordered_beams(name, policy):
    # With the weights of a beginning: larger ones turn roundings of bfloat16 into errors of 2 %.
    positions = {"noise": 0.0 if policy != "float32" else 0.1, **STEPPED[name]}
    if name == "rotary":  # pairs of entries
        set_seed(1)
        decoder = TransformerDecoder(V, 12, 2, 3, F, 0.0, **STEPPED[name], dtype=policy)
        decoder.build((None, None), (None, None, M))
    else:
        decoder = _make_decoder(dtype=policy, **positions)
    check_decoder(
        decoder, IDS, tf.constant(MEMORY, "float32"), memory_mask=tf.constant(MASK), num_padding=4
    )


@pytest.mark.thorough
@pytest.mark.parametrize("layer", ["last", "mean", 0, -2])
def test_the_alignment_is_that_of_the_layer_asked_for(layer):
    decoder = _make_decoder(alignment_layer=layer)
    _, alignment = decoder(IDS, MEMORY, memory_mask=MASK, return_attention_scores=True)
    layers = []
    for index in (0, 1):
        other = _make_decoder(alignment_layer=index)
        layers.append(np.array(other(IDS, MEMORY, None, MASK, return_attention_scores=True)[1]))
    expected = {"last": layers[1], "mean": (layers[0] + layers[1]) / 2}.get(layer, layers[0])
    np.testing.assert_allclose(alignment, expected, atol=1e-7)
    np.testing.assert_allclose(np.sum(alignment, -1), 1, atol=1e-6)
    memory, state = _memory(decoder, max_length=T)
    for time in range(T):
        _, state, stepped = decoder.step(tf.constant(IDS[:, time]), state, memory)
        np.testing.assert_allclose(stepped, alignment[:, time], atol=1e-6)


@KINDS
@pytest.mark.parametrize("time", range(T))
def test_a_token_changes_nothing_before_it(normalization, time):
    decoder = _make_decoder(normalization=normalization)
    ids = IDS.copy()
    ids[:, time] = (ids[:, time] + 1) % V
    moved = np.any(np.array(decoder(ids, MEMORY)) != np.array(decoder(IDS, MEMORY)), axis=(0, 2))
    assert np.array_equal(moved, np.arange(T) >= time)


@pytest.mark.thorough
@KINDS
def test_gradients_equal_finite_differences(normalization):
    decoder = _make_decoder(normalization=normalization, activation="gelu")
    layer = decoder.stack[0]  # logits of the decoder are float32, too coarse for differences
    inputs, memory = tf.Variable(np.random.RandomState(3).randn(B, T, D)), tf.Variable(MEMORY)
    call = lambda: layer(inputs, memory, memory_mask=tf.constant(MASK))  # noqa: E731
    assert_gradients_are_right(call, [inputs, memory, *layer.trainable_weights], samples=3)


def test_rows_without_a_source_are_finite_and_attend_to_nothing():
    decoder, mask = _make_decoder(dtype="float32"), MASK.copy()
    mask[1] = False
    with tf.GradientTape() as tape:
        junk = np.where(mask[..., None], MEMORY, np.nan)
        logits, alignment = decoder(IDS, junk, memory_mask=mask, return_attention_scores=True)
        loss = tf.reduce_sum(logits**2)
    assert np.isfinite(logits).all() and np.all(np.array(alignment)[1] == 0)
    for gradient in tape.gradient(loss, [w.value for w in decoder.trainable_weights]):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


@pytest.mark.thorough
def test_rows_may_stand_at_different_positions():
    # A server may let a new sentence in while others are half way.
    decoder = _make_decoder(positions="learned", max_length=9)
    full = np.array(decoder(IDS, MEMORY, memory_mask=MASK))
    memory, state = _memory(decoder)
    for time in range(3):
        _, state, _ = decoder.step(tf.constant(IDS[:, time]), state, memory)
    _, fresh = _memory(decoder)
    old = tf.constant([True, False, True])
    mix = lambda a, b: tf.where(tf.reshape(old, (-1, *[1] * (len(a.shape) - 1))), a, b)  # noqa: E731
    state = keras.tree.map_structure(mix, state, fresh)
    for time in range(2):
        ids = tf.constant([IDS[0, 3 + time], IDS[1, time], IDS[2, 3 + time]])
        logits, state, _ = decoder.step(ids, state, memory)
        expected = [full[0, 3 + time], full[1, time], full[2, 3 + time]]
        np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", STEPPED)
def test_caches_that_stay_in_place_are_read_as_if_they_had_been_gathered(name, monkeypatch):
    # Beams are dropped, doubled and swapped at random; the gathered state is the reference.
    monkeypatch.setattr(_key_value_cache, "SMALL_CACHE", 0)
    beams, generator = 3, np.random.default_rng(5)
    if name == "rotary":
        decoder = TransformerDecoder(V, 12, 2, 3, F, 0.0, **STEPPED[name])
        decoder.build((None, None), (None, None, M))
    else:
        decoder = _make_decoder(dtype="float32", noise=0.5, **STEPPED[name])
    memory, state = _memory(decoder, max_length=7)
    spread = lambda leaf: tf.repeat(leaf, beams, axis=0)  # noqa: E731
    state = keras.tree.map_structure(spread, state)
    gathered = in_place = state
    step = tf.function(decoder.step, autograph=False)
    for time in range(7):
        ids = tf.constant(generator.integers(4, V, B * beams, dtype="int32"))
        expected, gathered, _ = step(ids, gathered, memory)
        logits, in_place, _ = step(ids, in_place, memory)
        np.testing.assert_allclose(logits, expected, atol=2e-5, err_msg=f"step {time}")
        parents = tf.constant(generator.integers(0, beams, (B, beams), dtype="int32"))
        gathered = gather_beams(gathered, parents)
        in_place = decoder.reorder_cache(in_place, parents)
    caches = [tree["layers"][0]["projected_key"] for tree in (in_place, gathered)]
    assert not np.allclose(*caches)  # nothing was moved


@pytest.mark.thorough
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("small_cache", [0, 2**17])
def test_a_search_that_leaves_caches_in_place_finds_the_same(jit_compile, small_cache, monkeypatch):
    monkeypatch.setattr(_key_value_cache, "SMALL_CACHE", small_cache)
    decoder, memory = _make_decoder(dtype="float32", noise=0.6), tf.constant(MEMORY, "float32")

    def search(memory, mask, reorder_cache):
        prepared = decoder.prepare(memory, mask)
        state = decoder.start(prepared, max_length=6)
        options = {
            "beam_width": 4,
            "max_length": 6,
            "options": BeamOptions(reorder_cache=reorder_cache),
        }
        return beam_search(decoder.step, state, prepared, **options)

    expected = search(memory, tf.constant(MASK), None)
    compiled = tf.function(
        lambda memory, mask: search(memory, mask, decoder.reorder_cache),
        jit_compile=jit_compile,
        autograph=False,
    )
    found = compiled(memory, tf.constant(MASK))
    assert np.array_equal(found["ids"], expected["ids"])
    for name in ("log_probs", "scores", "alignments"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


@pytest.mark.thorough
def test_a_compiled_search_returns_what_rescoring_says():
    decoder, beam = _make_decoder(dtype="float32"), 3

    @tf.function(jit_compile=True, autograph=False)
    def search(memory, mask):
        prepared = decoder.prepare(memory, mask)
        state = decoder.start(prepared, max_length=6)
        return beam_search(decoder.step, state, prepared, beam_width=beam, max_length=6)

    found = search(tf.constant(MEMORY, "float32"), tf.constant(MASK))
    memory, state = _memory(decoder, max_length=6)
    for index in range(beam):
        scored = score_sequences(decoder.step, state, memory, found["ids"][:, index])
        np.testing.assert_allclose(scored["log_probs"], found["log_probs"][:, index], atol=1e-5)


def test_learned_positions_bound_the_length():
    decoder = _make_decoder(positions="learned", max_length=4)
    with pytest.raises(ValueError, match="learned 4 positions. .* Received: target=5"):
        decoder(IDS, MEMORY)
    memory = decoder.prepare(tf.constant(MEMORY))
    with pytest.raises(ValueError, match="Received: max_length=7"):
        decoder.start(memory, max_length=7)


def test_a_state_has_room_for_as_many_steps_as_asked_for():
    decoder = _make_decoder(max_length=23)
    memory = decoder.prepare(tf.constant(MEMORY))
    for length, expected in ((None, 23), (5, 5)):
        state = decoder.start(memory, max_length=length)
        shapes = [leaf.shape for leaf in keras.tree.flatten(state)]
        assert all(shape[0] == B for shape in shapes)
        assert {size for shape in shapes for size in shape[1:]} <= {H, D // H, expected}


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_step_without_room_is_refused(positions):
    decoder = _make_decoder(positions=positions)
    memory = decoder.prepare(tf.constant(MEMORY))
    state, ids = decoder.start(memory, max_length=2), tf.constant([2, 5, 4])
    for _ in range(2):
        _, state, _ = decoder.step(ids, state, memory)
    with pytest.raises(ValueError, match="a cache for 2 steps.*`max_length`.*at position 2"):
        decoder.step(ids, state, memory)


def test_a_search_longer_than_the_cache_is_refused():
    """A compiled step beyond it would leave the earlier tokens out, without an error."""
    decoder = _make_decoder(positions="rotary")
    memory = decoder.prepare(tf.constant(MEMORY))
    state, ids = decoder.start(memory, max_length=2), tf.constant([[4, 5, 6]] * B)
    pair = [memory, memory], [state, decoder.start(memory, max_length=5)]
    step = ensemble_step([decoder.step] * 2)
    searches = {
        "beam_search": lambda: beam_search(decoder.step, state, memory, max_length=3),
        "greedy_search": lambda: greedy_search(step, *pair[::-1], max_length=3),
        "score_sequences": lambda: score_sequences(decoder.step, state, memory, ids),
    }
    for name, search in searches.items():
        with pytest.raises(ValueError, match=f"{name} was .* at most 2 steps. Pass max_length=3"):
            search()


@pytest.mark.thorough
def test_a_state_may_be_started_for_a_length_that_a_graph_does_not_know():
    decoder = _make_decoder(window=3)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def logits(ids):
        memory = decoder.prepare(tf.constant(MEMORY), memory_mask=tf.constant(MASK))
        state, found = decoder.start(memory, max_length=tf.shape(ids)[1]), []
        for time in range(T):
            one, state, _ = decoder.step(ids[:, time], state, memory)
            found.append(one)
        return tf.stack(found, axis=1)

    expected = decoder(IDS, MEMORY, memory_mask=MASK)
    np.testing.assert_allclose(logits(tf.constant(IDS, tf.int32)), expected, atol=1e-5)


def test_the_embedding_must_have_the_sizes_of_the_decoder():
    with pytest.raises(ValueError, match=r"`keras.layers.Embedding\(13, 10\)`.* sizes \(13, 9\)"):
        TransformerDecoder(V, D, 1, H, embedding=keras.layers.Embedding(V, 9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary_size": 3}, "at least 4. Received: vocabulary_size=3"),
        ({"num_layers": 0}, "positive int. Received: num_layers=0"),
        (
            {"positions": "none"},
            "'sinusoidal', 'learned', 'rotary', 'relative'. Received: positions='none'",
        ),
        ({"alignment_layer": 2}, r"\[-2, 1\].* index of a layer. Received: alignment_layer=2"),
        ({"alignment_layer": 0.5}, "index of a layer. Received: alignment_layer=0.5"),
        ({"alignment_layer": "first"}, "'last', 'mean'. Received: alignment_layer='first'"),
        ({"max_distance": 0}, "positive int. Received: max_distance=0"),
        ({"max_length": 0}, "positive int. Received: max_length=0"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    arguments = {"vocabulary_size": V, "dim": D, "num_layers": 2, "num_heads": H, **options}
    with pytest.raises(ValueError, match=message):
        TransformerDecoder(**arguments)


def test_bad_tensors_are_refused():
    decoder = _make_decoder()
    with pytest.raises(ValueError, match=r"`target_ids` of shape \(batch, target\)"):
        decoder(IDS[0], MEMORY)
    with pytest.raises(ValueError, match="`target_ids` between 0 and 12.*Received: .* with 13"):
        decoder(IDS + 1, MEMORY)
    with pytest.raises(ValueError, match="built for `encoder_outputs` of width 6"):
        decoder.prepare(tf.zeros((B, S, M + 1)))
    with pytest.raises(ValueError, match="not on symbolic tensors"):
        decoder.prepare(keras.Input([S, M]))
    with pytest.raises(ValueError, match="no weights yet"):
        TransformerDecoder(V, D, 1, H).prepare(tf.constant(MEMORY))
    layer = TransformerDecoderLayer(2, 3)
    with pytest.raises(ValueError, match=r"`memory` of shape \(batch, length, dim\)"):
        layer(np.zeros((B, T, D)), np.zeros((B, D)))


@pytest.mark.slow
def test_it_learns_to_copy():
    # SPEC 10: tokens 4..13 (1..10 of the article), length 10, 2 layers, batch 80, 400 updates,
    # 400 of warm-up; greedy output copies the input exactly.
    from examples.models import transformer

    set_seed(1)
    size, length, dim = 14, 10, 128
    model = transformer.build(size, size, dim, 2, 4, dropout=0.1, seed=1)
    optimizer = keras.optimizers.Adam(1.0, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=True)
    def update(source, rate):
        start = tf.fill((80, 1), 2)
        target = tf.concat([start, source[:, :-1]], axis=1)
        with tf.GradientTape() as tape:
            logits = model({"source": source, "target": target}, training=True)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(source, logits)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.learning_rate.assign(rate)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    random = np.random.RandomState(1)
    for step in range(1, 401):
        rate = dim**-0.5 * min(step**-0.5, step * 400**-1.5)
        source = random.randint(4, size, (80, length)).astype("int32")
        update(tf.constant(source), tf.constant(rate, "float32"))
    source = tf.constant(random.randint(4, size, (50, length)), "int32")
    decoder = model.get_layer("decoder")
    memory = decoder.prepare(model.get_layer("encoder")(source)["memory"])
    state = decoder.start(memory, max_length=length)
    found = greedy_search(decoder.step, state, memory, max_length=length)
    np.testing.assert_array_equal(found["ids"], source)
