"""Every layer with a mask: what is masked is not read, and leaves no trace."""

import numpy as np
import pytest
from backends import assert_equal, outputs_and_gradients, policies
from layer_rows import arrays
from layer_table import MASKED, TABLE, name_row_or_mask

ROWS_AND_MASKS = pytest.mark.parametrize(("row", "name"), MASKED, ids=name_row_or_mask)
ROWS_WITH_MASKS = pytest.mark.parametrize("row", [row for row in TABLE if row.masks], ids=str)


def with_mask(row, name):
    """Returns the row's data with one of its masks."""
    data = row.data(masks=True)
    return {key: value for key, value in data.items() if key not in row.masks or key == name}


def with_junk(row, name, data, junk):
    """Returns the data with `junk` wherever the mask covers the input."""
    covered, mask = row.masks[name].covers, data[name]
    kept = mask.reshape(*mask.shape, *[1] * (data[covered].ndim - mask.ndim))
    return data | {covered: np.where(kept, data[covered], data[covered].dtype.type(junk))}


@ROWS_AND_MASKS
def test_what_is_masked_changes_neither_outputs_nor_gradients(row, name):
    layer, data = row.built(), with_mask(row, name)
    expected = outputs_and_gradients(row, layer, data)
    floats = data[row.masks[name].covers].dtype.kind == "f"
    for junk in [1e4, np.nan, np.inf] if floats else [1, 2]:
        results = outputs_and_gradients(row, layer, with_junk(row, name, data, junk))
        for one, other in zip(results, expected, strict=True):
            assert_equal(one, other)


@ROWS_AND_MASKS
def test_the_mask_is_read(row, name):
    layer, data = row.built(), with_mask(row, name)
    unmasked = {key: value for key, value in data.items() if key != name}
    pairs = zip(arrays(row.call(layer, data)), arrays(row.call(layer, unmasked)), strict=True)
    assert any(not np.array_equal(one, other) for one, other in pairs)


@ROWS_AND_MASKS
@pytest.mark.parametrize("policy", policies("float32", "bfloat16", "mixed_float16", "float16"))
def test_rows_with_nothing_to_keep_are_zero_with_finite_gradients(row, name, policy):
    layer, data = row.built(dtype=policy), with_mask(row, name)
    outputs, weights, inputs = outputs_and_gradients(row, layer, data)
    assert all(np.isfinite(result).all() for result in outputs + weights + inputs)
    mask = row.masks[name]
    assert mask.zeros, "a mask that silences nothing needs no row"
    empty = ~data[name] if mask.by_position else ~data[name].any(axis=-1)
    assert empty.any() and not empty.all()
    for index in mask.zeros:
        assert np.all(outputs[index][empty] == 0)
        assert np.any(outputs[index][~empty] != 0)


@ROWS_AND_MASKS
def test_a_mask_with_an_axis_of_one_serves_all_of_that_axis(row, name):
    layer, data = row.built(), row.data()
    shape = with_mask(row, name)[name].shape
    for axis in range(len(shape)):
        mask = np.arange(np.prod(shape) // shape[axis]) % 3 != 1
        mask = mask.reshape(*shape[:axis], 1, *shape[axis + 1 :])
        full = np.broadcast_to(mask, shape).copy()
        expected = arrays(row.call(layer, data | {name: full}))
        assert_equal(arrays(row.call(layer, data | {name: mask})), expected)


@ROWS_WITH_MASKS
def test_a_mask_that_is_not_boolean_is_refused(row):
    layer, data = row.built(), row.data(masks=True)
    for name in row.masks:
        wrong = data | {name: data[name].astype("float32")}
        with pytest.raises(ValueError, match=f"`{name}` to be boolean"):
            row.call(layer, wrong)


#: Rows that Keras calls with one tensor: it hands them `mask`, and users know the argument's name.
SINGLE = [row for row, name in MASKED if name == "mask" and row.masks[name].implicit]


@pytest.mark.parametrize("row", SINGLE, ids=str)
def test_a_layer_of_one_tensor_knows_its_mask_by_both_names(row):
    (name,) = row.inputs
    layer, data = row.built(), row.data(masks=True)
    expected = arrays(row.call(layer, data))
    named = {f"{name}_mask": data["mask"]}
    assert_equal(arrays(row.call(layer, {name: data[name]}, **named)), expected)


def test_the_names_of_masks_are_those_that_keras_hands_out():
    """A layer called with one tensor gets `mask`, with more `<argument>_mask` for each."""
    for row, name in MASKED:
        if row.masks[name].implicit:
            expected = "mask" if len(row.inputs) == 1 else f"{row.masks[name].covers}_mask"
            assert name in (expected, "memory_mask"), f"{row}: {name}, not {expected}"
