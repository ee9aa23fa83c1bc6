"""Attention to several sources: the formulas of the paper in loops, masks, steps and limits."""

import itertools

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    AttentionRNN,
    BahdanauAttention,
    BahdanauDecoder,
    ConcatenateSources,
    LuongDecoder,
    MultiSourceAttention,
    check_decoder,
)

B, Q, DQ, UNITS, DC = 5, 3, 7, 11, 13
LENGTHS, WIDTHS = (5, 2, 3), (2, 5, 3)
TOTAL = sum(LENGTHS)
RANDOM = np.random.RandomState(1)
QUERY = RANDOM.randn(B, Q, DQ)
SOURCES = [RANDOM.randn(B, length, width) for length, width in zip(LENGTHS, WIDTHS, strict=True)]
SPLITS = np.cumsum(LENGTHS)[:-1]
MASK = RANDOM.rand(B, TOTAL) < 0.7
MASK[1, : LENGTHS[0]] = False  # no first source
MASK[2, LENGTHS[0] :] = False  # the first source alone
MASK[3] = False
FORMS = pytest.mark.parametrize(
    ("combination", "sentinel"),
    [*itertools.product(["flat", "hierarchical"], [False, True])],
)


def _layer(combination="flat", sentinel=False, dtype="float64", **options):
    set_seed(1)
    options = {"context_dim": DC, **options}
    return MultiSourceAttention(UNITS, len(SOURCES), combination, sentinel, dtype=dtype, **options)


def _memory(dtype="float64", mask=None):
    sources = SOURCES
    if mask is not None:  # padding may hold anything
        parts = np.split(mask, SPLITS, axis=1)
        sources = [
            np.where(valid[:, :, None], source, np.nan)
            for source, valid in zip(SOURCES, parts, strict=True)
        ]
    return ConcatenateSources(dtype=dtype)([tf.cast(source, dtype) for source in sources])


def _softmax(scores, valid):
    exps = np.where(valid, np.exp(scores), 0)
    return exps / max(exps.sum(), 1e-300)


def _blocks(kernel):
    """Returns the part of a kernel for each source, and nothing else."""
    assert len(kernel) == sum(WIDTHS)
    return np.split(kernel, np.cumsum(WIDTHS)[:-1])


def _score(scorer, state, keys, kernel=None):
    """Returns `v . tanh(W s + U h)` for keys that are projected by `kernel`."""
    query_kernel, vector = np.array(scorer.query_kernel), np.array(scorer.vector)[:, 0]
    return np.tanh(state @ query_kernel + keys @ kernel) @ vector


def _reference(layer, state, sources, masks):
    """Returns the context, the weights of each source, and that of the sentinel, of one state."""
    contexts = _blocks(np.array(layer.context_kernel))
    keys = _blocks(np.array(layer.scorer.key_kernel))
    sentinel_scores, gated = [], 0
    if layer.sentinel:
        gated = state / (1 + np.exp(-state @ np.array(layer.sentinel_gate)))
        key_kernel = np.array(layer.sentinel_key_kernel)
        sentinel_scores = [_score(layer.scorer, state, gated, key_kernel)]
    some = [any(valid.any() for valid in masks)] * len(sentinel_scores)
    if layer.combination == "flat":
        scores = [_score(layer.scorer, state, h, u) for h, u in zip(sources, keys, strict=True)]
        every = _softmax(np.concatenate([*scores, sentinel_scores]), np.concatenate([*masks, some]))
        *weights, rest = np.split(every, [*SPLITS, TOTAL])
    else:
        alphas, summaries = [], []
        for k, scorer in enumerate(layer.source_scorers):
            kernel = _blocks(np.array(scorer.key_kernel))[k]
            alphas.append(_softmax(_score(scorer, state, sources[k], kernel), masks[k]))
            summaries.append(_score(layer.scorer, state, alphas[k] @ sources[k], keys[k]))
        valid = [one.any() for one in masks]
        betas = _softmax(np.array([*summaries, *sentinel_scores]), [*valid, *some])
        weights = [beta * alpha for beta, alpha in zip(betas, alphas, strict=False)]
        rest = betas[len(SOURCES) :]
    context = sum(w @ h @ u for w, h, u in zip(weights, sources, contexts, strict=True))
    if layer.sentinel:
        context = context + rest[0] * gated @ np.array(layer.sentinel_context_kernel)
    return context, np.concatenate(weights), rest


