"""Several sources as one memory: its layout, its masks and its errors."""

import keras
import numpy as np
import pytest

from keras_attention import ConcatenateSources

FIRST, SECOND = np.arange(1.0, 13.0).reshape(2, 3, 2), -np.arange(1.0, 7.0).reshape(2, 1, 3)


def test_the_layout_by_hand():
    memory = np.array(ConcatenateSources()([FIRST, SECOND]))
    first = [[1, 2, 0, 0, 0, 1, 0], [3, 4, 0, 0, 0, 1, 0], [5, 6, 0, 0, 0, 1, 0]]
    np.testing.assert_array_equal(memory[0], [*first, [0, 0, -1, -2, -3, 0, 1]])
    np.testing.assert_array_equal(memory[1, 3], [0, 0, -4, -5, -6, 0, 1])


@pytest.mark.parametrize("attached", [True, False])
def test_a_source_without_a_mask_is_read_whole(attached):
    embedding = keras.layers.Embedding(5, 2, mask_zero=True)
    ids, layer = np.array([[4, 3, 0], [0, 0, 0]]), ConcatenateSources()
    if attached:
        memory = layer([embedding(ids), SECOND])
    else:
        memory = layer([FIRST, SECOND], mask=[(ids > 0).astype("int32"), None])
    mask = memory._keras_mask
    np.testing.assert_array_equal(mask, [[1, 1, 0, 1], [0, 0, 0, 1]])
    assert getattr(layer([FIRST, SECOND]), "_keras_mask", None) is None


def test_sources_that_share_positions_by_hand():
    """Neither reads the positions of the other, which hold anything."""
    second = np.array([[[7.0], [np.nan], [8.0]]])
    first = np.where(np.array([[False, True, False]])[:, :, None], FIRST[:1], np.nan)
    masks = [np.array([[False, True, False]]), np.array([[True, False, False]])]
    memory = ConcatenateSources(shared_positions=True)([first, second], mask=masks)
    np.testing.assert_array_equal(memory[0], [[0, 0, 7, 0, 1], [3, 4, 0, 1, 0], [0] * 5])
    mask = memory._keras_mask
    np.testing.assert_array_equal(mask, [[True, True, False]])


def test_sources_that_cannot_share_positions_are_refused():
    layer, mask = ConcatenateSources(shared_positions=True), np.ones((2, 3), bool)
    with pytest.raises(ValueError, match=r"same size on axis 1. They share their positions"):
        layer([FIRST, SECOND], mask=[mask, mask])
    with pytest.raises(ValueError, match=r"needs a mask of each source.*mask\[1\]=None"):
        layer([FIRST, FIRST], mask=[mask, None])


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([FIRST], r"at least two sources, .*Received: shapes \(\(2, 3, 2\),\)"),
        (FIRST, r"at least two sources, .*Received: shapes \(2, 3, 2\)"),
        ([FIRST, SECOND[0]], r"`sources\[1\]` of shape \(batch, length, dim\)"),
        ([FIRST, SECOND[:1]], r"same size on axis 0. Each example needs all sources.*\(1, 1, 3\)"),
    ],
)
def test_sources_that_do_not_fit_are_refused(sources, message):
    with pytest.raises(ValueError, match=message):
        ConcatenateSources()(sources)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([np.ones((2, 3), bool)], "`mask` to have a mask or None for each source.*1 masks of 2"),
        ([None, np.ones((2, 2), bool)], r"`mask\[1\]`.*\(batch, length\)"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        ConcatenateSources()([FIRST, SECOND], mask=mask)


def test_symbolic_sources_of_unknown_sizes():
    sources = [keras.Input((None, 2)), keras.Input((7, 3))]
    memory = ConcatenateSources()(sources)
    assert tuple(memory.shape) == (None, None, 7)
    assert tuple(ConcatenateSources()([keras.Input((5, 2), 3), sources[1]]).shape) == (3, 12, 7)
    masks = [keras.Input((None,), dtype="bool") for _ in range(2)]
    memory = ConcatenateSources(shared_positions=True)(sources, mask=masks)
    assert tuple(memory.shape) == (None, 7, 7)
