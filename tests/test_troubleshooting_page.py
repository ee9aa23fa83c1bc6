"""The errors on the page about troubleshooting are those that are raised, and its remedies help."""

import pathlib
import re

import keras
import numpy as np
import pytest

from keras_attention import BahdanauAttention

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text()
QUERY, VALUE = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 11), "float32")


@pytest.fixture
def layer():
    return BahdanauAttention(units=4)


@pytest.mark.parametrize(
    "call",
    [
        lambda layer: layer(QUERY, VALUE, value_mask=np.ones((2, 7), "float32")),
        lambda layer: layer(QUERY, VALUE, attention_mask=np.ones((2, 7), "bool")),
        lambda layer: layer([QUERY, VALUE]),
    ],
)
def test_the_page_quotes_the_error(layer, call):
    with pytest.raises(ValueError) as raised:
        call(layer)
    quoted = re.findall(r"^    ValueError: (.*)$", PAGE, re.MULTILINE)
    assert any(one in str(raised.value) for one in quoted)


def test_a_cast_mask_of_floats_is_a_mask(layer):
    floats = np.arange(7) < [[4], [6]]
    mask = keras.ops.cast(floats.astype("float32"), "bool")
    _, weights = layer(QUERY, VALUE, value_mask=mask, return_attention_scores=True)
    weights = keras.ops.convert_to_numpy(weights)
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(floats[:, None], weights.shape))


def test_a_mask_argument_replaces_the_attached_mask_and_is_combined_with_the_other_arguments(layer):
    tokens, yours = np.array([[7, 3, 5, 0, 0], [7, 3, 5, 1, 0]]), np.arange(5) % 2 == [[0], [0]]
    embedding = keras.layers.Embedding(11, 5, mask_zero=True)
    value, attached = embedding(tokens), tokens > 0

    def attend(*tensors, **masks):
        _, weights = layer(QUERY, *tensors, return_attention_scores=True, **masks)
        return keras.ops.convert_to_numpy(weights)[:, 0] > 0

    np.testing.assert_array_equal(attend(value), attached)
    np.testing.assert_array_equal(attend(value, value_mask=yours), yours)
    both = keras.ops.logical_and(embedding.compute_mask(tokens), yours)
    np.testing.assert_array_equal(attend(value, value_mask=both), attached & yours)
    # The mask attached to a key is another argument's.
    np.testing.assert_array_equal(attend(value, value, value_mask=yours), attached & yours)


def test_nan_spreads_within_its_batch_element_and_is_not_read_where_masked(layer):
    value = VALUE.copy()
    value[0, 1] = np.nan
    spoiled = np.isnan(keras.ops.convert_to_numpy(layer(QUERY, value))).any(axis=(1, 2))
    assert spoiled.tolist() == [True, False]
    mask = np.arange(7) != [[1], [1]]
    context = keras.ops.convert_to_numpy(layer(QUERY, value, value_mask=mask))
    assert np.isfinite(context).all()