@FORMS
def test_it_is_the_formula_of_the_paper(combination, sentinel):
    layer, memory = _layer(combination, sentinel), _memory(mask=MASK)
    options = {"return_attention_scores": True, "return_auxiliary_outputs": True}
    context, weights, others = layer(QUERY, memory, value_mask=MASK, **options)
    for b, i in np.ndindex(B, Q):
        masks = np.split(MASK[b], SPLITS)
        expected = _reference(layer, QUERY[b, i], [source[b] for source in SOURCES], masks)
        np.testing.assert_allclose(context[b, i], expected[0], atol=1e-12)
        np.testing.assert_allclose(weights[b, i], expected[1], atol=1e-12)
        if sentinel:
            np.testing.assert_allclose(others["sentinel"][b, i], expected[2][0], atol=1e-6)
    assert set(others) == ({"sentinel"} if sentinel else set())
    assert np.all(np.array(weights)[~np.repeat(MASK[:, None], Q, axis=1)] == 0)
    assert np.all(np.array(context)[3] == 0)


@FORMS
def test_weights_and_sentinel_sum_to_one(combination, sentinel):
    layer = _layer(combination, sentinel)
    options = {"return_attention_scores": True, "return_auxiliary_outputs": True}
    _, weights, others = layer(QUERY, _memory(), **options)
    total = np.sum(weights, axis=-1) + np.array(others.get("sentinel", 0))
    np.testing.assert_allclose(total, 1, atol=1e-6)


def test_flat_weights_are_those_of_additive_attention_to_one_memory():
    layer, memory = _layer(), _memory()
    weights = layer(QUERY, memory, return_attention_scores=True)[1]
    other = BahdanauAttention(UNITS, use_bias=False, dtype="float64")
    vectors = memory[:, :, : sum(WIDTHS)]
    other.build(QUERY.shape, vectors.shape)
    other.scorer.set_weights(layer.scorer.get_weights())
    expected = other(QUERY, vectors, return_attention_scores=True)[1]
    np.testing.assert_allclose(weights, expected, atol=1e-12)


@pytest.mark.parametrize("combination", ["flat", "hierarchical"])
def test_a_fully_masked_source_is_as_none(combination):
    """Weights, contexts and gradients are those of the other sources, whatever it holds."""
    layer, memory = _layer(combination), _memory()
    mask = np.ones((B, TOTAL), bool)
    mask[:, : LENGTHS[0]] = False
    changed = np.array(memory)
    changed[:, : LENGTHS[0]] = np.nan

    def run(memory):
        with tf.GradientTape() as tape:
            context, weights = layer(QUERY, memory, value_mask=mask, return_attention_scores=True)
            total = tf.reduce_sum(context**2)
        return context, weights, *tape.gradient(total, layer.trainable_variables)

    for one, other in zip(run(memory), run(tf.constant(changed)), strict=True):
        assert np.all(np.isfinite(one))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@FORMS
def test_half_precision(combination, sentinel, dtype):
    layer, wide = _layer(combination, sentinel, dtype), _layer(combination, sentinel)
    results = []
    for one, name in ((wide, "float64"), (layer, dtype)):
        one.build(QUERY.shape, _memory().shape)
        one.set_weights(wide.get_weights())
        query = tf.cast(QUERY, name)
        found = one(query, _memory(name), value_mask=MASK, return_attention_scores=True)
        assert {tensor.dtype.name for tensor in found} == {name}
        results.append([np.array(tf.cast(tensor, "float64")) for tensor in found])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=0.01 if dtype == "float16" else 0.1)


