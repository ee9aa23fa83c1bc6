"""Diverse beam search: groups that avoid each other's tokens."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from search_models import END, START, HashModel, TableModel
from search_reference import diverse_search
from search_runs import (
    RULES,
    assert_found,
    assert_same,
    assert_teacher_forced,
    hypotheses,
    search,
)


@pytest.mark.parametrize("diversity_penalty", [0.0, 0.5, 30.0])
def test_one_group_is_the_plain_search(diversity_penalty):
    model = HashModel(seed=71, batch=3, vocabulary=9, end_bias=0.5)
    plain = search(model, beam_width=4, max_length=5)
    assert_same(
        search(
            model, beam_width=4, max_length=5, num_groups=1, diversity_penalty=diversity_penalty
        ),
        plain,
    )


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_groups=st.integers(1, 4),
    width=st.integers(1, 3),
    vocabulary=st.integers(5, 11),
    max_length=st.integers(1, 6),
    diversity_penalty=st.sampled_from([0.0, 0.3, 2.0, 1e6]),
    end_bias=st.sampled_from([-6.0, 0.5]),
    prefix=st.lists(st.sampled_from([1, 4]), max_size=2),
    rule=st.sampled_from(list(RULES)),
    stopping=st.sampled_from(["exact", "limit", "shrinking"]),
)
@example(0, 3, 3, 6, 3, 1e6, -6.0, [], "none", "exact")  # its digits are needed
@example(0, 3, 2, 6, 2, 2.0, -6.0, [], "none", "shrinking")  # taken again at the limit
def test_groups_equal_the_reference_with_loops(
    seed,
    num_groups,
    width,
    vocabulary,
    max_length,
    diversity_penalty,
    end_bias,
    prefix,
    rule,
    stopping,
):
    model = HashModel(seed, batch=2, vocabulary=vocabulary, end_bias=end_bias)
    prefix = prefix[:max_length]
    beam_width = num_groups * width
    result = search(
        model,
        beam_width=beam_width,
        num_groups=num_groups,
        diversity_penalty=diversity_penalty,
        max_length=max_length,
        prefix=np.array([prefix, prefix]).reshape(2, -1).astype("int32"),
        stopping=stopping,
        **RULES[rule][0],
    )
    for row in range(2):
        options = {"limits": {"prefix": prefix}, **RULES[rule][1]}
        options["shrinking"] = stopping == "shrinking"
        expected = diverse_search(
            model, row, beam_width, num_groups, diversity_penalty, max_length, **options
        )
        assert_found(result, row, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("end_bias", [-6.0, 0.5, 3.0])
@pytest.mark.parametrize("diversity_penalty", [0.0, 0.5])
def test_groups_that_agree_find_as_many_sequences(diversity_penalty, end_bias):
    model = HashModel(seed=72, batch=7, vocabulary=9, end_bias=end_bias)
    options = {"diversity_penalty": diversity_penalty, "max_length": 5, "stopping": "limit"}
    result = search(model, beam_width=6, num_groups=3, **options)
    single = search(model, beam_width=2, **options)
    assert (result["lengths"] > 0).all()
    assert_teacher_forced(model, result)
    for row in range(7):
        assert len(set(hypotheses(result, row))) == 6
        assert set(hypotheses(single, row)) <= set(hypotheses(result, row))  # the first group's


@pytest.mark.parametrize("stopping", ["exact", "limit", "shrinking"])
def test_at_the_limit_groups_find_what_others_have_not(stopping):
    model = HashModel(seed=75, batch=3, vocabulary=9, end_bias=-6.0)
    options = {"num_groups": 2, "diversity_penalty": 0.5, "stopping": stopping}
    result = search(model, beam_width=4, max_length=1, **options)
    assert (result["lengths"] == 1).all()
    for row in range(3):
        assert len(set(hypotheses(result, row))) == 4


def test_groups_leave_fillers_where_no_more_sequences_exist():
    model = HashModel(seed=72, batch=2, vocabulary=9, end_bias=0.5)
    prefix = np.array([[4, 5, 4], [5, 6, 7]], "int32")
    result = search(model, beam_width=4, num_groups=2, max_length=3, prefix=prefix)
    np.testing.assert_array_equal(result["lengths"], [[3, -1, -1, -1]] * 2)
    assert (result["ids"][:, 1:] == 0).all() and (result["alignments"][:, 1:] == 0).all()
    assert (result["scores"][:, 1:] == -1e9).all() and (result["log_probs"][:, 1:] == -1e9).all()


def test_scores_are_those_of_the_model_and_sorted_over_the_groups():
    model = HashModel(seed=73, batch=3, vocabulary=11, end_bias=-0.5)
    result = search(
        model, beam_width=6, num_groups=3, diversity_penalty=3.0, max_length=6, **RULES["both"][0]
    )
    assert_teacher_forced(model, result)
    assert (np.diff(result["scores"]) <= 0).all()
    for row in range(3):
        assert len(set(hypotheses(result, row))) == len(hypotheses(result, row))


def test_a_second_group_says_something_else():
    # "a" is likely, "b" half as likely; both end. Without diversity both groups say a.
    a, b = 4, 5
    tables = np.full((1, 6, 6), -1e9)
    tables[0, START, [a, b]] = np.log([2 / 3, 1 / 3])
    tables[0, [a, b], END] = 0.0
    table = TableModel(tables)
    same = search(table, beam_width=2, num_groups=2, diversity_penalty=0.69, max_length=3)
    other = search(
        table, beam_width=2, num_groups=2, diversity_penalty=0.70, max_length=3
    )  # above log 2
    assert hypotheses(same, 0) == [(a, END)]
    assert hypotheses(other, 0) == [(a, END), (b, END)]
    # The EOS token was taken twice and cost nothing.
    np.testing.assert_allclose(np.exp(other["log_probs"]), [[2 / 3, 1 / 3]], rtol=1e-6)


@pytest.mark.thorough
def test_a_row_of_groups_does_not_depend_on_its_batch_mates():
    model = HashModel(seed=74, batch=3, vocabulary=9, end_bias=0.5)
    options = {"beam_width": 4, "num_groups": 2, "diversity_penalty": 1.0, "max_length": 6}
    together = search(model, **options)
    for order in ([1], [2, 0, 2]):
        apart = search(model.rows(order), **options)
        assert_same(apart, {name: value[order] for name, value in together.items()})


@pytest.mark.parametrize(
    "options, text",
    [
        (
            {"num_groups": 3},
            "beam_search expects `num_groups` to divide `beam_width`. "
            "Received: num_groups=3, beam_width=4",
        ),
        (
            {"num_groups": 0},
            "BeamOptions expects `num_groups` to be a positive int. "
            "Use one that divides.*num_groups=0",
        ),
        (
            {"num_groups": 2, "diversity_penalty": -0.5},
            r"BeamOptions expects `diversity_penalty` to be a number in \[0, 1000000.*=-0.5",
        ),
    ],
)
def test_groups_must_fit(options, text):
    with pytest.raises(ValueError, match=text):
        search(HashModel(seed=0, batch=2, vocabulary=7), beam_width=4, max_length=3, **options)
