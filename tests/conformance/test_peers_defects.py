"""Defects found in other attention layers, each as a promise of ours.

What is told of Keras here was seen with Keras 3.15. One defect has no counterpart: Keras'
multi-head layer gives up its fused operation for good once it was made with dropout. Which way
ours computes is not observable; that inference does not depend on the rate is.
"""

import keras
import numpy as np
import pytest
from backends import attach, get_mask, means, outputs_and_gradients
from layer_rows import Mask, Row, arrays
from seeds import set_seed

import keras_attention as ka

B, T, S, DQ, DV = 3, 2, 5, 6, 7

MECHANISMS = {
    "Attention": lambda **o: ka.Attention(ka.GeneralScorer(dtype=o.get("dtype")), **o),
    "BahdanauAttention": lambda **o: ka.BahdanauAttention(3, **o),
    "LocalAttention": lambda **o: ka.LocalAttention(3, "predictive", units=3, **o),
    "LuongAttention": lambda **o: ka.LuongAttention(**o),
    "MultiHeadAttention": lambda **o: ka.MultiHeadAttention(2, 4, **o),
}
EVERY = pytest.mark.parametrize("name", MECHANISMS)


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


QUERY, VALUE = _random(B, T, DQ), _random(B, S, DV)
#: A whole row, a row with padding, a row of nothing but padding.
KEPT = np.arange(S) < np.array([[5], [3], [0]])
READ = {"query": ("batch", T, DQ), "value": ("batch", S, DV)}


def _mean_of_kept():
    """Returns a layer whose weights are 1 over the number of kept keys."""
    return ka.Attention("uniform")


@EVERY
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("weights", [False, True], ids=["alone", "weights"])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "dropout"])
def test_a_fully_masked_row_is_zero_on_every_path(name, dtype, weights, training):
    """Keras' multi-head layer averages the padding on its fused path and gives 0 on the other;
    its `Attention` gives uniform weights over padding, and NaN in float16."""
    flags = {"training": training} | ({"return_attention_scores": True} if weights else {})
    masks = {"value_mask": Mask(("batch", S), "value")}
    set_seed(1)
    layer = MECHANISMS[name](dtype=dtype, dropout=0.5, seed=1)
    row = Row(type(layer), None, READ, masks, flags)
    # Products of this size reach the lowest number of float16 once -65504 is added.
    data = {"query": 20 * QUERY, "value": -20 * VALUE, "value_mask": KEPT}
    row.call(layer, data)
    outputs, *gradients = outputs_and_gradients(row, layer, data, means)
    for output in outputs:
        assert np.all(output[2] == 0) and np.isfinite(output).all()
        assert np.any(output[0] != 0) or training
    assert all(np.isfinite(gradient).all() for group in gradients for gradient in group)


@EVERY
@pytest.mark.parametrize("mask", ["query_mask", "attention_mask", "key_mask"])
def test_the_other_masks_empty_a_row_too(name, mask):
    shapes = {"query_mask": (B, T), "attention_mask": (B, T, S), "key_mask": (B, S)}
    kept = np.ones(shapes[mask], bool)
    kept[1] = False
    results = MECHANISMS[name]()(QUERY, VALUE, return_attention_scores=True, **{mask: kept})
    for result in arrays(results):
        assert np.all(result[1] == 0)
        assert np.any(result[0] != 0)


@EVERY
def test_a_mask_survives_a_call(name):
    """Keras' multi-head layer sets the mask of its query to None."""
    query = attach(QUERY, np.ones((B, T), bool))
    value = attach(VALUE, keras.ops.convert_to_tensor(KEPT))
    masks = get_mask(query), get_mask(value)
    layer = MECHANISMS[name]()
    layer(query, value)
    assert (get_mask(query), get_mask(value)) == masks
    same = attach(_random(B, S, 4), keras.ops.convert_to_tensor(KEPT))
    mask = get_mask(same)
    layer = MECHANISMS[name]()
    layer(same, same)
    layer(same, same, return_attention_scores=True)
    assert get_mask(same) is mask


