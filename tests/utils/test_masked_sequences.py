"""The shared masks of sequences."""

import numpy as np
import pytest
from keras import ops

from keras_attention._utils.masked_sequences import (
    gather_last_valid,
    last_valid_position,
    masked_mean,
    zero_masked,
)

MASK = np.array([[True, False, True, False], [False] * 4, [True] * 4])


def test_the_last_valid_position_ignores_holes_and_is_0_if_all_are_masked():
    mask = ops.convert_to_tensor(MASK)
    np.testing.assert_array_equal(last_valid_position(mask, 3, 4), [[2], [0], [3]])
    np.testing.assert_array_equal(last_valid_position(None, 3, 4), [[3]] * 3)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (3, 4, 5, 2)])
def test_masked_values_are_replaced_even_if_they_are_nan(shape):
    tensor = np.where(MASK.reshape(3, 4, *[1] * (len(shape) - 2)), np.ones(shape), np.nan)
    np.testing.assert_array_equal(zero_masked(tensor, MASK), np.nan_to_num(tensor, nan=0.0))
    assert zero_masked(tensor, None) is tensor


def test_the_vector_at_the_last_valid_position_is_gathered():
    sequence = ops.reshape(ops.arange(12.0), (3, 4, 1))
    mask = ops.convert_to_tensor(MASK)
    np.testing.assert_array_equal(gather_last_valid(sequence, mask), [[2.0], [0.0], [11.0]])
    np.testing.assert_array_equal(gather_last_valid(sequence, None), sequence[:, -1])


@pytest.mark.parametrize("mask", [[[True], [False], [True]], [[True, True, True, False]]])
def test_a_mask_that_broadcasts_gathers_the_same_vector(mask):
    sequence, mask = ops.reshape(ops.arange(12.0), (3, 4, 1)), ops.convert_to_tensor(mask)
    expected = gather_last_valid(sequence, ops.broadcast_to(mask, (3, 4)))
    np.testing.assert_array_equal(gather_last_valid(sequence, mask), expected)


def test_the_mean_reads_no_masked_values_and_is_0_if_all_are_masked():
    values = np.random.RandomState(0).normal(size=(3, 4, 5))
    values[~MASK] = np.nan
    mean = np.array(masked_mean(values, MASK))
    np.testing.assert_allclose(mean[0], values[0, [0, 2]].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(mean[1], 0.0)
    np.testing.assert_allclose(mean[2], values[2].mean(axis=0), rtol=1e-6)
