"""Which form `LocalAttention` chooses: windows of keys, or all keys."""

import numpy as np
import pytest

import keras_attention as ka
from keras_attention import LocalAttention
from keras_attention.attention import local

ADDITIVE = ka.AdditiveScorer(units=5)  # its hyperbolic tangents cost more than products


@pytest.mark.parametrize(
    ("scorer", "num_queries", "num_keys", "width", "is_dense"),
    [
        ("scaled_dot", 10, 2716, 3, True),
        ("scaled_dot", 97, 2711, 3, False),  # too many scores
        ("scaled_dot", 67, 1201, 1024, False),  # too many products
        (ADDITIVE, 10, 2716, 3, False),
    ],
)
def test_few_dot_products_are_all_computed(
    scorer, num_queries, num_keys, width, is_dense, monkeypatch
):
    """Eagerly 10 windows of 2,716 keys took 5 times as long to gather as to score every key."""
    chunks = []

    class RecordingWindows(local.Windows):
        def __init__(self, centers, radius, num_keys, chunk, *arguments):
            chunks.append(chunk)
            super().__init__(centers, radius, num_keys, chunk, *arguments)

    monkeypatch.setattr(local, "Windows", RecordingWindows)
    layer = LocalAttention(49, mode="predictive", scorer=scorer)
    layer(np.ones((1, num_queries, width)), np.ones((1, num_keys, width)))
    assert [chunk is None for chunk in chunks] == [is_dense]
