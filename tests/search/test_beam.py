import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from search_models import END, START, HashModel, TableModel
from search_reference import all_hypotheses
from search_reference import beam_search as reference_search
from search_runs import (
    RULES,
    assert_found,
    assert_same,
    assert_teacher_forced,
    build_arguments,
    hypotheses,
    search,
)
from tf_or_skip import tf

from keras_attention.search import (
    BeamOptions,
    CoveragePenalty,
    GNMTLengthPenalty,
    _beam_loop,
    beam_search,
    greedy_search,
)

each_rule = pytest.mark.parametrize("rule", list(RULES))


@each_rule
def test_wide_beam_finds_every_sequence_in_order(rule):
    model = HashModel(seed=11, batch=3, vocabulary=6, end_bias=0.5)
    options, reference = RULES[rule]
    result = search(model, beam_width=131, max_length=4, **options)
    for row in range(3):
        expected = all_hypotheses(model, row, 4, **reference)
        assert len(expected) == 121  # 1 + 3 + 9 + 27 that end, 81 that fill the limit
        assert_found(result, row, expected)
        # Ten places are left over, and are marked as padding.
        assert (result["lengths"][row, 121:] == -1).all()
        assert (result["ids"][row, 121:] == 0).all()
        assert (result["scores"][row, 121:] == -1e9).all()
        assert (result["log_probs"][row, 121:] == -1e9).all()
        assert (result["alignments"][row, 121:] == 0).all()


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam_width=st.integers(1, 7),
    vocabulary=st.integers(5, 13),
    max_length=st.integers(1, 6),
    min_length=st.integers(0, 3),
    end_bias=st.sampled_from([-6.0, -1.0, 0.5, 2.0]),
    rule=st.sampled_from(list(RULES)),
    stopping=st.sampled_from(["exact", "limit"]),
)
def test_search_equals_reference_with_loops(
    seed, beam_width, vocabulary, max_length, min_length, end_bias, rule, stopping
):
    model = HashModel(seed, batch=2, vocabulary=vocabulary, end_bias=end_bias)
    options, reference = RULES[rule]
    min_length = min(min_length, max_length)
    result = search(
        model,
        beam_width=beam_width,
        max_length=max_length,
        min_length=min_length,
        stopping=stopping,
        **options,
    )
    for row in range(2):
        expected = reference_search(model, row, beam_width, max_length, min_length, **reference)
        assert_found(result, row, expected)


@pytest.mark.parametrize("rule", ["none", "gnmt negative", "both"])
def test_every_log_prob_and_alignment_is_that_of_the_returned_ids(rule):
    model = HashModel(seed=5, batch=3, vocabulary=11, end_bias=0.5)
    result = search(model, beam_width=5, max_length=7, **RULES[rule][0])
    assert (result["lengths"] > 0).all()
    assert_teacher_forced(model, result)


def test_alignments_sum_to_one_up_to_the_length_and_are_zero_after():
    model = HashModel(seed=8, batch=3, vocabulary=7, source=5, end_bias=0.5)
    result = search(model, beam_width=4, max_length=6)
    sums = result["alignments"].sum(axis=-1)
    inside = np.arange(6) < result["lengths"][..., None]
    assert 0 < inside.mean() < 1
    np.testing.assert_allclose(sums, inside.astype("float32"), rtol=1e-6)