@pytest.mark.parametrize("combination", ["flat", "hierarchical"])
@pytest.mark.thorough
def test_it_trains_compiled_with_unknown_sizes(combination):
    layer = _layer(combination, True, "float32")
    layer.build((None, None, DQ), _memory().shape)

    def gradients(query, memory, mask):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(query, memory, value_mask=mask) ** 2)
        return tape.gradient(total, layer.trainable_variables)

    specs = [tf.TensorSpec([None, None, one]) for one in (DQ, _memory().shape[-1])]
    specs.append(tf.TensorSpec([None, None], "bool"))
    compiled = tf.function(gradients, input_signature=specs, jit_compile=True)
    data = tf.cast(QUERY, "float32"), _memory("float32"), tf.constant(MASK)
    for one, other in zip(compiled(*data), gradients(*data), strict=True):
        assert np.any(other != 0)
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "combination", "sentinel"),
    [
        (LuongDecoder, "flat", False),
        (BahdanauDecoder, "flat", True),
        (LuongDecoder, "hierarchical", True),
        (BahdanauDecoder, "hierarchical", False),
    ],
)
def test_steps_of_a_decoder_with_beams_equal_its_call(make, combination, sentinel):
    decoder = make(13, 3, DQ, attention=_layer(combination, sentinel, "float32"))
    ids = np.random.RandomState(1).randint(3, 13, size=(B, 4))
    assert check_decoder(decoder, ids, _memory("float32"), MASK) < 1e-5
    assert decoder.auxiliary_outputs == (("sentinel",) if sentinel else ())


def test_a_recurrence_returns_the_sentinel_and_the_context_of_its_width():
    set_seed(1)
    layer = AttentionRNN(keras.layers.GRUCell(DQ), _layer("hierarchical", True, "float32"))
    found = layer(
        RANDOM.randn(B, 4, 2),
        _memory("float32"),
        return_context=True,
        return_attention_scores=True,
        return_auxiliary_outputs=True,
    )
    shapes = [tuple(tensor.shape) for tensor in (*found[1:3], found[3]["sentinel"])]
    assert shapes == [(B, 4, DC), (B, 4, TOTAL), (B, 4)]
    total = np.sum(found[2], axis=-1) + np.array(found[3]["sentinel"])
    np.testing.assert_allclose(total, 1, atol=1e-6)


@pytest.mark.parametrize("combination", ["flat", "hierarchical"])
def test_a_model_of_two_encoders_is_saved_with_its_masks(combination, tmp_path):
    set_seed(1)
    ids = [keras.Input([None], dtype="int32") for _ in range(3)]
    embedded = [
        keras.layers.Embedding(13, width, mask_zero=True)(one)
        for width, one in zip((2, 5), ids, strict=False)
    ]
    attention = MultiSourceAttention(3, 2, combination, sentinel=True)
    decoder = LuongDecoder(13, 3, 7, attention=attention)
    outputs = decoder(ids[2], ConcatenateSources()(embedded), return_attention_scores=True)
    model = keras.Model(ids, outputs)
    data = [np.array(rows) for rows in ([[5, 4, 0]], [[0, 0]], [[2, 7]])]
    logits, weights = model(data)
    np.testing.assert_array_equal(np.array(weights)[0, :, 2:], 0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(loaded(data), (logits, weights), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "`units` to be a positive int"),
        ({"num_sources": 1}, "`num_sources` to be an int of at least 2"),
        ({"combination": "tree"}, "`combination`.*'flat', 'hierarchical'.*combination='tree'"),
        ({"context_dim": 0}, "`context_dim` to be a positive int"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiSourceAttention(**{"units": 2, "num_sources": 2, **arguments})


def test_tensors_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="`ConcatenateSources` makes of 3 sources.*wider than 3"):
        _layer()(QUERY, np.ones((B, 5, 3)))
    with pytest.raises(ValueError, match="The keys are laid out as the values"):
        _layer()(QUERY, np.ones((B, 5, 7)), np.ones((B, 5, 8)))
