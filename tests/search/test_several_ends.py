"""Several ids that each end a sequence, in every search, in scoring and in `check_beam_search`."""

import functools

import numpy as np
import pytest
from keras import ops
from search_models import HashModel, TableModel
from search_reference import all_hypotheses, diverse_search, list_permitted, score_ids
from search_reference import beam_search as reference_search
from search_runs import (
    RULES,
    arrays,
    assert_compiled_alike,
    assert_found,
    assert_same,
    build_arguments,
    hypotheses,
    run,
    search,
)
from tf_or_skip import tf

from keras_attention.search import (
    SpecialIds,
    _beam_search_invariants,
    beam_search,
    check_beam_search,
    greedy_search,
    sample_search,
    score_sequences,
)

pytestmark = pytest.mark.thorough

ENDS = (3, 5, 6)
LIMITS = {
    "free": ({}, {}),
    "minimum": ({"min_length": 3}, {"min_length": 3}),
    "banned": ({"suppress_ids": [5]}, {"banned": (5,)}),
    "prefix": (
        {"prefix": np.array([[4, 1]] * 3), "min_length": 4},
        {"prefix": (4, 1), "min_length": 4},
    ),
}
each_limit = pytest.mark.parametrize("limit", list(LIMITS))


def make_model(seed, vocabulary=11):
    """A model that often ends, in any of the ways."""
    model = HashModel(seed=seed, batch=3, vocabulary=vocabulary)
    model.logits[:, ENDS] += 0.7
    return model


@pytest.mark.parametrize("ends", [ENDS, [6, 2, 3], {5}])
def test_a_wide_beam_finds_every_sequence_in_order(ends):
    model = make_model(31, vocabulary=7)
    result = search(model, beam_width=127, max_length=3, end_id=ends, **RULES["both"][0])
    for row in range(3):
        expected = all_hypotheses(model, row, 3, limits={"ends": tuple(ends)}, **RULES["both"][1])
        assert_found(result, row, expected[:127])


