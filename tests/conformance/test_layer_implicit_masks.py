"""Masks that come attached to a tensor: read, never erased, passed on where the table says so."""

import keras
import numpy as np
import pytest
from backends import assert_equal, attach, get_mask
from layer_rows import arrays
from layer_table import TABLE, name_row_or_mask

IMPLICIT = [(row, name) for row in TABLE for name, mask in row.masks.items() if mask.implicit]
ROWS = pytest.mark.parametrize(
    "row", [row for row in TABLE if any(mask.implicit for mask in row.masks.values())], ids=str
)
ROWS_AND_MASKS = pytest.mark.parametrize(("row", "name"), IMPLICIT, ids=name_row_or_mask)


def without_explicit(row, data, names):
    """Returns the data with those masks attached to what they cover instead."""
    data = {**data, **_attach_masks(row, data, names)}
    return {name: value for name, value in data.items() if name not in names}


def _attach_masks(row, data, names):
    covers = {name: row.masks[name].covers for name in names}
    return {
        covered: attach(data[covered], keras.ops.convert_to_tensor(data[name]))
        for name, covered in covers.items()
    }


@ROWS_AND_MASKS
def test_a_mask_attached_to_an_input_is_read_and_stays_there(row, name):
    """Alone, and beside the explicit masks of the other inputs; twice in a row."""
    layer, everything, covered = row.built(), row.data(masks=True), row.masks[name].covers
    alone = {key: everything[key] for key in (*row.inputs, name)}
    for data in (alone, everything):
        expected = arrays(row.call(layer, data))
        implicit = without_explicit(row, data, [name])
        mask = get_mask(implicit[covered])
        for _ in range(2):
            assert_equal(arrays(row.call(layer, implicit)), expected)
            assert get_mask(implicit[covered]) is mask


@ROWS_AND_MASKS
def test_an_explicit_mask_wins_over_an_attached_one(row, name):
    layer, data, covered = row.built(), row.data(masks=True), row.masks[name].covers
    expected = arrays(row.call(layer, data))
    other = keras.ops.logical_not(data[name])
    assert_equal(arrays(row.call(layer, data | {covered: attach(data[covered], other)})), expected)


@ROWS_AND_MASKS
def test_the_outputs_that_keep_the_axes_of_a_mask_carry_it_on(row, name):
    data = row.data(masks=True)
    data = without_explicit(row, {key: data[key] for key in (*row.inputs, name)}, [name])
    for index, output in enumerate(row.call(row.built(), data)):
        if index in row.masks[name].passes:
            np.testing.assert_array_equal(get_mask(output), get_mask(data[row.masks[name].covers]))
        else:
            assert get_mask(output) is None


class Twice(keras.Model):
    """Calls a layer twice on the same tensors, masks attached."""

    def __init__(self, row, layer, names):
        super().__init__()
        self.row, self.layer, self.names = row, layer, names

    def call(self, data):
        implicit = without_explicit(self.row, data, self.names)
        return [output for _ in range(2) for output in self.row.call(self.layer, implicit)]


@pytest.mark.thorough
@ROWS
def test_in_predict_of_a_subclassed_model_two_calls_in_a_row_read_the_masks(row):
    names = [name for name, mask in row.masks.items() if mask.implicit]
    layer, data = row.built(), row.data(masks=True)
    expected = arrays(row.call(layer, data))
    results = arrays(Twice(row, layer, names).predict(data, verbose=0))
    for one, other in zip(results, expected * 2, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)
