"""Sparsemax against the paper's algorithm and against what a projection must satisfy."""

import numpy as np
import pytest
from normalizer_checks import gradient_of, scores_and_mask

from keras_attention import SparsemaxNormalizer


def reference(scores):
    """Algorithm 1 of Martins and Astudillo, one row."""
    falling = np.sort(scores)[::-1]
    sums = np.cumsum(falling)
    size = max(k for k in range(1, len(scores) + 1) if 1 + k * falling[k - 1] > sums[k - 1])
    threshold = (sums[size - 1] - 1) / size
    return np.maximum(scores - threshold, 0)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
def test_weights_are_those_of_the_papers_algorithm(dtype, tolerance):
    scores, _ = scores_and_mask(shape=(11, 3, 53), scale=1.0)
    weights = np.array(SparsemaxNormalizer(dtype=dtype)(scores))
    expected = np.apply_along_axis(reference, -1, scores)
    np.testing.assert_allclose(weights, expected, atol=tolerance)
    assert 0.02 < np.mean(weights > 0) < 0.5


def test_weights_by_hand():
    """(1, .5, -1): two keys remain, tau = (1.5 - 1) / 2 = .25; a lead of 1 takes everything."""
    scores = np.array([[1.0, 0.5, -1.0], [2.0, 1.0, 0.0], [0.3, 0.3, 0.3]])
    expected = [[0.75, 0.25, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(SparsemaxNormalizer(dtype="float64")(scores), expected, atol=1e-15)


def test_no_point_of_the_simplex_is_closer_to_the_scores():
    scores, _ = scores_and_mask(shape=(2, 3, 7))
    weights = np.array(SparsemaxNormalizer(dtype="float64")(scores))
    others = np.random.RandomState(1).dirichlet(np.full(7, 0.3), size=(500, 2, 3))
    near = weights + 1e-3 * (others - weights)  # on the way to another point
    distance = np.sum((weights - scores) ** 2, axis=-1)
    for points in (others, near):
        assert np.all(np.sum((points - scores) ** 2, axis=-1) >= distance)


def test_the_gradient_is_the_difference_from_the_mean_of_the_support():
    """Section 2.5: (1, .5, -1) has the support {1, 2}."""
    upstream = np.array([[3.0, 1.0, 100.0]])
    layer = SparsemaxNormalizer(dtype="float64")
    found = gradient_of(layer, np.array([[1.0, 0.5, -1.0]]), upstream)
    np.testing.assert_allclose(found, [[1.0, -1.0, 0.0]], atol=1e-15)


def test_a_constant_added_to_all_scores_changes_nothing():
    scores, mask = scores_and_mask()
    layer = SparsemaxNormalizer(dtype="float64")
    moved = layer(scores + 37.5, mask=mask)
    np.testing.assert_allclose(moved, layer(scores, mask=mask), atol=1e-12)
