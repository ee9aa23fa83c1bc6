"""Layers of local attention and their inputs, for the tests of results and of windows."""

import numpy as np
import pytest
from seeds import set_seed

from keras_attention import LocalAttention
from keras_attention.attention import local

B, T, S, D, DV = 3, 37, 29, 5, 7  # long enough for several spans
LENGTHS = np.array([[29], [11], [0]])
MASK = np.arange(S) < LENGTHS


def random(*shape, dtype="float64"):
    return np.random.RandomState(sum(shape)).randn(*shape).astype(dtype)


QUERY, VALUE, KEY = random(B, T, D), random(B, S, DV), random(B, S, D)
PREDICTIVE = {"mode": "predictive", "units": 3}
MODES = pytest.mark.parametrize("options", [{}, PREDICTIVE], ids=["monotonic", "predictive"])


def score_windows_alone(monkeypatch):
    """Sources of a test are so short that every layer would score all keys, to be faster."""
    for factors in (local.DENSE_SPANS, local.DENSE_SHARED_SPANS):
        for mode in factors:
            monkeypatch.setitem(factors, mode, 0)
    monkeypatch.setattr(local, "FEW_SCORES", 0)


def build_layer(window=5, dtype="float64", **options):
    set_seed(1)
    layer = LocalAttention(window, dtype=dtype, **options)
    layer.build(QUERY.shape, VALUE.shape, KEY.shape)
    return layer