class TwoInARow(keras.Model):
    """Embeds ids and lets two layers read the same tensor."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(5, 4, mask_zero=True)
        self.first, self.second = _mean_of_kept(), _mean_of_kept()

    def call(self, ids):
        embedded = self.embedding(ids)
        layers = (self.first, self.second)
        return [layer(embedded, embedded, return_attention_scores=True)[1] for layer in layers]


@pytest.mark.parametrize("how", ["call", "predict"])
def test_two_layers_in_a_row_of_a_subclassed_model_both_ignore_padding(how):
    """With Keras' the second layer reads the padding: 0.2 each instead of 0.333 and 0."""
    model, ids = TwoInARow(), np.array([[1, 2, 3, 0, 0]])
    results = model(ids) if how == "call" else model.predict(ids, verbose=0)
    for weights in arrays(results):
        np.testing.assert_allclose(weights[0, :3], [[1 / 3] * 3 + [0, 0]] * 3, atol=1e-6)
        assert np.all(weights[0, 3:] == 0), "a padded query reads nothing"


@EVERY
@pytest.mark.parametrize("lengths", [(T, S), (None, None)], ids=["known", "unknown"])
def test_the_symbolic_shapes_of_cross_attention_are_those_of_values(name, lengths):
    """Keras' multi-head layer declares weights of shape (..., 2, 2) and returns (..., 2, 5); its
    operation declares the width of the query where the value's comes back."""
    layer = MECHANISMS[name]()
    values = layer(QUERY, VALUE, return_attention_scores=True)
    symbols = [keras.Input((lengths[0], DQ)), keras.Input((lengths[1], DV))]
    for symbol, value in zip(layer(*symbols, return_attention_scores=True), values, strict=True):
        real = list(value.shape)
        assert symbol.shape[0] is None and len(symbol.shape) == len(real)
        if None not in lengths:
            assert list(symbol.shape[1:]) == real[1:]
        assert all(size in (None, other) for size, other in zip(symbol.shape, real, strict=True))


@EVERY
def test_a_value_may_be_wider_than_the_query_or_narrower(name):
    for width in (DQ - 3, DQ + 5):
        value, layer = _random(B, S, width), MECHANISMS[name]()
        context = layer(QUERY, value)
        symbol = layer(keras.Input((None, DQ)), keras.Input((None, width)))
        assert symbol.shape[-1] == context.shape[-1]
        if name != "MultiHeadAttention":  # it projects to the width of its output
            assert context.shape[-1] == width


@EVERY
def test_one_causal_query_under_a_cache_reads_all_that_came_before(name):
    """Keras' causal mask begins at the first key: a single query sees that one alone."""
    layer, value = MECHANISMS[name](), _random(B, S, DV)
    query = _random(B, S, DQ)
    whole = layer(query, value, use_causal_mask=True, return_attention_scores=True)
    for position in range(S):
        step = layer(
            query[:, position : position + 1],
            value,
            use_causal_mask=True,
            position_offset=np.full(B, position, "int32"),
            return_attention_scores=True,
        )
        for one, all_steps in zip(arrays(step), arrays(whole), strict=True):
            expected = all_steps.take([position], axis=-2)
            np.testing.assert_allclose(one, expected, atol=1e-5)
        if name != "LocalAttention":  # it reads its window alone
            assert np.all(arrays(step)[1][..., : position + 1] > 0)
        assert np.all(arrays(step)[1][..., position + 1 :] == 0)


@EVERY
def test_dropout_leaves_the_returned_weights_alone(name):
    """Keras' `Attention` returns its weights after dropout: they do not sum to 1."""
    plain, dropping = MECHANISMS[name](), MECHANISMS[name](dropout=0.5, seed=1)
    expected = arrays(plain(QUERY, VALUE, return_attention_scores=True))
    dropping(QUERY, VALUE)
    dropping.set_weights([np.array(weight) for weight in plain.weights])
    context, weights = arrays(dropping(QUERY, VALUE, return_attention_scores=True, training=True))
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)
    assert not np.allclose(context, expected[0], atol=1e-3), "the context was dropped from"
    results = arrays(dropping(QUERY, VALUE, return_attention_scores=True, training=False))
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("weights", [False, True], ids=["alone", "weights"])
def test_all_heads_may_share_one_key_and_value_head(weights):
    """`keras.ops.dot_product_attention` promises it and fails on TensorFlow."""
    layer = ka.MultiHeadAttention(4, 3, num_key_value_heads=1)
    symbols = keras.Input((None, DQ)), keras.Input((None, DV))
    model = keras.Model(symbols, layer(*symbols, return_attention_scores=weights))
    flags = {"return_attention_scores": weights}
    expected = arrays(layer(QUERY, VALUE, **flags))
    for results in (model([QUERY, VALUE]), model.predict([QUERY, VALUE], verbose=0)):
        for one, other in zip(arrays(results), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    if weights:
        assert expected[1].shape == (B, 4, T, S)
        np.testing.assert_allclose(expected[1].sum(-1), 1.0, atol=1e-5)
