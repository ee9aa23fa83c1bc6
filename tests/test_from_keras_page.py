"""The page "From keras.layers": its code runs, and what its tables say of Keras is so."""

import inspect
import pathlib

import keras
import numpy as np
import pytest
from seeds import set_seed
from test_readme import python_blocks

import keras_attention as ka

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "from_keras_layers.md"
BLOCKS = python_blocks(PAGE.read_text())
QUERY, VALUE = (np.random.RandomState(n).randn(2, n, 6).astype("float32") for n in (3, 5))


def test_the_page_has_code_for_heads_additive_scores_and_time():
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS, ids=["heads", "additive", "time"])
def test_the_code_of_the_page_runs(block):
    set_seed(1)
    names = {}
    exec(compile(block, str(PAGE), "exec"), names)  # our own page
    assert any(isinstance(made, keras.layers.Layer) for made in names.values())


def test_the_defaults_are_those_of_the_table():
    def default(layer, name):
        return inspect.signature(layer).parameters[name].default

    assert default(keras.layers.MultiHeadAttention, "use_bias") is True
    assert default(keras.layers.GroupQueryAttention, "use_bias") is True
    assert default(ka.MultiHeadAttention, "use_bias") is False
    assert default(ka.SelfAttention, "use_bias") is False
    assert default(ka.BahdanauAttention, "use_bias") is True
    assert default(keras.layers.Attention, "use_scale") is False
    assert default(keras.layers.AdditiveAttention, "use_scale") is True
    layers = (keras.layers.Attention, keras.layers.MultiHeadAttention)
    layers += (ka.Attention, ka.MultiHeadAttention, ka.BahdanauAttention, ka.SelfAttention)
    assert {default(layer, "dropout") for layer in layers} == {0.0}


def test_keras_ignores_an_explicit_query_mask_and_ours_does_not():
    mask = np.array([[True, False, True], [True, True, False]])
    theirs, ours = keras.layers.MultiHeadAttention(2, 3), ka.MultiHeadAttention(2, 3)
    np.testing.assert_array_equal(theirs(QUERY, VALUE, query_mask=mask), theirs(QUERY, VALUE))
    assert np.all(np.array(ours(QUERY, VALUE, query_mask=mask))[~mask] == 0)


def test_keras_gives_padding_weight_where_all_is_masked_and_ours_does_not():
    nothing = np.zeros((2, 5), bool)
    flags = {"return_attention_scores": True}
    _, weights = keras.layers.Attention()([QUERY, VALUE], mask=[None, nothing], **flags)
    np.testing.assert_allclose(weights, 0.2, atol=1e-6)
    theirs = keras.layers.MultiHeadAttention(2, 3, use_bias=False)
    assert np.abs(theirs(QUERY, VALUE, value_mask=nothing)).max() > 0.01
    assert np.all(np.array(theirs(QUERY, VALUE, value_mask=nothing, **flags)[0]) == 0)
    for layer in (ka.Attention("dot"), ka.MultiHeadAttention(2, 3)):
        results = layer(QUERY, VALUE, value_mask=nothing, **flags)
        assert all(np.all(np.array(result) == 0) for result in results)


def test_keras_returns_dropped_weights_and_ours_those_before():
    flags = {"return_attention_scores": True, "training": True}
    _, weights = keras.layers.Attention(dropout=0.5)([QUERY, VALUE], **flags)
    assert np.any(np.array(weights) == 0)
    for layer in (
        keras.layers.MultiHeadAttention(2, 3, dropout=0.5),
        ka.MultiHeadAttention(2, 3, dropout=0.5),
        ka.Attention("dot", dropout=0.5),
    ):
        np.testing.assert_allclose(np.sum(layer(QUERY, VALUE, **flags)[1], -1), 1, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_sliding_window_is_the_window_of_the_table(size):
    theirs = keras.layers.MultiHeadAttention(1, 4, use_bias=False, sliding_window=size)
    expected = theirs(VALUE, VALUE)
    ours = ka.SelfAttention(4, window=2 * size - 1)
    ours.build(VALUE.shape)
    weights = theirs.get_weights()
    ours.set_weights([np.reshape(weight, (6, 4)) for weight in weights[:3]])
    found = np.array(ours(VALUE)) @ np.reshape(weights[3], (4, 6))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_scores_of_concat_are_ours_with_scaled_identities():
    theirs = keras.layers.Attention(use_scale=True, score_mode="concat")
    theirs([QUERY, VALUE])
    theirs.set_weights([np.array(0.7), np.array(1.3)])
    ours = ka.BahdanauAttention(6, use_bias=False)
    ours.build(QUERY.shape, VALUE.shape)
    ours.scorer.query_kernel.assign(0.7 * np.eye(6))
    ours.scorer.key_kernel.assign(0.7 * np.eye(6))
    ours.scorer.vector.assign(np.full((6, 1), 1.3))
    np.testing.assert_allclose(ours(QUERY, VALUE), theirs([QUERY, VALUE]), atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the page says so of it alone")
def test_keras_mixes_batch_elements_of_another_width_and_ours_refuses_them():
    first, second = np.ones((2, 5, 12), "float32"), np.ones((2, 5, 8), "float32")
    theirs, ours = keras.layers.MultiHeadAttention(3, 4), ka.MultiHeadAttention(3, 4)
    assert theirs(first, first).shape == ours(first, first).shape
    assert theirs(second, second).shape == (3, 5, 12)
    with pytest.raises(ValueError, match="was built for the widths"):
        ours(second, second)


def test_one_seeded_initializer_draws_the_numbers_that_the_table_says():
    seeded = keras.initializers.RandomUniform(seed=7)
    theirs = keras.layers.MultiHeadAttention(2, 3, kernel_initializer=seeded)
    scorer = ka.AdditiveScorer(6, kernel_initializer=seeded)
    ours = ka.MultiHeadAttention(2, 6, scorer=scorer, kernel_initializer=seeded, use_bias=True)
    for layer in (theirs, ours):
        layer.build(QUERY.shape, VALUE.shape)

    def starts(*layers):
        return {np.array(layer.kernel).ravel()[:3].tobytes() for layer in layers}

    assert len(starts(theirs.query_dense, theirs.key_dense, theirs.value_dense)) == 1
    assert len(starts(ours.query_dense, ours.key_dense, ours.value_dense)) == 3
    shared = np.array(scorer.query_kernel).ravel()[:3].tobytes()
    assert starts(ours.query_dense) == {shared}