@pytest.mark.parametrize("end_bias", [-9.0, 0.0, 2.0])
def test_beam_of_one_equals_greedy(end_bias):
    model = HashModel(seed=3, batch=7, vocabulary=13, end_bias=end_bias)
    beam = search(model, beam_width=1, max_length=6)
    greedy = greedy_search(model.step, model.state(), model.memory(), max_length=6)
    np.testing.assert_array_equal(beam["ids"][:, 0], greedy["ids"])
    np.testing.assert_array_equal(beam["lengths"][:, 0], greedy["lengths"])
    np.testing.assert_allclose(beam["log_probs"][:, 0], greedy["log_probs"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(beam["alignments"][:, 0], greedy["alignments"], atol=1e-6)


def test_beam_of_two_of_the_worked_picture():
    # SPEC 23: A .6 B .4; AC .42 AD .18 BE .32 BF .08; ACG .126 ACH .294 BEK .288 BEL .032.
    names = "0 1 S / A B C D E F G H K L".split()
    probabilities = {
        "S": {"A": 0.6, "B": 0.4},
        "A": {"C": 0.7, "D": 0.3},
        "B": {"E": 0.8, "F": 0.2},
        "C": {"G": 0.3, "H": 0.7},
        "E": {"K": 0.9, "L": 0.1},
    }
    table = np.full((1, len(names), len(names)), -1e9)
    for last, following in probabilities.items():
        for token, probability in following.items():
            table[0, names.index(last), names.index(token)] = np.log(probability)
    kept = {1: ["A", "B"], 2: ["AC", "BE"], 3: ["ACH", "BEK"]}
    numbers = {1: [0.6, 0.4], 2: [0.42, 0.32], 3: [0.294, 0.288]}
    for length in (1, 2, 3):
        result = search(TableModel(table), beam_width=2, max_length=length)
        words = ["".join(names[token] for token in ids) for ids in hypotheses(result, 0)]
        assert words == kept[length]
        np.testing.assert_allclose(np.exp(result["log_probs"][0]), numbers[length], rtol=1e-6)


def test_a_beam_that_falls_behind_overtakes():
    # Two rows. Row 0: "a" leads after one step (.6), but "b" (.4) ends with certainty while "a"
    # splits: b = .4, a x = .3, a y = .3. Row 1: the other way about.
    a, b, x, y = 4, 5, 6, 7
    tables = np.full((2, 8, 8), -1e9)
    for row, (leader, other) in enumerate([(a, b), (b, a)]):
        tables[row, START, [leader, other]] = np.log([0.6, 0.4])
        tables[row, leader, [x, y]] = np.log([0.55, 0.45])
        tables[row, other, END] = 0.0
        tables[row, x, END] = tables[row, y, END] = 0.0
    result = search(TableModel(tables), beam_width=2, max_length=5)
    assert hypotheses(result, 0) == [(b, END), (a, x, END)]
    assert hypotheses(result, 1) == [(a, END), (b, x, END)]
    np.testing.assert_allclose(np.exp(result["log_probs"]), [[0.4, 0.33]] * 2, rtol=1e-6)
    greedy = search(TableModel(tables), beam_width=1, max_length=5)
    assert hypotheses(greedy, 0) == [(a, x, END)]


def test_end_at_the_first_step_and_hypotheses_that_never_end():
    tables = np.full((2, 6, 6), -1e9)
    tables[0, START, [END, 4]] = np.log([0.9, 0.1])
    tables[0, 4, END] = 0.0
    tables[1, :, 4] = 0.0  # row 1 says 4 for ever
    result = search(TableModel(tables), beam_width=2, max_length=5)
    assert hypotheses(result, 0) == [(END,), (4, END)]
    assert hypotheses(result, 1) == [(4, 4, 4, 4, 4)]
    np.testing.assert_array_equal(result["lengths"], [[1, 2], [5, -1]])
    np.testing.assert_allclose(result["log_probs"][1], [0.0, -1e9], atol=1e-6)


def test_a_likely_unfinished_hypothesis_beats_an_unlikely_finished_one():
    tables = np.full((1, 6, 6), -1e9)
    tables[0, :, [END, 4]] = np.log([[0.05], [0.95]])
    result = search(TableModel(tables), beam_width=3, max_length=4)
    assert hypotheses(result, 0)[0] == (4, 4, 4, 4)
    assert hypotheses(result, 0)[1] == (END,)


@pytest.mark.parametrize("seed", range(3))
def test_only_the_live_hypotheses_are_ranked_at_the_limit(seed):
    # With so strong a penalty others among the 2 x beam candidates would score better.
    model = HashModel(seed, batch=5, vocabulary=9, end_bias=-6.0)
    result = search(model, beam_width=2, max_length=3, coverage_penalty=CoveragePenalty(9.0))
    for row in range(5):
        assert_found(result, row, reference_search(model, row, 2, 3, beta=9.0))


def test_end_mark_ranked_below_the_beam_does_not_finish():
    tables = np.full((1, 7, 7), -1e9)
    tables[0, START, [4, 5, END]] = np.log([0.5, 0.3, 0.2])
    tables[0, [4, 5], 4] = 0.0
    result = search(TableModel(tables), beam_width=2, max_length=3)
    assert (END,) not in hypotheses(result, 0)
    assert (END,) in hypotheses(search(TableModel(tables), beam_width=3, max_length=3), 0)


@each_rule
def test_exact_stopping_changes_nothing_and_saves_steps(rule):
    model = HashModel(seed=7, batch=11, vocabulary=9, end_bias=2.0)
    results, calls = [], {"exact": 0, "limit": 0}
    for stopping in calls:

        def step(ids, state, memory, stopping=stopping):
            calls[stopping] += 1
            return model.step(ids, state, memory)

        options = {"beam_width": 3, "max_length": 10, "stopping": stopping, **RULES[rule][0]}
        results.append(
            beam_search(step, model.state(), model.memory(), **build_arguments(**options))
        )
    assert_same(*results)
    assert calls["limit"] == 10
    if rule in ("none", "gnmt zero", "gnmt negative", "coverage"):
        assert calls["exact"] < 10


def test_length_penalty_without_a_bound_runs_to_the_limit():
    model = HashModel(seed=2, batch=2, vocabulary=7, end_bias=2.0)

    def longer_is_better(log_probs, lengths):
        return log_probs + 2.0 * ops.cast(lengths, "float32")

    result = search(model, beam_width=64, max_length=3, length_penalty=longer_is_better)
    for row in range(2):
        expected = all_hypotheses(model, row, 3)
        expected = sorted(((lp + 2.0 * len(ids), lp, ids) for _, lp, ids in expected), reverse=True)
        assert_found(result, row, expected[:64])


@pytest.mark.parametrize("rule", ["none", "both"])
def test_a_row_does_not_depend_on_its_batch_mates(rule):
    model = HashModel(seed=21, batch=5, vocabulary=9, end_bias=1.0)
    options = {"beam_width": 4, "max_length": 7, **RULES[rule][0]}
    together = search(model, **options)
    for order in ([3], [2, 2, 1, 3, 0, 4]):
        apart = search(model.rows(order), **options)
        assert_same(apart, {name: value[order] for name, value in together.items()})


def test_padding_of_the_source_changes_nothing():
    options, _ = RULES["both"]
    model = HashModel(seed=4, batch=3, vocabulary=8, source=3, end_bias=0.5)
    padded = HashModel(seed=4, batch=3, vocabulary=8, source=3, end_bias=0.5)
    padded.alignments = np.pad(model.alignments, ((0, 0), (0, 4)))
    plain = search(model, beam_width=3, max_length=6, **options)
    mask = ops.convert_to_tensor(np.repeat([[True] * 3 + [False] * 4], 3, axis=0))
    for masks in ({}, {"memory_mask": mask}):
        longer = search(padded, beam_width=3, max_length=6, **options, **masks)
        assert (longer["alignments"][..., 3:] == 0).all()
        longer["alignments"] = longer["alignments"][..., :3]
        assert_same(plain, longer)


@pytest.mark.thorough
def test_eager_graph_and_xla_agree_with_unknown_batch_and_source():
    base = HashModel(seed=17, batch=5, vocabulary=601, end_bias=4.0)  # two-stage top tokens

    def run(offsets, alignments, limits):
        model = base.rows(range(5))
        model.alignments = alignments
        state = {
            "hash": tf.zeros_like(offsets),
            "nested": [
                {"position": tf.zeros_like(offsets)},
                (tf.zeros((tf.shape(offsets)[0], 2, 3)),),
            ],
        }
        return beam_search(
            model.step,
            state,
            {"offsets": offsets},
            beam_width=3,
            max_length=6,
            **build_arguments(max_lengths=limits, min_length=2, **RULES["both"][0]),
        )

    signature = [
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None, None], tf.float32),
        tf.TensorSpec([None], tf.int32),
    ]
    graph = tf.function(run, signature, autograph=False)
    compiled = tf.function(run, signature, autograph=False, jit_compile=True)
    limits = [6, 3, 1, 6, 5]
    for rows, others in ((5, [graph, compiled]), (2, [graph])):
        arguments = base.offsets[:rows], base.alignments, np.array(limits[:rows], "int32")
        eager = run(*map(tf.constant, arguments))
        for other in others:
            assert_same(eager, other(*map(tf.constant, arguments)))
    # No rows at all, as a server may send them.
    empty = graph(tf.zeros([0], tf.int32), tf.constant(base.alignments), tf.zeros([0], tf.int32))
    assert empty["ids"].shape == (0, 3, 6) and empty["alignments"].shape == (0, 3, 6, 3)


