"""A batch without rows, and logits that are no numbers: a defined answer everywhere."""

import numpy as np
import pytest
from keras import ops
from search_runs import arrays, build_arguments
from tf_or_skip import tf

from keras_attention.search import (
    Constraints,
    beam_search,
    greedy_search,
    sample_search,
    score_sequences,
)

VOCABULARY, SOURCE, LENGTH = 1031, 5, 4  # wide enough for the search in two stages
SEARCHES = {
    "beam": lambda *a: beam_search(*a, beam_width=3, max_length=LENGTH),
    "phrases": lambda *a: beam_search(*a, max_length=LENGTH, constraints=require_phrases(*a)),
    "greedy": lambda *a: greedy_search(*a, max_length=LENGTH),
    "sample": lambda *a: sample_search(*a, max_length=LENGTH, seed=np.zeros(0, "int32")),
    "score": lambda *a: score_sequences(*a, np.zeros((0, LENGTH), "int32")),
}


def require_phrases(step, state, memory):
    return Constraints(phrases=ops.ones((ops.shape(state["rows"])[0], 2, 3), "int32"))


def step(ids, state, memory):
    rows = ops.shape(ids)[0]
    return ops.zeros((rows, VOCABULARY)), state, ops.zeros((rows, SOURCE))


@pytest.mark.thorough
@pytest.mark.parametrize("name", SEARCHES)
def test_no_rows_have_no_hypotheses(name):
    def search(rows):
        return SEARCHES[name](step, {"rows": rows}, None)

    eager = arrays(search(ops.zeros((0, 1))))
    assert {len(value) for value in eager.values()} == {0}
    spec = tf.TensorSpec([None, 1], tf.float32)
    graph = tf.function(search, input_signature=[spec], autograph=False)
    for name, value in graph(tf.zeros((0, 1))).items():
        assert value.shape == eager[name].shape, name


@pytest.mark.parametrize("options", [{}, {"suppress_ids": (7,)}, {"min_length": 3}])
def test_logits_that_are_no_numbers_have_no_greedy_answer(options):
    def return_nan(ids, state, memory):
        logits, *rest = step(ids, state, memory)
        return logits * np.nan, *rest

    found = arrays(
        greedy_search(
            return_nan,
            {"rows": ops.zeros((2, 1))},
            None,
            max_length=LENGTH,
            **build_arguments(**options),
        )
    )
    np.testing.assert_array_equal(found["lengths"], [0, 0])
    assert np.isfinite(found["log_probs"]).all()
