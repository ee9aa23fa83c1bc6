"""Banned ids, n-grams that may not repeat, and forced prefixes, in every search."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from search_models import END, HashModel, TableModel
from search_reference import all_hypotheses, list_permitted, score_ids
from search_reference import beam_search as reference_search
from search_runs import (
    RULES,
    arrays,
    assert_compiled_alike,
    assert_found,
    assert_same,
    assert_teacher_forced,
    call,
    hypotheses,
    run,
    search,
)
from tf_or_skip import tf

from keras_attention.search import (
    Constraints,
    beam_search,
    greedy_search,
    sample_search,
)
from keras_attention.search._token_rules import find_repeated_ngrams

PREFIX = [[5, 4, 1], [4, 0, 0], [0, 0, 0]]  # of 3, 1 and 0 ids
PREFIXES = [(5, 4, 1), (4,), ()]
# Each set of constraints: arguments of the searches, and of the reference for each of 3 rows.
LIMITS = {
    "banned": ({"suppress_ids": [4, 6]}, [{"banned": (4, 6)}] * 3),
    "ngram 1": ({"no_repeat_ngram_size": 1}, [{"ngram": 1}] * 3),
    "ngram 2": ({"no_repeat_ngram_size": 2}, [{"ngram": 2}] * 3),
    "ngram 3": ({"no_repeat_ngram_size": 3}, [{"ngram": 3}] * 3),
    "prefix": ({"prefix": np.array(PREFIX)}, [{"prefix": p} for p in PREFIXES]),
    "all": (
        {
            "prefix": np.array(PREFIX),
            "no_repeat_ngram_size": 2,
            "suppress_ids": (5,),
            "min_length": 3,
        },
        [{"prefix": p, "ngram": 2, "banned": (5,), "min_length": 3} for p in PREFIXES],
    ),
}
each_limit = pytest.mark.parametrize("name", list(LIMITS))
sample_one = functools.partial(sample_search, seed=np.array([3, 5, 7]), temperature=2.0)
sample_cold = functools.partial(sample_search, seed=np.array([3, 5, 7]), temperature=0.0)


@pytest.mark.parametrize("name, rule", [*((name, "none") for name in LIMITS), ("all", "both")])
def test_a_wide_beam_finds_every_permitted_sequence_in_order(name, rule):
    model = HashModel(seed=61, batch=3, vocabulary=7, end_bias=0.5)
    options, limits = LIMITS[name]
    result = search(model, beam_width=127, max_length=4, **options, **RULES[rule][0])
    for row in range(3):
        expected = all_hypotheses(model, row, 4, limits=limits[row], **RULES[rule][1])
        assert_found(result, row, expected[:127])


@each_limit
def test_a_narrow_beam_equals_the_reference_and_teacher_forcing(name):
    model = HashModel(seed=62, batch=3, vocabulary=11, end_bias=-1.0)
    options, limits = LIMITS[name]
    result = search(model, beam_width=3, max_length=7, **options)
    for row in range(3):
        assert_found(result, row, reference_search(model, row, 3, 7, limits=limits[row]))
    assert_teacher_forced(model, result)


@each_limit
def test_greedy_is_a_beam_of_one_and_sampling_without_temperature(name):
    model = HashModel(seed=63, batch=3, vocabulary=13, end_bias=-1.0)
    options, limits = LIMITS[name]
    greedy = run(greedy_search, model, max_length=7, **options)
    beam = search(model, beam_width=1, max_length=7, **options)
    del beam["scores"]
    assert_same(greedy, {key: value[:, 0] for key, value in beam.items()})
    for row in range(3):  # and is what the rule says
        ids = []
        while len(ids) < 7 and END not in ids:
            log_probs, _ = model.reference(row, ids)
            ids.append(max(list_permitted(ids, 13, **limits[row]), key=lambda t: log_probs[t]))
        assert greedy["ids"][row].tolist() == ids + [0] * (7 - len(ids))
        np.testing.assert_allclose(
            greedy["log_probs"][row], score_ids(model, row, ids)[1], rtol=1e-5
        )
    cold = run(sample_cold, model, max_length=7, **options)
    assert (cold.pop("sample_log_probs") == 0).all()
    assert_same(greedy, cold)


@each_limit
def test_samples_keep_the_constraints(name):
    model = HashModel(seed=64, batch=3, vocabulary=7, end_bias=-1.0)
    options, limits = LIMITS[name]
    result = run(sample_one, model, max_length=7, **options)
    assert_teacher_forced(model, result)
    for row, length in enumerate(result["lengths"]):
        ids = tuple(result["ids"][row][:length].tolist())
        assert all(ids[i] in list_permitted(ids[:i], 7, **limits[row]) for i in range(length))
        assert length == 7 or ids[-1] == END or not list_permitted(ids, 7, **limits[row])


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_width=st.integers(1, 5),
    vocabulary=st.integers(5, 9),
    max_length=st.integers(1, 7),
    end_bias=st.sampled_from([-6.0, 0.5]),
    banned=st.sets(st.integers(0, 4), max_size=2),
    ngram=st.none() | st.integers(1, 4),
    prefixes=st.lists(st.lists(st.sampled_from([1, 2, 4]), max_size=3), min_size=2, max_size=2),
    min_length=st.integers(0, 4),
    rule=st.sampled_from(list(RULES)),
    stopping=st.sampled_from(["exact", "limit"]),
)
def test_constrained_search_equals_reference_with_loops(
    seed,
    beam_width,
    vocabulary,
    max_length,
    end_bias,
    banned,
    ngram,
    prefixes,
    min_length,
    rule,
    stopping,
):
    model = HashModel(seed, batch=2, vocabulary=vocabulary, end_bias=end_bias)
    prefixes = [prefix[:max_length] for prefix in prefixes]
    min_length = min(min_length, max_length)
    result = search(
        model,
        beam_width=beam_width,
        max_length=max_length,
        min_length=min_length,
        suppress_ids=banned,
        no_repeat_ngram_size=ngram,
        prefix=np.array([prefix + [0] * (3 - len(prefix)) for prefix in prefixes]),
        stopping=stopping,
        **RULES[rule][0],
    )
    for row, prefix in enumerate(prefixes):
        limits = {"banned": banned, "ngram": ngram, "prefix": prefix, "min_length": min_length}
        assert_found(
            result,
            row,
            reference_search(model, row, beam_width, max_length, limits=limits, **RULES[rule][1]),
        )


def test_repetitions_are_those_of_the_definition():
    draw = np.random.default_rng(0)
    for ngram in (1, 2, 3, 7):
        seen = draw.integers(4, 6, size=(5, 7)).astype("int32")
        for time in range(8):
            found = ops.convert_to_numpy(
                find_repeated_ngrams(
                    ops.convert_to_tensor(seen), ops.convert_to_tensor(time), ngram
                )
            )
            for row in range(5):
                tokens = seen[row, :time].tolist()
                forbidden = set(range(1, 9)) - set(list_permitted(tokens, 9, ngram=ngram)) - {2}
                assert set(found[row].tolist()) - {-1} == forbidden


def test_no_ngram_of_the_prefix_comes_again():
    tables = np.full((1, 7, 7), -1e9)
    tables[0, 4, [5, 6]] = np.log([0.9, 0.1])
    tables[0, [2, 5, 6], 4] = 0.0
    # After 4 5 comes 4, then not 5 again but 6, then 4, and then neither 5 nor 6.
    options = {"prefix": np.array([[4, 5]]), "no_repeat_ngram_size": 2}
    for length, ids in ((5, [4, 5, 4, 6, 4]), (7, [4, 5, 4, 6, 4, 0, 0])):
        result = run(greedy_search, TableModel(tables), max_length=length, **options)
        assert result["ids"].tolist() == [ids]
        np.testing.assert_allclose(np.exp(result["log_probs"]), [0.9 * 0.1], rtol=1e-5)
    result = search(TableModel(tables), beam_width=2, max_length=5, **options)
    assert hypotheses(result, 0) == [(4, 5, 4, 6, 4)]


def test_a_row_that_may_go_on_with_nothing_stops_there():
    model = HashModel(seed=65, batch=3, vocabulary=6)
    options = {"suppress_ids": [1, 4, END], "no_repeat_ngram_size": 1, "max_length": 5}
    for function in (greedy_search, sample_one):
        result = run(function, model, **options)
        assert result["ids"].tolist() == [[5, 0, 0, 0, 0]] * 3
        np.testing.assert_array_equal(result["lengths"], [1, 1, 1])
        assert_teacher_forced(model, result)
        assert (result["alignments"][:, 1:] == 0).all()
        nothing = run(function, model, **{**options, "suppress_ids": [1, 3, 4, 5]})
        assert (nothing["lengths"] == 0).all() and (nothing["log_probs"] == 0).all()
    padding = search(model, beam_width=2, **options)
    assert (padding["lengths"] == -1).all() and (padding["ids"] == 0).all()


def test_prefix_lengths_say_how_much_is_forced():
    model = HashModel(seed=66, batch=3, vocabulary=7, end_bias=-1.0)
    junk = np.array([[5, 4, 1], [4, 6, 6], [6, 6, 6]])
    by_padding = search(model, beam_width=3, max_length=6, prefix=np.array(PREFIX))
    by_length = search(
        model, beam_width=3, max_length=6, prefix=junk, prefix_lengths=np.array([3, 1, 0])
    )
    assert_same(by_padding, by_length)
    nothing = search(model, beam_width=3, max_length=6, prefix=np.zeros((3, 0), "int32"))
    assert_same(nothing, search(model, beam_width=3, max_length=6))


def test_a_limit_shorter_than_the_prefix_cuts_it():
    model = HashModel(seed=67, batch=3, vocabulary=7)
    result = search(
        model, beam_width=2, max_length=5, max_lengths=[2, 1, 5], prefix=np.array(PREFIX)
    )
    assert hypotheses(result, 0) == [(5, 4)]
    assert hypotheses(result, 1) == [(4,)]
    full = search(model, beam_width=2, max_length=3, prefix=np.array(PREFIX))
    assert hypotheses(full, 0) == [(5, 4, 1)]  # the limit is the prefix: nothing else is said
    assert_teacher_forced(model, result)


FORBIDDING = np.zeros((3, 6, 6))
FORBIDDING[0, 5, 4] = -1e9  # in the first row 4 cannot follow 5
FORBIDDING[2, 1] = np.nan  # and in the last one nothing can follow 1
SEARCHES = {
    "beam_search": functools.partial(beam_search, beam_width=2),
    "num_groups": functools.partial(beam_search, beam_width=4, num_groups=2),
    "greedy_search": greedy_search,
    "sample_search": functools.partial(sample_search, seed=np.array([7, 11, 13])),
}


@pytest.mark.parametrize("name", list(SEARCHES))
@pytest.mark.parametrize(
    "prefix, limits, text",
    [
        ([[5, 4], [5, 4], [5, 4]], [3, 3, 3], r"elements \[0\]. Received: prefix\[0, 1\]=4"),
        ([[5, 4], [5, 4], [1, 1]], [3, 3, 3], r"elements \[0, 2\]. Received: prefix\[0, 1\]=4"),
        ([[4, 5], [5, 4], [1, 5]], [3, 3, 3], r"elements \[2\]. Received: prefix\[2, 1\]=5"),
        ([[4, 5], [5, 4], [1, 5]], [3, 3, 1], None),  # what the limit cuts is not asked of the step
    ],
)
def test_a_prefix_that_the_step_forbids_is_refused(name, prefix, limits, text):
    model, options = TableModel(FORBIDDING), {"max_length": 3, "max_lengths": limits}
    options["prefix"] = np.array(prefix)
    if text is None:
        assert (run(SEARCHES[name], model, **options)["lengths"].reshape(3, -1)[:, 0] > 0).all()
        return
    with pytest.raises(ValueError, match=f"_search expects prefixes that `step` permits.*{text}"):
        run(SEARCHES[name], model, **options)


@pytest.mark.parametrize("name", list(SEARCHES))
def test_in_a_graph_a_prefix_that_the_step_forbids_has_no_result(name):
    model = TableModel(FORBIDDING)

    @tf.function(autograph=False)
    def search_prefixes(prefix):
        return call(SEARCHES[name], model.step, {}, model.memory(), max_length=3, prefix=prefix)

    result = arrays(search_prefixes(tf.constant([[5, 4], [5, 4], [5, 4]])))
    lengths = result["lengths"].reshape(3, -1)
    if "beam_width" in getattr(SEARCHES[name], "keywords", {}):
        assert (lengths[0] == -1).all() and (result["token_log_probs"][0] == 0).all()
    else:
        assert lengths[0] == 1  # it stops where it may go on with nothing
    assert (lengths[1:, 0] > 1).all()
    assert all(np.isfinite(value).all() for value in result.values())


def test_a_prefix_after_which_nothing_can_follow_is_no_wrong_prefix():
    tables = np.full((2, 6, 6), -1e9)
    tables[:, :, 4], tables[1, 4, END] = 0.0, 0.0
    options = {"max_length": 3, "prefix": np.array([[4], [4]]), "suppress_ids": [4]}
    result = search(TableModel(tables), beam_width=2, **options)
    np.testing.assert_array_equal(result["lengths"], [[-1, -1], [2, -1]])


def test_a_row_does_not_depend_on_the_constraints_of_others():
    model = HashModel(seed=68, batch=3, vocabulary=9, end_bias=0.5)
    options = {"beam_width": 3, "max_length": 6, "no_repeat_ngram_size": 2, "suppress_ids": [7]}
    together = search(model, prefix=np.array(PREFIX), **options)
    for order in ([1], [2, 0, 2]):
        apart = search(model.rows(order), prefix=np.array(PREFIX)[order], **options)
        assert_same(apart, {name: value[order] for name, value in together.items()})


@pytest.mark.thorough
def test_eager_graph_and_xla_agree_under_constraints_and_in_groups():
    model = HashModel(seed=69, batch=3, vocabulary=13, end_bias=0.5)
    options = {"max_length": 6, "no_repeat_ngram_size": 2, "suppress_ids": [7], "min_length": 2}
    given = {"prefix": np.array(PREFIX, "int32"), "prefix_lengths": np.array([3, 1, 0], "int32")}
    diverse = functools.partial(
        beam_search, beam_width=4, num_groups=2, diversity_penalty=2.0, **options
    )
    assert_compiled_alike(diverse, model, **given)
    greedy = functools.partial(greedy_search, **options)
    assert_compiled_alike(greedy, model, jit_compile=False, **given)


def test_what_a_graph_cannot_refuse_it_cuts():
    model = HashModel(seed=70, batch=3, vocabulary=7)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def search_prefixes(prefix):
        return beam_search(
            model.step,
            model.state(),
            model.memory(),
            beam_width=2,
            max_length=5,
            constraints=Constraints(prefix=prefix),
        )

    wrong = search_prefixes(tf.constant([[5, END, 4], [4, 99, 4], [-1, 4, 0]]))
    right = search(model, beam_width=2, max_length=5, prefix=np.array([[5], [4], [0]]))
    assert_same({name: value.numpy() for name, value in wrong.items()}, right)
    none = search_prefixes(tf.zeros((3, 0), tf.int32))
    assert_same(
        {name: value.numpy() for name, value in none.items()},
        search(model, beam_width=2, max_length=5),
    )


# What `Constraints` checks itself, and what only a search can check.
BAD_ALONE = [
    ({"suppress_ids": 4}, "`suppress_ids` to be ids, ints of at least 0.*suppress_ids=4"),
    ({"suppress_ids": [4, -1]}, r"`suppress_ids` to be ids.*suppress_ids=\[4, -1\]"),
    (
        {"no_repeat_ngram_size": 0},
        "`no_repeat_ngram_size` to be a positive int.*no_repeat_ngram_size=0",
    ),
    (
        {"no_repeat_ngram_size": 2.0},
        "`no_repeat_ngram_size` to be a positive int.*no_repeat_ngram_size=2.0",
    ),
    ({"prefix_lengths": [1, 1, 1]}, "`prefix` with `prefix_lengths`"),
]
BAD = [
    ({"suppress_ids": [4, 7]}, "`suppress_ids` below 7, the vocabulary.*suppress_ids with 7"),
    ({"prefix": [4, 5, 4]}, r"`prefix` of rank 2. Received: prefix.shape=\(3,\)"),
    ({"prefix": [[4.0]] * 3}, "`prefix` to be int ids"),
    ({"prefix": [[4, 5]]}, r"one entry for each of the 3 batch elements.*prefix.shape=\(1, 2\)"),
    ({"prefix": [[4, END]] * 3}, r"without EOS.*prefix\[0, 1\]=3, end_id=3"),
    ({"prefix": [[4], [-4], [4]]}, r"negative ids.*prefix\[1, 0\]=-4"),
    ({"prefix": [[4], [4], [9]]}, r"`prefix` with ids below 7.*prefix\[2, 0\]=9"),
    ({"prefix": [[4] * 5] * 3}, r"at most max_length=4 ids.*prefix_lengths=\[5, 5, 5\]"),
    (
        {"prefix": [[4, 0]] * 3, "prefix_lengths": [2, 1, 1]},
        r"padding or negative ids.*prefix\[0, 1\]=0",
    ),
    (
        {"prefix": [[4, 5]] * 3, "prefix_lengths": [3, 1, 1]},
        r"`prefix_lengths` between 0 and 2.*\[3, 1, 1\]",
    ),
    (
        {"prefix": [[4, 5]] * 3, "prefix_lengths": [1.0] * 3},
        "`prefix_lengths` to be one int per batch element",
    ),
]


@pytest.mark.parametrize(
    "options, text", BAD_ALONE + BAD, ids=[text[:24] for _, text in BAD_ALONE + BAD]
)
def test_constraints_must_fit(options, text):
    is_alone = (options, text) in BAD_ALONE
    model = HashModel(seed=0, batch=3, vocabulary=7)
    options = {k: np.array(v) if k.startswith("prefix") else v for k, v in options.items()}
    for name, function in (
        ("beam", beam_search),
        ("greedy", greedy_search),
        ("sample", sample_one),
    ):
        owner = "Constraints" if is_alone else f"{name}_search"
        with pytest.raises(ValueError, match=f"{owner} expects.*{text}"):
            run(function, model, max_length=4, **options)