def test_each_row_keeps_its_own_length_limit():
    model = HashModel(seed=9, batch=3, vocabulary=8, end_bias=-0.5)
    limits = [1, 5, 3]
    together = search(model, beam_width=4, max_length=6, max_lengths=ops.convert_to_tensor(limits))
    for row, limit in enumerate(limits):
        alone = search(model.rows([row]), beam_width=4, max_length=limit)
        assert hypotheses(together, row) == hypotheses(alone, 0)
        assert (together["ids"][row, :, limit:] == 0).all()
        np.testing.assert_allclose(together["scores"][row], alone["scores"][0], rtol=1e-6)


def test_a_rows_own_limit_wins_over_a_minimum():
    model = HashModel(seed=13, batch=3, vocabulary=6, end_bias=3.0)
    limits = np.array([2, 4, 1])
    result = search(model, beam_width=2, max_length=4, max_lengths=limits, min_length=3)
    assert (result["lengths"] <= limits[:, None]).all()
    assert (result["lengths"][1] >= 3).all()


def test_no_hypothesis_ends_before_its_minimum_length():
    model = HashModel(seed=13, batch=3, vocabulary=6, end_bias=3.0)
    minimum = [1, 4, 3]
    result = search(model, beam_width=131, max_length=4, min_length=ops.convert_to_tensor(minimum))
    for row, shortest in enumerate(minimum):
        assert result["lengths"][row, 0] >= shortest
        assert_found(result, row, all_hypotheses(model, row, 4, min_length=shortest))
    # The log-probabilities are still the model's: nothing is renormalized.
    equal = search(model, beam_width=131, max_length=4, min_length=4)
    assert_found(equal, 1, all_hypotheses(model, 1, 4, min_length=4))


