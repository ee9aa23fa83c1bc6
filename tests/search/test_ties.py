"""Who wins a tie: the smaller id and the earlier hypothesis, in every search and every mode."""

import itertools

import numpy as np
import pytest
from keras import ops
from search_models import END, TableModel
from search_runs import arrays, build_arguments, hypotheses, search
from tf_or_skip import tf

from keras_attention.search import beam_search, greedy_search, sample_search
from keras_attention.search._indexing import top_k
from keras_attention.search.chunked_top_k import chunked_top_k

MODES = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function, autograph=False),
    "xla": lambda function: tf.function(function, autograph=False, jit_compile=True),
}
each_mode = pytest.mark.parametrize("mode", list(MODES))
thorough_xla = pytest.param("xla", marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    "mode, vocabulary",  # 1009 is searched in chunks
    [
        ("eager", 7),
        ("eager", 1009),
        pytest.param("graph", 7, marks=pytest.mark.thorough),
        ("graph", 1009),
        ("xla", 7),
        pytest.param("xla", 1009, marks=pytest.mark.thorough),
    ],
)
def test_zeros_of_both_signs_are_a_tie_in_every_search(mode, vocabulary):
    pairs = [(-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0), (0.0, 0.0)]
    logits = np.full((len(pairs), vocabulary), -5.0, "float32")
    logits[:, [vocabulary - 3, vocabulary - 1]] = pairs
    seeds = np.array([11, 13, 17, 19], "int32")

    def step(ids, state, memory):
        return memory, state, ops.zeros_like(memory[:, :1])

    def run(memory):
        found = {
            "greedy": greedy_search(step, {}, memory, max_length=3),
            "beam": beam_search(step, {}, memory, beam_width=1, max_length=3),
        }
        for top in (None, 2):
            options = {"temperature": 0.0, "top_k": top, "max_length": 3}
            found[f"top {top}"] = sample_search(
                step, {}, memory, seed=seeds, **build_arguments(**options)
            )
        return {name: result["ids"] for name, result in found.items()}

    for name, ids in MODES[mode](run)(ops.convert_to_tensor(logits)).items():
        assert (ops.convert_to_numpy(ids) == vocabulary - 3).all(), name


@each_mode
def test_zeros_of_both_signs_are_sorted_by_their_places(mode):
    signs = np.array(list(itertools.product([-0.0, 0.0], repeat=5)), "float32")

    def best(values):
        return top_k(values, 5)[1], chunked_top_k(values, 3)[1]

    places, ids = MODES[mode](best)(ops.convert_to_tensor(signs))
    np.testing.assert_array_equal(places, [range(5)] * len(signs))
    np.testing.assert_array_equal(ids, [range(3)] * len(signs))


def level(log_probs, lengths):
    """A length penalty under which all hypotheses score alike."""
    return 0.0 * log_probs - 1.0


@pytest.mark.parametrize("mode", ["eager", "graph", thorough_xla])
def test_of_finished_hypotheses_with_one_score_the_earlier_stays(mode):
    tables = np.full((1, 7, 7), -1e9)
    tables[0, :, [END, 4, 5, 6]] = np.log([[0.3], [0.4], [0.2], [0.1]])
    model = TableModel(tables)

    def run(memory):
        options = {"beam_width": 3, "max_length": 4, "length_penalty": level}
        return beam_search(model.step, {}, memory, **build_arguments(stopping="limit", **options))

    result = arrays(MODES[mode](run)(model.memory()))
    # Each step ends at least one hypothesis, of which the pool keeps the first three.
    assert hypotheses(result, 0) == [(END,), (4, END), (4, 4, END)]
    np.testing.assert_array_equal(result["scores"], [[-1.0] * 3])


def test_within_a_step_the_more_probable_of_equal_scores_comes_first():
    tables = np.full((1, 7, 7), -1e9)
    tables[0, :, [4, 5, 6]] = np.log([[0.5], [0.2], [0.3]])
    result = search(TableModel(tables), beam_width=4, max_length=2, length_penalty=level)
    assert hypotheses(result, 0) == [(4, 4), (4, 6), (6, 4), (4, 5)]


def test_of_equal_scores_the_earlier_group_comes_first():
    tables = np.full((1, 7, 7), -1e9)
    tables[0, :, [4, 5]] = np.log([[0.6], [0.4]])
    options = {"beam_width": 2, "num_groups": 2, "diversity_penalty": 9.0, "max_length": 2}
    result = search(TableModel(tables), length_penalty=level, **options)
    assert hypotheses(result, 0) == [(4, 4), (5, 5)]
