"""Every layer with masks, on drawn sizes, masks and magnitudes."""

import hypothesis
import keras
import numpy as np
import pytest
from backends import BACKEND, assert_equal
from hypothesis import strategies
from layer_rows import arrays
from layer_table import TABLE

WITH_MASKS = [pytest.param(index, id=str(row)) for index, row in enumerate(TABLE) if row.masks]
SIZES = strategies.fixed_dictionaries(
    {axis: strategies.integers(1, 5) for axis in ("batch", "query", "key")}
)
#: JAX compiles every operation anew for each shape.
EXAMPLES = 8 if BACKEND == "tensorflow" else 2


@pytest.mark.thorough
@pytest.mark.parametrize("index", WITH_MASKS)
@hypothesis.settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
@hypothesis.given(
    sizes=SIZES,
    kept=strategies.sampled_from([0.0, 0.3, 0.7, 1.0]),
    magnitude=strategies.sampled_from([1e-6, 1.0, 1e3]),
    junk=strategies.sampled_from([0.0, -1e4, np.nan, -np.inf]),
    seed=strategies.integers(0, 99),
)
def test_masks_of_any_form_silence_what_they_cover(index, sizes, kept, magnitude, junk, seed):
    row, layer, random = TABLE[index], TABLE[index].built(), np.random.RandomState(seed)
    data = row.data(sizes, scale=magnitude)
    for name, mask in row.masks.items():
        data[name] = random.rand(*(sizes.get(axis, axis) for axis in mask.axes)) < kept
    expected = arrays(row.call(layer, data))
    assert all(np.isfinite(output).all() for output in expected)
    changed = dict(data)
    for name, mask in row.masks.items():
        where = data[name].reshape(
            *data[name].shape, *[1] * (data[mask.covers].ndim - data[name].ndim)
        )
        if data[mask.covers].dtype.kind == "f":
            changed[mask.covers] = np.where(where, changed[mask.covers], np.float32(junk))
        empty = ~data[name] if mask.by_position else ~data[name].any(axis=-1)
        for output in mask.zeros:
            assert np.all(expected[output][empty] == 0)
    assert_equal(arrays(row.call(layer, changed)), expected)


def test_the_magnitudes_reach_the_limits_of_float32():
    """1e3 squared times the widths here is beyond what an exponential can hold."""
    assert keras.ops.exp(1e3 * 1e3) == np.inf
