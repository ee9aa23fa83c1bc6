"""When a row stops: which rules are exact, and what the others return."""

import numpy as np
import pytest
from keras import ops
from search_models import END, START, HashModel, TableModel
from search_reference import beam_search as reference_search
from search_reference import score
from search_runs import RULES, assert_found, assert_same, build_arguments, hypotheses, run, search

from keras_attention.search import (
    AverageLengthPenalty,
    GNMTLengthPenalty,
    beam_search,
    greedy_search,
)

each_rule = pytest.mark.parametrize("rule", list(RULES))
EXACT_NOW = ("none", "gnmt zero", "gnmt negative", "coverage")  # where "heuristic" is exact


def first(beam, **rule):
    return lambda finished, alive, length: len(finished) >= beam


def heuristic(beam, beta=0.0, **rule):
    def stop(finished, alive, length):
        best = score(alive[0][1], np.ones(1), length, **rule)  # coverage at its best
        return len(finished) >= beam and finished[-1][0] >= best

    return stop


@each_rule
@pytest.mark.parametrize("name, stop", [("first", first), ("heuristic", heuristic)])
def test_named_rules_equal_the_reference(rule, name, stop):
    options, reference = RULES[rule]
    model = HashModel(seed=80, batch=11, vocabulary=9, end_bias=1.0)
    result = search(model, beam_width=3, max_length=7, stopping=name, **options)
    for row in range(11):
        expected = reference_search(model, row, 3, 7, stop=stop(3, **reference), **reference)
        assert_found(result, row, expected)


@each_rule
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_shrinking_beam_equals_the_reference(rule, width):
    options, reference = RULES[rule]
    model = HashModel(seed=82, batch=11, vocabulary=9, end_bias=1.0)
    result = search(model, beam_width=width, max_length=7, stopping="shrinking", **options)
    for row in range(11):
        expected = reference_search(model, row, width, 7, shrinking=True, **reference)
        assert_found(result, row, expected)


@each_rule
def test_a_shrinking_beam_of_one_is_greedy_under_every_penalty(rule):
    model = HashModel(seed=83, batch=11, vocabulary=9, end_bias=0.0)
    options = {"beam_width": 1, "max_length": 7, **RULES[rule][0]}
    found = search(model, stopping="shrinking", **options)
    greedy = run(greedy_search, model, max_length=7)
    np.testing.assert_array_equal(found["ids"][:, 0], greedy["ids"])
    np.testing.assert_allclose(found["log_probs"][:, 0], greedy["log_probs"], rtol=1e-5)


def test_a_shrinking_beam_stops_when_it_is_empty():
    calls = []
    model = HashModel(seed=84, batch=3, vocabulary=9, end_bias=9.0)

    def step(ids, state, memory):
        calls.append(len(ids))
        return model.step(ids, state, memory)

    options = {"beam_width": 2, "max_length": 50, "stopping": "shrinking"}
    found = beam_search(step, model.state(), model.memory(), **build_arguments(**options))
    assert (np.array(found["lengths"]) < 5).all() and len(calls) < 8


@pytest.mark.parametrize("rule", EXACT_NOW)
def test_the_heuristic_rule_is_exact_where_the_guide_says_so(rule):
    model = HashModel(seed=81, batch=11, vocabulary=9, end_bias=1.0)
    options = {"beam_width": 3, "max_length": 8, **RULES[rule][0]}
    early = search(model, stopping="heuristic", **options)
    assert_same(early, search(model, stopping="limit", **options))


@pytest.mark.parametrize("penalty", [GNMTLengthPenalty(2.0), AverageLengthPenalty()])
def test_only_the_exact_rule_waits_for_a_longer_and_better_hypothesis(penalty):
    # The end at once has .55; six words and more, almost certain, have .45 and a better mean.
    tables = np.full((1, 7, 7), -1e9)
    tables[0, START, [END, 4]] = np.log([0.55, 0.45])
    tables[0, 4, [4, END]] = np.log([0.999, 0.001])
    options = {"beam_width": 1, "max_length": 7, "length_penalty": penalty}
    for stopping in ("exact", "limit"):
        result = search(TableModel(tables), stopping=stopping, **options)
        assert hypotheses(result, 0) == [(4,) * 7]
    for stopping in ("heuristic", "first"):
        result = search(TableModel(tables), stopping=stopping, **options)
        assert hypotheses(result, 0) == [(END,)]


@pytest.mark.parametrize("stopping", ["exact", "limit", "heuristic"])
def test_a_negative_alpha_is_bounded_at_the_soonest_end(stopping):
    # Two are finished after two steps, with .3 and .2. What lives has .475 and ends next: were it
    # as long as the limit it would lose.
    tables = np.full((1, 7, 7), -1e9)
    tables[0, START, [4, END, 5]] = np.log([0.5, 0.3, 0.2])
    tables[0, 4, [6, END]] = np.log([0.95, 0.05])
    tables[0, [5, 6], END] = 0.0
    options = {"beam_width": 2, "max_length": 12, "length_penalty": GNMTLengthPenalty(-1.1)}
    result = search(TableModel(tables), stopping=stopping, **options)
    assert hypotheses(result, 0) == [(4, 6, END), (END,)]


def test_rules_save_steps_in_order():
    model = HashModel(seed=82, batch=3, vocabulary=9, end_bias=1.0)
    calls = {"first": 0, "heuristic": 0, "exact": 0, "limit": 0}
    for stopping in calls:

        def step(ids, state, memory, stopping=stopping):
            calls[stopping] += 1
            return model.step(ids, state, memory)

        options = {"beam_width": 2, "max_length": 12, "length_penalty": GNMTLengthPenalty(0.9)}
        beam_search(
            step, model.state(), model.memory(), **build_arguments(stopping=stopping, **options)
        )
    assert calls["first"] <= calls["heuristic"] <= calls["exact"] <= calls["limit"] == 12
    assert calls["first"] < calls["exact"]


def test_heuristic_needs_no_bound_of_the_penalty():
    def mild(log_probs, lengths):
        return log_probs + 0.01 * ops.cast(lengths, "float32")

    model = HashModel(seed=83, batch=2, vocabulary=7, end_bias=2.0)
    calls = []

    def step(ids, state, memory):
        calls.append(1)
        return model.step(ids, state, memory)

    options = {"beam_width": 2, "max_length": 12, "length_penalty": mild}
    beam_search(
        step, model.state(), model.memory(), **build_arguments(stopping="heuristic", **options)
    )
    assert len(calls) < 12


def test_a_row_stops_by_itself_under_every_rule():
    model = HashModel(seed=84, batch=5, vocabulary=9, end_bias=1.0)
    for stopping in ("first", "heuristic"):
        options = {"beam_width": 3, "max_length": 7, "stopping": stopping, **RULES["average"][0]}
        together = search(model, **options)
        for order in ([3], [2, 2, 1, 3, 0, 4]):
            apart = search(model.rows(order), **options)
            assert_same(apart, {name: value[order] for name, value in together.items()})
