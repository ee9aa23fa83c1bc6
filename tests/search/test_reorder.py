"""A user's `reorder_cache`: what a search does to its state after every step but the first."""

import numpy as np
import pytest
from keras import ops
from search_models import HashModel
from search_runs import arrays, assert_same, build_arguments, search
from tf_or_skip import tf

from keras_attention._utils.flat_beams import gather_beams
from keras_attention.search import beam_search


def count_reorders(ids, state, memory):
    """Says `5 + times` with most, `times` being how often the state was reordered, else 4."""
    logits = ops.one_hot(5 + state["times"], 11) + 0.5 * ops.one_hot(ops.zeros_like(ids) + 4, 11)
    return 9.0 * logits, state, ops.zeros_like(logits[:, :1])


def once_more(state, parents):
    return {"times": gather_beams(state["times"], parents) + 1}


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("num_groups", [1, 2])
def test_results_come_from_the_users_reorder(compiled, num_groups):
    def run(times):
        given = {
            "beam_width": 2,
            "num_groups": num_groups,
            "max_length": 5,
            "reorder_cache": once_more,
        }
        return beam_search(count_reorders, {"times": times}, None, **build_arguments(**given))

    run = tf.function(run, autograph=False) if compiled else run
    result = arrays(run(ops.zeros((3,), "int32")))
    # The first step repeats the state for the beams; it is reordered after the second.
    assert result["ids"][:, 0].tolist() == [[5, 5, 6, 7, 8]] * 3


def test_reorder_gets_the_state_of_the_beams_and_their_parents():
    model, seen = HashModel(seed=191, batch=3, vocabulary=7, end_bias=-9.0), []

    def reorder_cache(state, parents):
        assert state["hash"].shape == (3 * 4,) and state["nested"][1][0].shape == (12, 2, 3)
        seen.append(ops.convert_to_numpy(parents))
        return gather_beams(state, parents)

    options = {"beam_width": 4, "max_length": 5}
    result = search(model, reorder_cache=reorder_cache, **options)
    assert len(seen) == 4  # of five steps
    assert all(p.shape == (3, 4) and p.dtype == "int32" for p in seen)
    assert {int(p) for p in np.concatenate(seen).ravel()} == set(range(4))
    assert_same(result, search(model, **options))


def test_a_wrong_reorder_shows_in_the_result():
    model = HashModel(seed=192, batch=3, vocabulary=7, end_bias=-9.0)
    options = {"beam_width": 4, "max_length": 5}
    lazy = search(model, reorder_cache=lambda state, parents: state, **options)
    assert (lazy["ids"] != search(model, **options)["ids"]).any()
