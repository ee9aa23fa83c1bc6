"""Every layer and every decoder's searches answer a batch without rows, eagerly too."""

import keras
import numpy as np
import pytest
from backends import outputs_and_gradients
from layer_rows import SIZES
from layer_table import TABLE

import keras_attention as ka
from keras_attention.search import (
    BeamOptions,
    beam_search,
    greedy_search,
    sample_search,
    score_sequences,
)

NO_ROWS = SIZES[0] | {"batch": 0}
LENGTH = 3
SEARCHES = {
    "beam": lambda *a: beam_search(*a, beam_width=2, max_length=LENGTH),
    "groups": lambda *a: beam_search(
        *a,
        beam_width=4,
        max_length=LENGTH,
        options=BeamOptions(num_groups=2, diversity_penalty=0.5),
    ),
    "greedy": lambda *a: greedy_search(*a, max_length=LENGTH),
    "sample": lambda *a: sample_search(*a, max_length=LENGTH, seed=np.zeros(0, "int32")),
    "score": lambda *a: score_sequences(*a, np.zeros((0, LENGTH), "int32")),
}
DECODERS = [row for row in TABLE if hasattr(row.layer, "start") and "target_ids" in row.inputs]
ROWS = pytest.mark.parametrize("row", TABLE, ids=str)
if keras.backend.backend() == "jax":  # which compiles for every shape
    pytestmark = pytest.mark.thorough


@ROWS
@pytest.mark.parametrize("masks", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_no_rows_have_outputs_and_gradients_of_the_right_shapes(row, masks):
    layer = row.built()
    some, none = (
        outputs_and_gradients(row, layer, row.data(sizes, masks=masks))
        for sizes in (SIZES[0], NO_ROWS)
    )
    for index, match_static_batch in enumerate((True, False, True)):  # outputs, weights, inputs
        for result, other in zip(none[index], some[index], strict=True):
            assert result.shape == ((0, *other.shape[1:]) if match_static_batch else other.shape)
    assert all((gradient == 0).all() for gradient in none[1])


@pytest.mark.parametrize("row", [row for row in TABLE if row.noisy], ids=str)
def test_no_rows_are_trained_on(row):
    layer = row.noisy()
    row.call(layer, row.data())
    for output in row.call(layer, row.data(NO_ROWS, masks=True), training=True):
        assert output.shape[0] == 0


@pytest.mark.parametrize("row", DECODERS, ids=str)
@pytest.mark.parametrize("name", SEARCHES)
def test_no_rows_have_no_hypotheses(row, name):
    decoder = row.built()
    source = {name: keras.ops.convert_to_tensor(x) for name, x in row.data(NO_ROWS).items()}
    del source["target_ids"]
    memory = decoder.prepare(**source)
    state = decoder.start(memory, max_length=LENGTH)
    found = SEARCHES[name](decoder.step, state, memory)
    assert {len(value) for value in found.values()} == {0}
    assert found["lengths"].shape == (
        (0,) if found["lengths"].ndim == 1 else found["ids"].shape[:2]
    )


def test_every_decoder_is_searched():
    assert {row.layer for row in TABLE if issubclass(row.layer, ka.Decoder)} <= {
        row.layer for row in DECODERS
    }