@pytest.mark.parametrize("vocabulary, beam_width", [(5, 7), (7, 5), (4, 3)])
def test_beam_wider_than_half_the_vocabulary(vocabulary, beam_width):
    model = HashModel(seed=1, batch=2, vocabulary=vocabulary)
    result = search(model, beam_width=beam_width, max_length=5)
    for row in range(2):
        assert_found(result, row, reference_search(model, row, beam_width, 5))


@pytest.mark.parametrize("low", [-1e9, -np.inf])
def test_all_tokens_but_one_banned_leaves_one_hypothesis(low):
    tables = np.full((2, 9, 9), low)
    tables[0, :, 5], tables[1, :, END] = 0.0, 0.0
    result = search(TableModel(tables), beam_width=3, max_length=4)
    assert hypotheses(result, 0) == [(5, 5, 5, 5)]
    assert hypotheses(result, 1) == [(END,)]
    np.testing.assert_array_equal(result["lengths"], [[4, -1, -1], [1, -1, -1]])
    assert all(np.isfinite(value).all() for value in result.values())


def test_hypotheses_are_distinct_sorted_and_free_of_padding_and_start():
    for seed in range(5):
        model = HashModel(seed, batch=3, vocabulary=7, end_bias=0.5)
        model.logits[:, [0, START]] += 5.0  # the model likes them best
        result = search(model, beam_width=6, max_length=5, length_penalty=GNMTLengthPenalty(0.6))
        for row in range(3):
            found = hypotheses(result, row)
            assert len(set(found)) == len(found) == 6
            assert (np.diff(result["scores"][row]) <= 0).all()
            assert not {0, START} & set(itertools.chain(*found))
            assert all(END not in ids[:-1] for ids in found)


def test_start_id_may_be_the_end_id():
    # Sutskever et al. start from the EOS token; it must still end hypotheses.
    tables = np.full((1, 6, 6), -1e9)
    tables[0, :, [END, START, 4]] = np.log([[0.5], [0.2], [0.3]])
    result = search(TableModel(tables), beam_width=3, max_length=3, start_id=END)
    assert hypotheses(result, 0) == [(END,), (4, END), (START, END)]


