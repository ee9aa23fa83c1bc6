"""Among which candidates a hypothesis that ends counts as finished, against loops in NumPy."""

import numpy as np
import pytest
import search_reference as reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from search_models import END, HashModel, TableModel
from search_runs import (
    RULES,
    assert_compiled_alike,
    assert_found,
    assert_same,
    build_arguments,
    hypotheses,
    search,
)

from keras_attention.search import beam_search

LIMITS = {
    "free": ({}, {}),
    "minimum": ({"min_length": 3}, {"min_length": 3}),
    "banned": ({"suppress_ids": [5]}, {"banned": (5,)}),
    "bigrams": ({"no_repeat_ngram_size": 2}, {"ngram": 2}),
    "prefix": ({"prefix": np.array([[4, 5]] * 5)}, {"prefix": (4, 5)}),
}


def test_the_worked_example():
    tables = np.full((1, 6, 6), -1e9)
    tables[0, :, [END, 4, 5]] = np.log([[0.22], [0.24], [0.54]])
    options = {"beam_width": 2, "max_length": 2}
    top_beam = search(TableModel(tables), **options)
    assert hypotheses(top_beam, 0) == [(5, 5), (5, 4)]
    np.testing.assert_allclose(np.exp(top_beam["log_probs"]), [[0.2916, 0.1296]], rtol=1e-5)
    every = search(TableModel(tables), finished_candidates="all", **options)
    assert hypotheses(every, 0) == [(5, 5), (END,)]
    np.testing.assert_allclose(np.exp(every["log_probs"]), [[0.2916, 0.22]], rtol=1e-5)


CASES = {
    "seed": st.integers(0, 10**6),
    "width": st.integers(1, 3),
    "num_groups": st.integers(1, 3),
    "end_bias": st.floats(-3, 3),
    "rule": st.sampled_from(sorted(RULES)),
    "limit": st.sampled_from(sorted(LIMITS)),
}


def assert_as_the_reference(seed, width, num_groups, end_bias, rule, limit):
    """Eagerly, with and without early stopping, each row against loops."""
    model = HashModel(seed, batch=5, vocabulary=11, end_bias=end_bias)
    (given_, by_rule), (more, limits) = RULES[rule], LIMITS[limit]
    options = {
        "beam_width": width * num_groups,
        "num_groups": num_groups,
        "max_length": 4,
        **given_,
        **more,
    }
    result = search(model, finished_candidates="all", **options)
    late = search(model, finished_candidates="all", stopping="limit", **options)
    assert_same(result, late)
    for row in range(model.batch):
        sizes = (width * num_groups, num_groups, 0.5, 4)
        expected = reference.diverse_search(model, row, *sizes, limits=limits, reach=2, **by_rule)
        assert_found(result, row, expected)


@pytest.mark.thorough
@settings(max_examples=3, deadline=None, derandomize=True)
@given(**CASES)
@example(seed=5, width=2, num_groups=2, end_bias=0.5, rule="both", limit="prefix")
@example(seed=7, width=3, num_groups=1, end_bias=1.0, rule="gnmt negative", limit="minimum")
def test_all_candidates_equal_the_reference_and_exact_stopping_changes_nothing(**drawn):
    assert_as_the_reference(**drawn)


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, derandomize=True)
@given(**CASES)
def test_all_candidates_equal_the_reference_in_many_cases(**drawn):
    assert_as_the_reference(**drawn)


def test_both_rules_differ_where_beams_are_narrow():
    model = HashModel(seed=182, batch=60, vocabulary=11)
    top_beam, every = (
        search(model, beam_width=2, max_length=5, finished_candidates=rule)
        for rule in ("top_beam", "all")
    )
    differs = (top_beam["ids"] != every["ids"]).any(axis=(1, 2))
    assert differs.sum() > 20  # the comparisons above tell the rules apart


@pytest.mark.thorough
def test_eager_graph_and_xla_agree():
    model = HashModel(seed=181, batch=3, vocabulary=13, end_bias=0.5)

    def run(*given, **options):
        return beam_search(
            *given,
            beam_width=3,
            max_length=6,
            **build_arguments(finished_candidates="all", **options),
        )

    assert_compiled_alike(run, model)


@pytest.mark.parametrize(
    "stopping, reason",
    [
        ("first", "would stop on the improbable hypotheses"),
        ("heuristic", "would stop on the improbable hypotheses"),
        ("shrinking", "would remove a place of the beam for each"),
    ],
)
def test_rules_that_stop_on_what_is_finished_refuse_all_candidates(stopping, reason):
    model = HashModel(seed=0, batch=1, vocabulary=7)
    text = rf"'exact' or 'limit' with .*'{stopping}' {reason}.*Received: stopping='{stopping}'"
    with pytest.raises(ValueError, match=text):
        search(model, max_length=3, stopping=stopping, finished_candidates="all")


def test_finished_candidates_must_be_known():
    text = r"BeamOptions expects `finished_candidates` to be one of 'top_beam', 'all'. Received"
    with pytest.raises(ValueError, match=text):
        search(HashModel(seed=0, batch=1, vocabulary=7), max_length=3, finished_candidates="both")
