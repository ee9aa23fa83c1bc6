"""Every layer that draws: the same from the same seed, and nothing outside training."""

import dataclasses
import inspect

import numpy as np
import pytest
from backends import assert_equal
from layer_rows import arrays
from layer_table import TABLE


def _build_noisy_layer(row, seed=1):
    """Returns the row's layer that draws while training, built, weights following from `seed`."""
    row = row if row.noisy is None else dataclasses.replace(row, make=row.noisy)
    return row.build_new(seed)


def _draws(row):
    """Returns whether the row names a layer that draws, or its own was given a seed."""
    return row.noisy is not None or getattr(row.make(), "seed", None) is not None


DRAWING = [row for row in TABLE if _draws(row)]
ROWS = pytest.mark.parametrize("row", DRAWING, ids=str)


def test_every_layer_with_a_seed_has_a_row_that_draws():
    seeded = {
        row.layer.__name__
        for row in TABLE
        if "seed" in inspect.signature(row.layer.__init__).parameters
    }
    assert seeded - {row.layer.__name__ for row in DRAWING} == set(), (
        "give it a `noisy` or a `seed`"
    )


@ROWS
def test_the_same_seed_draws_the_same_and_the_next_call_something_else(row):
    one, other, data = _build_noisy_layer(row), _build_noisy_layer(row), row.data()
    first, second = (arrays(row.call(one, data, training=True)) for _ in range(2))
    assert_equal(arrays(row.call(other, data, training=True)), first)
    assert_equal(arrays(row.call(other, data, training=True)), second)
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@ROWS
def test_nothing_is_drawn_outside_training(row):
    layer, data = _build_noisy_layer(row), row.data()
    states = [np.array(v) for v in layer.variables]
    for flags in ({}, {"training": False}):
        first, second = (arrays(row.call(layer, data, **flags)) for _ in range(2))
        assert_equal(first, second)
    assert_equal([np.array(v) for v in layer.variables], states)