@each_limit
@pytest.mark.parametrize("width, num_groups", [(1, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize("stopping", ["exact", "shrinking"])
def test_narrow_beams_equal_the_reference(limit, width, num_groups, stopping):
    model, (options, limits) = make_model(32), LIMITS[limit]
    shrinking, limits = stopping == "shrinking", {**limits, "ends": ENDS}
    options = {"max_length": 4, "end_id": ENDS, "stopping": stopping, **options}
    result = search(model, beam_width=width * num_groups, num_groups=num_groups, **options)
    for row in range(3):
        if num_groups == 1:
            options = {"limits": limits, "shrinking": shrinking}
            expected = reference_search(model, row, width, 4, **options)
        else:
            groups = (width * num_groups, num_groups, 0.5)
            expected = diverse_search(model, row, *groups, 4, limits, shrinking)
        assert_found(result, row, expected)


@pytest.mark.parametrize("num_groups", [1, 2])
def test_all_finished_candidates_are_those_of_the_reference(num_groups):
    model = make_model(33)
    options = {"max_length": 4, "end_id": ENDS, "finished_candidates": "all"}
    result = search(model, beam_width=4, num_groups=num_groups, **options)
    for row in range(3):
        limits = {"ends": ENDS}
        expected = diverse_search(model, row, 4, num_groups, 0.5, 4, limits, reach=2)
        assert_found(result, row, expected)


def test_the_beam_stays_full_where_all_its_hypotheses_may_end_in_every_way():
    # Each hypothesis ends in three ways that are more probable than the one way to grow.
    tables = np.full((1, 7, 7), -1e9)
    tables[0, :, [3, 5, 6]] = np.log([[0.3], [0.29], [0.28]])
    tables[0, :, [1, 4]] = np.log([[0.07], [0.06]])
    result = search(TableModel(tables), beam_width=2, max_length=2, end_id=ENDS, stopping="limit")
    assert hypotheses(result, 0) == [(3,), (5,)]
    forced = search(TableModel(tables), beam_width=2, max_length=2, end_id=ENDS, min_length=2)
    assert hypotheses(forced, 0) == [(1, 3), (1, 5)]


@each_limit
def test_greedy_search_and_samples_stop_at_any_end(limit):
    model, (options, limits) = make_model(34), LIMITS[limit]
    options = {"max_length": 7, "end_id": ENDS, **options}
    greedy = run(greedy_search, model, **options)
    for row in range(3):
        ids = []
        while len(ids) < 7 and not {*ENDS} & {*ids}:
            log_probs, _ = model.reference(row, ids)
            ids.append(
                max(list_permitted(ids, 11, ends=ENDS, **limits), key=lambda t: log_probs[t])
            )
        assert greedy["ids"][row].tolist() == ids + [0] * (7 - len(ids))
        np.testing.assert_allclose(
            greedy["log_probs"][row], score_ids(model, row, ids)[1], rtol=1e-5
        )
    beam = search(model, beam_width=1, **options)
    assert_same({**greedy, "scores": beam["scores"][:, 0]}, {k: v[:, 0] for k, v in beam.items()})
    hot = run(sample_search, model, seed=np.array([3, 5, 7]), temperature=3.0, **options)
    for ids, length in zip(hot["ids"].tolist(), hot["lengths"], strict=True):
        assert all(
            ids[i] in list_permitted(ids[:i], 11, ends=ENDS, **limits) for i in range(length)
        )
        assert not {*ENDS} & {*ids[: length - 1]} and (length == 7 or ids[length - 1] in ENDS)


def test_scores_are_those_of_the_search_up_to_the_first_end():
    model = make_model(35)
    result = search(model, beam_width=3, max_length=5, end_id=ENDS)
    assert {*ENDS} <= {ids[-1] for row in range(3) for ids in hypotheses(result, row)}
    for place in range(3):
        here = {name: value[:, place] for name, value in result.items() if name != "scores"}
        ids = np.where(here["ids"] == 0, 4, here["ids"])  # what follows the end is ignored
        arguments = (model.step, model.state(), model.memory(), ops.convert_to_tensor(ids))
        found = arrays(score_sequences(*arguments, special_ids=SpecialIds(end_id=ENDS)))
        found["ids"] = here["ids"]
        assert_same(found, here)


@pytest.mark.thorough
def test_check_beam_search_knows_all_ends():
    model = make_model(36, vocabulary=7)
    arguments = (model.step, model.state(), model.memory())
    assert check_beam_search(*arguments, special_ids=SpecialIds(end_id=ENDS), max_length=3) < 1e-5


def test_check_beam_search_finds_other_ends():
    model = make_model(36, vocabulary=7)
    found = search(model, beam_width=3, max_length=4, end_id=ENDS)
    invariants = _beam_search_invariants.BeamSearchInvariants(
        model.step, SpecialIds(), 1e-4, max_length=4
    )
    with pytest.raises(AssertionError, match="does not end with EOS"):
        invariants.check_well_formed(found)


@pytest.mark.thorough
def test_eager_graph_and_xla_agree():
    model = make_model(37)
    options = {"max_length": 5, "min_length": 2, "end_id": ENDS}
    assert_compiled_alike(functools.partial(beam_search, beam_width=3, **options), model)
    assert_compiled_alike(functools.partial(greedy_search, **options), model)
    seed = np.array([3, 5, 7], "int32")
    assert_compiled_alike(functools.partial(sample_search, **options), model, seed=seed)


def test_a_compiled_prefix_is_cut_before_any_end():
    model = make_model(38)

    @tf.function(autograph=False)
    def search_prefixes(prefix):
        arguments = build_arguments(end_id=ENDS, prefix=prefix)
        return greedy_search(model.step, model.state(), model.memory(), max_length=5, **arguments)

    cut = arrays(search_prefixes(tf.constant([[4, 5], [6, 4], [4, 4]])))
    right = run(greedy_search, model, max_length=5, end_id=ENDS, prefix=[[4, 0], [0, 0], [4, 4]])
    assert_same(cut, right)
    with pytest.raises(ValueError, match=r"without EOS.*prefix\[0, 1\]=6, end_id=\(3, 5, 6\)"):
        run(greedy_search, model, max_length=5, end_id=ENDS, prefix=[[4, 6]] * 3)


def test_one_end_is_one_end_however_it_is_written():
    for one in ([3], (3, 3), {3}, np.array([3]), range(3, 4), np.int64(3)):
        assert SpecialIds(end_id=one) == SpecialIds()
        assert SpecialIds(end_id=one).end_ids == (3,)
    assert hash(SpecialIds(end_id=[6, 3])) == hash(SpecialIds(end_id=(3, 6)))


@pytest.mark.parametrize(
    ("end_id", "text"),
    [
        ([], r"at least one id as `end_id`. Received: end_id=\[\]"),
        ([3, -1], r"`end_id` to be ids, ints of at least 0.*end_id=\[3, -1\]"),
        ([3, 4.0], r"`end_id` to be ids.*end_id=\[3, 4.0\]"),
        ([3, 0], r"`end_id` and `pad_id` to differ.*end_id=\(0, 3\), pad_id=0"),
        ("34", "`end_id` to be an int of at least 0.*end_id='34'"),
    ],
)
def test_ends_must_be_ids(end_id, text):
    with pytest.raises(ValueError, match=f"SpecialIds expects.*{text}"):
        SpecialIds(end_id=end_id)


@pytest.mark.parametrize("function", [greedy_search, beam_search])
def test_ends_must_be_in_the_vocabulary(function):
    with pytest.raises(ValueError, match=r"largest special id.*end_id=\(3, 11\)"):
        run(function, make_model(39), max_length=3, end_id=[3, 11])
