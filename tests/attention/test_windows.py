"""Windows: spans of keys, products with windows of rows, and the way back to whole sequences."""

import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention.attention._windows import Windows, scatter_spans
from keras_attention.kernels.window_products import WindowRows, window_dot, window_sum

B, T, S, D = 2, 11, 23, 3
CENTERS = np.minimum(np.arange(T) + np.array([[0], [15]]), S - 1).astype("int32")


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


def test_every_span_holds_the_windows_of_its_queries():
    windows = Windows(tf.constant(CENTERS), 2, S, chunk=4)
    keys, centers = np.array(windows.keys), np.array(windows.centers)
    values = _random(B, S, D)
    spans = np.array(windows.gather_keys(tf.constant(values)))
    assert spans.shape == (B * 3, 4 + 2 * 2, D)
    for row in range(B * 3):
        for position in range(min(4, T - 4 * (row % 3))):
            center = centers[row, position, 0]
            assert center == CENTERS[row // 3, 4 * (row % 3) + position]
            assert set(range(center - 2, center + 3)) <= set(keys[row, 0])
        inside = (keys[row, 0] >= 0) & (keys[row, 0] < S)
        np.testing.assert_array_equal(spans[row][inside], values[row // 3, keys[row, 0][inside]])


@pytest.mark.parametrize("chunk", [1, 4, 11, None])
def test_queries_and_pairs_come_back(chunk):
    windows = Windows(tf.constant(CENTERS), 2, S, chunk)
    queries, pairs = _random(B, T, D), _random(B, T, S)
    np.testing.assert_array_equal(
        windows.merge_queries(windows.split_queries(tf.constant(queries))), queries
    )
    near = np.abs(np.arange(S) - CENTERS[:, :, None]) <= 2
    back = np.array(windows.scatter_pairs(windows.gather_pairs(tf.constant(pairs))))
    np.testing.assert_array_equal(back[near], pairs[near])
    offsets = _random(B, T, 5)
    by_key = np.array(windows.scatter_pairs(windows.gather_offsets(tf.constant(offsets))))
    for b, t, o in np.ndindex(B, T, 5):
        key = CENTERS[b, t] - 2 + o
        assert not 0 <= key < S or by_key[b, t, key] == offsets[b, t, o]


def test_spread_has_the_gradient_of_the_places():
    tensor, upstream = tf.constant(_random(B, T, 5)), _random(B, T, S)
    first = tf.constant(CENTERS[:, :, None] - 2)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        total = tf.reduce_sum(scatter_spans(tensor, first, S) * upstream)
    expected = np.zeros((B, T, 5))
    for b, t, o in np.ndindex(B, T, 5):
        key = CENTERS[b, t] - 2 + o
        expected[b, t, o] = upstream[b, t, key] if 0 <= key < S else 0
    np.testing.assert_array_equal(tape.gradient(total, tensor), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("window", [5, 16, 17, 35])  # one block, several, the last one not full
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "xla"])
def test_products_by_piece_equal_those_with_all_rows(window, compiled):
    first = CENTERS.reshape(-1) - window // 2
    source = np.repeat(np.arange(B), T).astype("int32")
    rows = source[:, None] * S + np.clip(first[:, None] + np.arange(window), 0, S - 1)
    query, weights, values = _random(B * T, D), _random(B * T, window), _random(B * S, D)

    def gather_in_blocks(query, weights, values):
        places = WindowRows(tf.constant(first), tf.constant(source), S, window)
        return window_dot(query, values, places), window_sum(weights, values, places)

    def at_once(query, weights, values):
        held = tf.gather(values, rows)
        return tf.einsum("nd,nod->no", query, held), tf.einsum("no,nod->nd", weights, held)

    def run(products):
        inputs = [tf.constant(x) for x in (query, weights, values)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            results = products(*inputs)
            total = tf.add_n([tf.reduce_sum(tf.sin(result)) for result in results])
        gradients = tape.gradient(total, inputs)
        return [*results, *map(tf.convert_to_tensor, gradients)]

    runner = tf.function(run, jit_compile=True) if compiled else run
    for one, other in zip(runner(gather_in_blocks), run(at_once), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
