"""Every layer with a mask: what is masked is not read, and leaves no trace."""

import numpy as np
import pytest
import tensorflow as tf
from layer_table import MASKED, TABLE, arrays, masked_id

ROWS_AND_MASKS = pytest.mark.parametrize(("row", "name"), MASKED, ids=masked_id)
IMPLICIT = [(row, name) for row, name in MASKED if row.masks[name].implicit]


def _run(row, layer, data):
    """Returns outputs and the gradients of the weights, as arrays."""
    with tf.GradientTape() as tape:
        outputs = row.call(layer, data)
        total = tf.add_n([tf.reduce_sum(tf.cast(x, "float32") ** 2) for x in outputs])
    gradients = [g for g in tape.gradient(total, layer.trainable_variables) if g is not None]
    return arrays([*outputs, *map(tf.convert_to_tensor, gradients)])


def _with_mask(row, name):
    data = row.data(masks=True)
    return {key: value for key, value in data.items() if key not in row.masks or key == name}


@ROWS_AND_MASKS
@pytest.mark.parametrize("junk", [1e4, np.nan, np.inf])
def test_what_is_masked_changes_neither_outputs_nor_gradients(row, name, junk):
    layer, data = row.built(), _with_mask(row, name)
    covered, mask = row.masks[name].covers, data[name]
    kept = mask.reshape(*mask.shape, *[1] * (data[covered].ndim - mask.ndim))
    changed = data | {covered: np.where(kept, data[covered], np.float32(junk))}
    for one, other in zip(_run(row, layer, data), _run(row, layer, changed), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, other)


@ROWS_AND_MASKS
def test_the_mask_is_read(row, name):
    layer, data = row.built(), _with_mask(row, name)
    unmasked = {key: value for key, value in data.items() if key != name}
    pairs = zip(arrays(row.call(layer, data)), arrays(row.call(layer, unmasked)), strict=True)
    assert any(not np.array_equal(one, other) for one, other in pairs)


@ROWS_AND_MASKS
@pytest.mark.parametrize("policy", ["float32", "float16", "bfloat16", "mixed_float16"])
def test_rows_with_nothing_to_keep_are_zero_with_finite_gradients(row, name, policy):
    layer, data = row.built(dtype=policy), _with_mask(row, name)
    results = _run(row, layer, data)
    assert all(np.isfinite(result).all() for result in results)
    mask = row.masks[name]
    assert mask.zeros, "a mask that silences nothing needs no row"
    empty = ~data[name] if mask.by_position else ~data[name].any(axis=-1)
    assert empty.any() and not empty.all()
    for index in mask.zeros:
        assert np.all(results[index][empty] == 0)
        assert np.any(results[index][~empty] != 0)


@pytest.mark.parametrize(("row", "name"), IMPLICIT, ids=masked_id)
def test_a_mask_attached_to_an_input_is_read_and_stays_there(row, name):
    layer, data = row.built(), _with_mask(row, name)
    expected = arrays(row.call(layer, data))
    mask, covered = tf.constant(data.pop(name)), row.masks[name].covers
    data[covered] = tf.constant(data[covered])
    data[covered]._keras_mask = mask
    for one, other in zip(arrays(row.call(layer, data)), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert data[covered]._keras_mask is mask


@pytest.mark.parametrize("row", [row for row in TABLE if row.masks], ids=str)
def test_a_mask_that_is_not_boolean_is_refused(row):
    layer, data = row.built(), row.data(masks=True)
    for name in row.masks:
        wrong = data | {name: data[name].astype("float32")}
        with pytest.raises(ValueError, match=f"`{name}` to be boolean"):
            row.call(layer, wrong)
