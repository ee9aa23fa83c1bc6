"""The page on TensorFlow Addons runs, and arrays carried over give the numbers of its formulas."""

import inspect
import pathlib
import re

import keras
import numpy as np
import pytest
from tf_or_skip import tf

import keras_attention
from keras_attention import AttentionRNN, BahdanauAttention

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "migration.md"


@pytest.fixture(scope="module")
def page():
    """The names that the page's programs define."""
    assert tf.executing_eagerly()
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, PAGE.name, "exec"), names)
    return names


def draw(*shapes):
    generator = np.random.default_rng(5)
    return [generator.normal(size=shape).astype("float32") for shape in shapes]


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.thorough
@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau(page, normalize):
    query, memory, w, u, v, b = draw((2, 6), (2, 7, 5), (6, 8), (5, 8), (8,), (8,))
    g = np.float32(0.7)
    layer = BahdanauAttention(8, normalize_vector=normalize)
    layer.build((None, 6), (None, None, 5))
    page["carry_bahdanau"](layer, w, u, v, *((g, b) if normalize else ()))
    vector = g * v / np.sqrt(np.sum(v**2)) if normalize else v
    hidden = memory @ u + (query @ w)[:, None] + (b if normalize else 0)
    weights = softmax(np.tanh(hidden) @ vector)
    found = layer(query, memory, return_attention_scores=True)
    np.testing.assert_allclose(found[1], weights, rtol=1e-4, atol=1e-6)
    context = np.einsum("bk,bkd->bd", weights, memory)
    np.testing.assert_allclose(found[0], context, rtol=1e-4, atol=1e-5)


def test_luong_in_an_attention_wrapper(page):
    """Scores from the cell's output, a layer over [output; context], fed to the next step."""
    inputs, memory, kernel, mixing = draw((2, 3, 4), (2, 7, 5), (5, 6), (11, 9))
    cell = keras.layers.GRUCell(6)
    rnn = AttentionRNN(
        cell,
        page["Attention"](page["GeneralScorer"]()),
        input_feeding=True,
        attentional_units=9,
        attentional_activation=None,
    )
    rnn.build(inputs.shape, memory.shape)
    page["carry_luong"](rnn.attention, kernel, g=0.5)
    page["carry_attention_layer"](rnn, mixing)
    attention, state, expected = np.zeros((2, 9), "float32"), np.zeros((2, 6), "float32"), []
    for time in range(3):
        output, (state,) = cell(np.concatenate([inputs[:, time], attention], -1), [state])
        scores = 0.5 * np.einsum("bd,bkd->bk", output, memory @ kernel)
        context = np.einsum("bk,bkd->bd", softmax(scores), memory)
        attention = np.concatenate([output, context], -1) @ mixing
        expected.append(attention)
    np.testing.assert_allclose(rnn(inputs, memory), np.stack(expected, 1), rtol=1e-4, atol=1e-5)


def test_an_attention_wrapper_without_an_attention_layer(page):
    """The context of a step, zeros at first, is fed to the next; it or the output leaves."""
    inputs, memory, kernel = draw((2, 3, 4), (2, 7, 5), (5, 6))
    cell, mechanism = keras.layers.GRUCell(6), page["Attention"](page["GeneralScorer"]())
    rnn = AttentionRNN(cell, mechanism, input_feeding=True, attentional_units=0)
    rnn.build(inputs.shape, memory.shape)
    page["carry_luong"](rnn.attention, kernel)
    context, state, expected = np.zeros((2, 5), "float32"), np.zeros((2, 6), "float32"), []
    for time in range(3):
        output, (state,) = cell(np.concatenate([inputs[:, time], context], -1), [state])
        scores = np.einsum("bd,bkd->bk", output, memory @ kernel)
        context = np.einsum("bk,bkd->bd", softmax(scores), memory)
        expected.append((output, context))
    found = rnn(inputs, memory, return_context=True)
    for ours, theirs in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(ours, np.stack(theirs, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("search", ["greedy_search", "sample_search", "beam_search"])
def test_rows_name_every_argument_that_a_search_requires(search):
    (call,) = re.findall(rf"`{search}\((.*?)\)`", PAGE.read_text())
    parameters = inspect.signature(getattr(keras_attention, search)).parameters.values()
    named = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    required = {one.name for one in parameters if one.name in named and one.default is one.empty}
    assert required <= set(re.findall(r"(\w+)=", call)) and required
