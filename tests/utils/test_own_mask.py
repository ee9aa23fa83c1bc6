"""A layer's own mask has two names: an explicit one wins, and each is checked by its name."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_attention as ka
from keras_attention import validation

B, T, D, U = 3, 7, 5, 2
MASK = np.arange(T) < np.array([[4], [7], [2]])
PAIRS = np.ones((B, T, T), "bool")
WORDS = np.broadcast_to(MASK[:, :, None], (B, T, T))

#: The layer, its input's name and mask, and another tensor beside which Keras renames the mask.
LAYERS = {
    "AttentionPooling": (lambda: ka.AttentionPooling(U), "inputs", MASK, {}),
    "HierarchicalAttention": (lambda: ka.HierarchicalAttention(U), "inputs", WORDS, {}),
    "SelfAttention": (lambda: ka.SelfAttention(U), "inputs", MASK, {"attention_mask": PAIRS}),
    "LSTMN": (lambda: ka.LSTMN(U), "inputs", MASK, {}),
    "BahdanauGRU": (
        lambda: ka.BahdanauGRU(U, return_sequences=True),
        "sequences",
        MASK,
        {"initial_state": np.ones((B, U), "float32")},
    ),
    "NTM": (lambda: ka.NTM(ka.NTMCell(U, memory_size=11, word_size=3)), "inputs", MASK, {}),
}
rows = pytest.mark.parametrize(("make", "name", "mask", "beside"), LAYERS.values(), ids=LAYERS)


def _inputs(mask, kept=True):
    """Returns inputs that are 0 where `kept` is False."""
    inputs = np.random.RandomState(3).randn(*mask.shape, D)
    return ops.convert_to_tensor(np.where(np.broadcast_to(kept, mask.shape)[..., None], inputs, 0))


def _attach_mask(inputs):
    """Returns the inputs with a mask attached that keeps what is not 0."""
    return keras.layers.Masking(dtype="float64")(inputs)


@pytest.mark.thorough
@rows
def test_an_explicit_mask_of_either_name_wins_over_an_attached_one(make, name, mask, beside):
    layer = make()
    expected = np.array(layer(_inputs(mask), mask=mask))
    assert not np.allclose(layer(_inputs(mask)), expected)
    for given in ("mask", f"{name}_mask"):
        found = layer(_attach_mask(_inputs(mask)), **{given: ops.convert_to_tensor(mask)})
        np.testing.assert_array_equal(found, expected)


@pytest.mark.thorough
@rows
def test_an_attached_mask_arrives_alone_and_beside_another_tensor(make, name, mask, beside):
    layer = make()
    beside = {key: ops.convert_to_tensor(array) for key, array in beside.items()}
    for options in ({}, beside):
        expected = layer(_inputs(mask, mask), mask=mask, **options)
        found = layer(_attach_mask(_inputs(mask, mask)), **options)
        np.testing.assert_array_equal(found, expected)
        assert not np.allclose(layer(_inputs(mask, mask), **options), expected)


@rows
def test_a_wrong_mask_is_refused_by_its_name(make, name, mask, beside):
    layer, inputs = make(), _inputs(mask)
    for given in ("mask", f"{name}_mask"):
        wrong = ops.cast(mask, "float32")
        with pytest.raises(ValueError, match=f"{type(layer).__name__} expects `{given}` to be"):
            layer(inputs, **{given: wrong})
        other = {"mask": mask, f"{name}_mask": mask, given: mask[:, :-1]}
        with pytest.raises(ValueError, match=rf"{given}.shape=\(3, 6"):
            layer(inputs, **other)


def test_the_first_mask_given_counts():
    layer, inputs = keras.layers.Layer(), np.ones((B, T, 1))
    one, other = np.ones((B, T), "bool"), np.zeros((B, T), "bool")
    assert validation.resolve_mask(layer, inputs, mask=one, inputs_mask=other) is one
    assert validation.resolve_mask(layer, inputs, mask=None, inputs_mask=other) is other
    assert validation.resolve_mask(layer, inputs, mask=None, inputs_mask=None) is None
