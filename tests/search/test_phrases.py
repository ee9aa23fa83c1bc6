"""Must-contain phrases: every hypothesis of a beam search contains all of them."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_models import END, HashModel, TableModel
from search_reference import (
    all_hypotheses,
    choose,
    contains,
    continuations,
    pad,
    score_ids,
)
from search_runs import (
    RULES,
    assert_compiled_alike,
    assert_found,
    assert_same,
    assert_teacher_forced,
    compile_search,
    hypotheses,
    run,
    search,
)
from tf_or_skip import tf

from keras_attention.search import beam_search, greedy_search, sample_search


def count_left(ids, phrases):
    """Returns `left`, the longest rest of a phrase, and the next token of each unmet phrase."""
    unmet = [one for one in phrases if not contains(ids, [one])]
    matches = [
        max(k for k in range(len(one)) if k <= len(ids) and ids[len(ids) - k :] == one[:k])
        for one in unmet
    ]
    rests = [len(one) - k for one, k in zip(unmet, matches, strict=True)]
    left = sum(map(len, unmet)) - max(matches, default=0)
    following = {one[k] for one, k in zip(unmet, matches, strict=True)}
    return left, max(rests, default=0), following


def reference_search(model, row, beam, max_length, phrases, **rule):
    """Dynamic beam allocation with lists and loops. Returns (score, log p, ids), best first."""
    total = sum(map(len, phrases))
    alive, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        found = []
        for parent in alive:
            own = continuations(model, row, [parent], {"ends": (END,)})
            own = [
                (ids, log_p)
                for ids, log_p in own
                if count_left(ids, phrases)[1] <= (0 if ids[-1] == END else max_length - length)
            ]
            growing = [c for c in own if c[0][-1] != END]
            best = max(growing, key=lambda c: c[1], default=None)
            following = count_left(parent[0], phrases)[2]
            found += [(*c, c is best or c[0][-1] in following) for c in own]
        found.sort(key=lambda c: -c[1])
        found = [c[:2] for n, c in enumerate(found) if n < 2 * beam or c[2]]

        def order(candidates, room=max_length - length):
            ranks, keys = {}, {}
            for ids, _ in candidates:
                left = count_left(ids, phrases)[0]
                ranks[left] = ranks.get(left, -1) + 1
                keys[ids] = (left > room, ranks[left] // max(1, beam // (total + 1)), left)
            return sorted(candidates, key=lambda one: keys[one[0]])

        _, ended = choose(order(found), beam, length == max_length)
        alive = order([c for c in found if c[0][-1] != END])[:beam]
        finished += [score_ids(model, row, ids, **rule) for ids, _ in ended]
        finished = sorted(finished, key=lambda one: -one[0])[:beam]
    return finished


# Different numbers of phrases; some overlap themselves or each other.
PHRASES = [[(4, 4, 5), (5, 1)], [], [(1, 4), (5,), (4, 1)]]
# Other constraints: arguments of the search, and of the reference for each batch element.
OTHERS = {
    "none": ({}, [{}] * 3),
    "suppressed": ({"suppress_ids": (6,)}, [{"banned": (6,)}] * 3),
    "ngram": ({"no_repeat_ngram_size": 2}, [{"ngram": 2}] * 3),
    "min length": ({"min_length": 4}, [{"min_length": 4}] * 3),
    "prefix": (
        {"prefix": np.array([[4, 0], [5, 0], [1, 4]])},
        [{"prefix": (4,)}, {"prefix": (5,)}, {"prefix": (1, 4)}],
    ),
}


def enumerate_all(model, row, phrases, max_length, limits=None, **rule):
    """Every sequence that contains the phrases, best first: (score, log p, ids)."""
    found = all_hypotheses(model, row, max_length, limits=limits, **rule)
    return [one for one in found if contains(one[2], phrases)]


@pytest.mark.parametrize("name, rule", [*((name, "none") for name in OTHERS), ("none", "both")])
def test_a_wide_beam_is_the_enumeration_of_sequences_that_contain_the_phrases(name, rule):
    vocabulary = 7 if name == "suppressed" else 6  # then there are 364 sequences
    model = HashModel(seed=71, batch=3, vocabulary=vocabulary, end_bias=0.5)
    options, limits = OTHERS[name]
    options = {**options, **RULES[rule][0], "phrases": pad(PHRASES)}
    result = search(model, beam_width=364, max_length=5, **options)
    for row, phrases in enumerate(PHRASES):
        expected = enumerate_all(model, row, phrases, 5, limits[row], **RULES[rule][1])
        assert_found(result, row, expected)
        assert expected


phrase = st.lists(st.sampled_from([1, 4, 5]), min_size=1, max_size=3).map(tuple)


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_width=st.integers(1, 9),
    vocabulary=st.integers(6, 9),
    max_length=st.integers(6, 8),
    end_bias=st.sampled_from([-2.0, 2.0]),
    phrases=st.lists(st.lists(phrase, max_size=2), min_size=2, max_size=3),
    rule=st.sampled_from(list(RULES)),
)
def test_a_narrow_beam_equals_the_reference_and_contains_all_phrases(
    seed, beam_width, vocabulary, max_length, end_bias, phrases, rule
):
    model = HashModel(seed, batch=len(phrases), vocabulary=vocabulary, end_bias=end_bias)
    options = {"beam_width": beam_width, "max_length": max_length, **RULES[rule][0]}
    result = search(model, phrases=pad(phrases), **options)
    assert_teacher_forced(model, result)
    for row, ones in enumerate(phrases):
        found = hypotheses(result, row)
        assert found and all(contains(ids, ones) for ids in found)
        expected = reference_search(model, row, beam_width, max_length, ones, **RULES[rule][1])
        assert_found(result, row, expected)


@pytest.mark.parametrize(
    "stopping, candidates",
    [("limit", "all"), ("exact", "all"), ("first", "top_beam"), ("heuristic", "top_beam")],
)
def test_every_stopping_rule_and_length_limit_keeps_the_phrases(stopping, candidates):
    model = HashModel(seed=72, batch=3, vocabulary=11, end_bias=1.0)
    limits = [9, 3, 7]
    options = {"beam_width": 4, "max_length": 9, "finished_candidates": candidates}
    options |= {"stopping": stopping, "max_lengths": limits, "length_penalty": 0.7}
    result = search(model, phrases=pad(PHRASES), **options)
    for row, phrases in enumerate(PHRASES):
        found = hypotheses(result, row)
        assert found and all(contains(ids, phrases) for ids in found)
        assert max(map(len, found)) <= limits[row]
    if stopping == "exact":
        late = search(model, phrases=pad(PHRASES), **options | {"stopping": "limit"})
        assert_same(result, late)


def test_a_batch_element_does_not_depend_on_the_phrases_of_others():
    model = HashModel(seed=76, batch=3, vocabulary=11, end_bias=0.5)
    options = {"beam_width": 4, "max_length": 7}
    together = search(model, phrases=pad(PHRASES), **options)
    for order in ([2], [1, 0]):
        apart = search(model.rows(order), phrases=pad(PHRASES)[order], **options)
        assert_same(apart, {name: value[order] for name, value in together.items()})


def test_a_hypothesis_that_breaks_off_a_phrase_may_complete_it_later():
    tables = np.full((1, 7, 7), -1e9)
    tables[0, 2, 4] = tables[0, 5, 6] = tables[0, 6, END] = 0.0
    tables[0, 4, [4, 5]] = np.log([0.75, 0.25])  # 4 4 5 begins again at each further 4
    result = search(TableModel(tables), beam_width=3, max_length=6, phrases=[[[4, 4, 5]]])
    assert hypotheses(result, 0) == [(4, 4, 5, 6, END), (4, 4, 4, 5, 6, END), (4,) * 3 + (4, 5, 6)]
    expected = [[0.75 * 0.25, 0.75**2 * 0.25, 0.75**3 * 0.25]]
    np.testing.assert_allclose(np.exp(result["log_probs"]), expected, rtol=1e-5)


def test_without_phrases_the_search_is_the_plain_one():
    model = HashModel(seed=73, batch=3, vocabulary=13, end_bias=0.5)
    options = {"beam_width": 5, "max_length": 5}
    plain = search(model, **options)
    for shape in ((3, 2, 3), (3, 0, 2)):
        assert_same(search(model, phrases=np.zeros(shape, "int32"), **options), plain)
    tree = search(model, phrases=pad(PHRASES), return_tree=True, **options)
    assert_same(
        {name: value for name, value in tree.items() if not name.startswith("tree")},
        search(model, phrases=pad(PHRASES), **options),
    )


@pytest.mark.thorough
def test_in_a_graph_phrases_may_fit_by_overlap_and_impossible_ones_have_no_result():
    model = HashModel(seed=74, batch=5, vocabulary=6, end_bias=0.5)
    phrases = [[(4, 5), (5, 1), (1, 4)], [(9,)], [(4,), (2,)], [(4, -1)], []]
    function = functools.partial(beam_search, beam_width=364, max_length=5)
    found = compile_search(function, model, False, phrases=pad(phrases))
    result = found(tf.constant(model.offsets), {"phrases": tf.constant(pad(phrases))})
    result = {name: value.numpy() for name, value in result.items()}
    for row in (0, 4):
        expected = enumerate_all(model, row, phrases[row], 5)
        assert_found(result, row, expected)
    assert (4, 5, 1, 4, END) in hypotheses(result, 0)
    assert (result["lengths"][1:4] == -1).all() and (result["ids"][1:4] == 0).all()


@pytest.mark.thorough
def test_eager_graph_and_xla_agree_with_phrases():
    model = HashModel(seed=75, batch=3, vocabulary=13, end_bias=0.5)
    options = {"max_length": 7, "no_repeat_ngram_size": 3, "min_length": 2, "beam_width": 5}
    given = {"phrases": pad(PHRASES), "prefix": np.array([[7], [0], [1]], "int32")}
    assert_compiled_alike(functools.partial(beam_search, **options), model, **given)


BAD = [
    ({"phrases": [[4, 5]] * 3}, "`phrases` of rank 3"),
    ({"phrases": [[[4.0]]] * 3}, "`phrases` to be int ids"),
    ({"phrases": pad(PHRASES[:2])}, r"one entry for each of the 3 batch elements"),
    (
        {"phrases": pad([[], [(4,), (4, END)], []])},
        r"without BOS, EOS.*phrases\[1, 1, 1\]=3",
    ),
    ({"phrases": pad([[], [], [(2,)]])}, r"without BOS.*phrases\[2, 0, 0\]=2"),
    ({"phrases": pad([[(4, 0, 5)], [], []])}, r"padded after.*phrases\[0, 0, 1\]=0"),
    ({"phrases": pad([[], [], [(4, -5)]])}, r"negative ids.*phrases\[2, 0, 1\]=-5"),
    (
        {"phrases": pad([[(5,)], [], []]), "suppress_ids": [5]},
        r"suppress_ids.*\[0, 0, 0\]=5",
    ),
    ({"phrases": pad([[], [(4, 9)], []])}, r"with ids below 7.*phrases\[1, 0, 1\]=9"),
    ({"phrases": pad([[], [], [(4, 4), (5, 5, 5)]])}, "5 phrase tokens for 4.*element 2"),
    (
        {"phrases": pad([[(4, 4)], [(5, 5, 5)], []]), "max_lengths": [2, 2, 4]},
        "3 phrase tokens for 2 positions in batch element 1",
    ),
    (
        {
            "phrases": pad([[(4, 5, 6)], [], [(5, 5, 6)]]),
            "prefix": np.array([[1, 4], [4, 0], [1, 4]]),
        },
        "3 phrase tokens for 2 positions in batch element 2",
    ),
    ({"phrases": pad(PHRASES), "num_groups": 2}, "expects num_groups=1.*num_groups=2"),
    ({"phrases": pad(PHRASES), "stopping": "shrinking"}, "other than 'shrinking'"),
]


@pytest.mark.parametrize("options, text", BAD, ids=[text[:24] for _, text in BAD])
def test_phrases_must_fit(options, text):
    model = HashModel(seed=0, batch=3, vocabulary=7)
    with pytest.raises(ValueError, match=f"beam_search .*{text}"):
        search(model, max_length=4, beam_width=4, **options)


def test_other_searches_refuse_phrases_and_name_the_one_that_takes_them():
    model = HashModel(seed=0, batch=3, vocabulary=7)
    sample = functools.partial(sample_search, seed=np.array([3, 5, 7]))
    for name, function in (("greedy", greedy_search), ("sample", sample)):
        with pytest.raises(ValueError, match=f"{name}_search cannot.*use `beam_search`"):
            run(function, model, max_length=9, phrases=pad(PHRASES))
        run(function, model, max_length=4, phrases=np.zeros((3, 0, 2), "int32"))
