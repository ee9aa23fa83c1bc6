"""Ids of several sources in one sequence: how they are split, and what is refused."""

import numpy as np
import pytest

from keras_attention import SplitSources


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([7, 5, 8, 9, 3, 0], [[7, 5, 0, 0, 0, 0], [0, 0, 8, 9, 3, 0]]),
        ([7, 3, 0, 0, 0, 0], [[7, 3, 0, 0, 0, 0], [0] * 6]),
        ([5, 8, 3, 0, 0, 0], [[5, 0, 0, 0, 0, 0], [0, 8, 3, 0, 0, 0]]),
        ([5, 5, 8, 5, 4, 3], [[5, 0, 0, 0, 0, 0], [0, 5, 8, 5, 4, 3]]),
        ([0] * 6, [[0] * 6, [0] * 6]),
    ],
    ids=["both", "no second", "an empty first", "three separators", "padding"],
)
def test_separators_end_sources(ids, expected):
    layer = SplitSources(2, separator_id=5)
    other = [9, 9, 9, 9, 9, 9]  # has no influence on its neighbor
    found = layer(np.array([other, ids], "int32"))
    np.testing.assert_array_equal([np.array(part)[1] for part in found], expected)


def test_three_sources():
    found = SplitSources(3)(np.array([[4, 4, 9, 3]]))
    np.testing.assert_array_equal(np.stack(found)[:, 0], [[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 9, 3]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_sources": 1}, "`num_sources` to be an int of at least 2.*num_sources=1"),
        ({"num_sources": 2, "separator_id": 0}, "`separator_id` to be a positive int"),
    ],
)
def test_arguments_that_split_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SplitSources(**arguments)


def test_ids_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"`ids` of shape \(batch, length\).*\(2, 3, 4\)"):
        SplitSources(2)(np.ones((2, 3, 4), "int32"))
