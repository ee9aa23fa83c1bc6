"""The log-probability of each token that a search returns; `score_sequences` is held against it."""

import numpy as np
import pytest
from keras import ops
from search_models import END, HashModel, TableModel
from search_runs import arrays, assert_teacher_forced, run, search

from keras_attention.search import greedy_search, sample_search, score_sequences

MODEL = HashModel(seed=161, batch=5, vocabulary=11, end_bias=0.5)
SEARCHES = {
    "greedy": lambda **given: run(greedy_search, MODEL, **given),
    "sample": lambda **given: run(sample_search, MODEL, seed=np.arange(5), **given),
    "beam": lambda **given: search(MODEL, beam_width=3, **given),
    "num_groups": lambda **given: search(MODEL, beam_width=4, num_groups=2, **given),
    "shrinking": lambda **given: search(MODEL, beam_width=3, stopping="shrinking", **given),
}


@pytest.mark.parametrize("name", list(SEARCHES))
@pytest.mark.parametrize("prefix", [None, np.array([[4, 5], [5, 0], [0, 0], [6, 4], [7, 0]])])
def test_they_sum_to_the_log_prob_and_are_0_after_the_end(name, prefix):
    result = SEARCHES[name](max_length=7, prefix=prefix)
    found, lengths = result["token_log_probs"], result["lengths"]
    assert found.shape == result["ids"].shape and found.dtype == "float32"
    assert (found <= 0).all() and len(np.unique(lengths)) > 1
    inside = np.arange(7) < lengths[..., None]
    assert (found[inside] < 0).all() and (found[~inside] == 0).all()
    real = lengths > 0
    np.testing.assert_allclose(found.sum(axis=-1)[real], result["log_probs"][real], rtol=1e-5)
    assert_teacher_forced(MODEL, result)


def test_the_tokens_of_a_filler_have_none():
    tables = np.full((1, 6, 6), -1e9)
    tables[0, 2, 4], tables[0, 4, END] = 0.0, 0.0
    result = search(TableModel(tables), beam_width=3, max_length=3)
    np.testing.assert_array_equal(result["lengths"], [[2, -1, -1]])
    assert (result["token_log_probs"] == 0).all()


@pytest.mark.thorough
def test_they_stay_precise_late_in_a_long_improbable_sequence():
    model = HashModel(seed=162, batch=2, vocabulary=11, end_bias=-90.0, scale=9.0)
    bans = {"suppress_ids": [4, 5, 6], "return_alignments": False}
    result = search(model, beam_width=2, max_length=61, **bans)
    assert (result["log_probs"] < -60).all()
    for place in range(2):
        ids = ops.convert_to_tensor(result["ids"][:, place])
        scored = arrays(score_sequences(model.step, model.state(), model.memory(), ids))
        found = result["token_log_probs"][:, place]
        np.testing.assert_allclose(found, scored["token_log_probs"], atol=2e-5)