def test_other_pad_id_fills_the_ends():
    tables = np.full((1, 6, 6), -1e9)
    tables[0, :, END] = 0.0
    result = search(TableModel(tables), beam_width=2, max_length=3, pad_id=5)
    np.testing.assert_array_equal(result["ids"][0], [[END, 5, 5], [5, 5, 5]])


def test_low_precision_logits_are_scored_in_float32():
    model = HashModel(seed=6, batch=2, vocabulary=9)

    def step(ids, state, memory):
        logits, state, alignment = model.step(ids, state, memory)
        return ops.cast(logits, "bfloat16"), state, ops.cast(alignment, "bfloat16")

    result = beam_search(step, model.state(), model.memory(), beam_width=3, max_length=4)
    assert {str(result[n].dtype).split("'")[1] for n in ("log_probs", "scores", "alignments")} == {
        "float32"
    }
    rounded = HashModel(seed=6, batch=2, vocabulary=9)
    rounded.logits = tf.cast(tf.cast(model.logits, "bfloat16"), "float32").numpy()
    expected = search(rounded, beam_width=3, max_length=4)
    np.testing.assert_array_equal(result["ids"], expected["ids"])
    np.testing.assert_allclose(result["scores"], expected["scores"], atol=0.02)


def test_a_row_of_nan_yields_fillers_and_leaves_the_others_alone():
    tables = np.log(np.random.default_rng(0).dirichlet(np.ones(7), size=(3, 7)))
    clean = search(TableModel(tables), beam_width=3, max_length=4)
    tables[1] = np.nan
    result = search(TableModel(tables), beam_width=3, max_length=4)
    np.testing.assert_array_equal(result["lengths"][1], [-1, -1, -1])
    np.testing.assert_array_equal(result["ids"][[0, 2]], clean["ids"][[0, 2]])
    assert all(np.isfinite(value).all() for value in result.values())


def test_nothing_the_loop_carries_is_ever_infinite(monkeypatch):
    tables = np.full((2, 9, 9), -np.inf)
    tables[0, :, [5, END]] = np.log(0.5)
    tables[1, START, 6] = 0.0  # then nothing at all is possible

    def check_loop(condition, body, loop_vars):
        steps = 0
        while condition(*loop_vars):
            loop_vars = body(*loop_vars)
            leaves = [ops.convert_to_numpy(leaf) for leaf in keras.tree.flatten(loop_vars)]
            assert all(np.isfinite(leaf).all() for leaf in leaves)
            assert all(np.abs(leaf).max() <= 2e9 for leaf in leaves if leaf.dtype == "float32")
            steps += 1
        assert steps > 0
        return loop_vars

    monkeypatch.setattr(_beam_loop.ops, "while_loop", check_loop)
    options = {"stopping": "limit", "length_penalty": GNMTLengthPenalty(-2.0)}
    result = search(TableModel(tables), beam_width=3, max_length=9, **options)
    assert hypotheses(result, 0)[0] == (END,)


def test_source_of_length_zero_and_limit_of_one():
    model = HashModel(seed=2, batch=2, vocabulary=7)
    model.alignments = model.alignments[:, :0]
    result = search(model, beam_width=2, max_length=1)
    assert result["alignments"].shape == (2, 2, 1, 0)
    np.testing.assert_array_equal(result["lengths"], [[1, 1], [1, 1]])


def test_alignments_can_be_left_out():
    model = HashModel(seed=2, batch=2, vocabulary=7)
    full = search(model, beam_width=3, max_length=4)
    bare = search(model, beam_width=3, max_length=4, return_alignments=False)
    assert sorted(bare) == ["ids", "lengths", "log_probs", "scores", "token_log_probs"]
    np.testing.assert_array_equal(bare["ids"], full["ids"])


def test_memory_reaches_the_step_untouched():
    model = HashModel(seed=2, batch=2, vocabulary=7)
    memory, seen = model.memory(), []

    def step(ids, state, given):
        seen.append((given is memory, len(ids)))
        return model.step(ids, state, given)

    beam_search(
        step,
        model.state(),
        memory,
        beam_width=3,
        max_length=3,
        options=BeamOptions(stopping="limit"),
    )
    assert seen == [(True, 2), (True, 6), (True, 6)]
