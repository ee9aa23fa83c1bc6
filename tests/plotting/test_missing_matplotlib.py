"""Plots without Matplotlib name the extra that has it."""

import builtins

import numpy as np
import pytest

from keras_attention.plotting import plot_alignment, plot_head_view, plot_heads

SOURCE, TARGET = ["das", "Haus"], ["the", "house"]


@pytest.mark.parametrize(
    ("function", "weights"),
    [
        (plot_alignment, np.eye(2)),
        (plot_heads, np.eye(2)[None]),
        (plot_head_view, np.eye(2)[None]),
    ],
)
def test_the_error_names_the_extra(function, weights, monkeypatch):
    original = builtins.__import__

    def without_matplotlib(name, *arguments, **named):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=r'pip install "keras-attention-layers\[plot\]"'):
        function(weights, SOURCE, TARGET)
