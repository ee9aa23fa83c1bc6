"""The ways in which searches of other libraries go wrong, each with the tests that hold ours.

Beside the table: the decoders of this library, and whatever no other file tests.
"""

import ast
import pathlib

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
    arrays,
    assert_found,
    assert_same,
    build_arguments,
    hypotheses,
    search,
)
from seeds import set_seed

from keras_attention import BahdanauDecoder, ConvDecoder, NTMCell, TransformerDecoder
from keras_attention.search import beam_search, check_beam_search, greedy_search

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "decoding.md"

# Number in docs/decoding.md -> tests, by file.
PITFALLS = {
    1: {
        "test_beam.py": ["test_every_log_prob_and_alignment_is_that_of_the_returned_ids"],
        "test_pitfalls.py": ["test_drawn_models_keep_every_promise"],
    },
    2: {
        "test_beam.py": [
            "test_wide_beam_finds_every_sequence_in_order",
            "test_beam_of_one_equals_greedy",
        ],
        "test_pitfalls.py": ["test_drawn_markov_tables_are_searched_exhaustively"],
    },
    3: {
        "test_beam.py": ["test_exact_stopping_changes_nothing_and_saves_steps"],
        "test_stopping.py": [
            "test_a_negative_alpha_is_bounded_at_the_soonest_end",
            "test_only_the_exact_rule_waits_for_a_longer_and_better_hypothesis",
        ],
    },
    4: {
        "test_beam.py": [
            "test_a_likely_unfinished_hypothesis_beats_an_unlikely_finished_one",
            "test_hypotheses_are_distinct_sorted_and_free_of_padding_and_start",
        ],
        "test_pitfalls.py": ["test_a_finished_hypothesis_is_never_displaced_by_a_worse_one"],
    },
    5: {"test_pitfalls.py": ["test_the_first_step_expands_one_hypothesis"]},
    6: {
        "test_beam.py": [
            "test_beam_wider_than_half_the_vocabulary",
            "test_end_at_the_first_step_and_hypotheses_that_never_end",
            "test_no_hypothesis_ends_before_its_minimum_length",
            "test_all_tokens_but_one_banned_leaves_one_hypothesis",
        ]
    },
    7: {
        "test_beam.py": [
            "test_nothing_the_loop_carries_is_ever_infinite",
            "test_low_precision_logits_are_scored_in_float32",
            "test_a_row_of_nan_yields_fillers_and_leaves_the_others_alone",
        ]
    },
    8: {
        "test_beam.py": ["test_source_of_length_zero_and_limit_of_one"],
        "test_pitfalls.py": ["test_a_source_without_words_is_answered_and_harms_nobody"],
    },
    9: {"test_pitfalls.py": ["test_the_end_mark_counts_once_and_for_all"]},
    10: {
        "test_beam.py": [
            "test_each_row_keeps_its_own_length_limit",
            "test_only_the_live_hypotheses_are_ranked_at_the_limit",
        ]
    },
    11: {
        "test_beam.py": [
            "test_a_row_does_not_depend_on_its_batch_mates",
            "test_padding_of_the_source_changes_nothing",
        ],
        "test_pitfalls.py": ["test_junk_in_padding_changes_no_answer_of_a_decoder"],
        "test_stopping.py": ["test_a_row_stops_by_itself_under_every_rule"],
    },
    12: {
        "test_beam.py": ["test_search_equals_reference_with_loops"],
        "test_pitfalls.py": ["test_decoders_of_every_kind_keep_every_promise"],
    },
    13: {
        "test_beam.py": ["test_alignments_sum_to_one_up_to_the_length_and_are_zero_after"],
        "test_pitfalls.py": ["test_decoders_of_every_kind_keep_every_promise"],
    },
    14: {
        "test_beam.py": ["test_hypotheses_are_distinct_sorted_and_free_of_padding_and_start"],
        "test_pitfalls.py": ["test_drawn_models_keep_every_promise"],
    },
    15: {
        "test_beam.py": ["test_eager_graph_and_xla_agree_with_unknown_batch_and_source"],
        "test_constraints.py": ["test_eager_graph_and_xla_agree_under_constraints_and_in_groups"],
        "test_sampling.py": ["test_eager_graph_and_xla_agree_with_unknown_batch"],
    },
    16: {
        "test_chunked_top_k.py": ["test_top_tokens_equal_a_plain_top_k"],
        "test_pitfalls.py": ["test_merging_the_best_of_each_beam_is_the_best_of_all"],
    },
    17: {
        "test_sampling.py": [
            "test_temperature_zero_is_greedy",
            "test_a_row_depends_on_its_seed_and_on_nothing_else",
        ]
    },
}


@pytest.mark.parametrize("number", range(1, 18))
def test_every_pitfall_has_tests_and_the_guide_names_them(number):
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {number} |")]
    assert len(rows) == 1
    for file, names in PITFALLS[number].items():
        functions = ast.walk(ast.parse((HERE / file).read_text()))
        defined = {node.name for node in functions if isinstance(node, ast.FunctionDef)}
        assert set(names) <= defined
        assert file in rows[0] and all(f"`{name}`" in rows[0] for name in names)


# Models that hypothesis draws: 1, 2, 3, 14.


def check_drawn(seed, batch, vocabulary, source, end_bias, scale, rule, beam_width, max_length):
    model = HashModel(seed, batch, vocabulary, source, end_bias, scale)
    options = {"beam_width": beam_width, "max_length": max_length, **RULES[rule][0]}
    assert (
        check_beam_search(model.step, model.state(), model.memory(), **build_arguments(**options))
        < 1e-4
    )
    result = search(model, **options)
    assert result["ids"].max(initial=0) < vocabulary
    assert not np.isin(result["ids"], [START]).any()


DRAWN = {
    "seed": st.integers(0, 10**6),
    "batch": st.integers(1, 3),
    "vocabulary": st.integers(4, 11),
    "source": st.integers(1, 5),
    "end_bias": st.sampled_from([-6.0, -1.0, 0.5, 2.0]),
    "scale": st.sampled_from([0.3, 1.5, 6.0]),
    "rule": st.sampled_from(list(RULES)),
    "beam_width": st.integers(1, 5),
    "max_length": st.integers(1, 5),
}


@pytest.mark.thorough
@settings(max_examples=3, deadline=None)
@given(**DRAWN)
def test_drawn_models_keep_every_promise(**drawn):
    check_drawn(**drawn)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(**DRAWN)
def test_many_drawn_models_keep_every_promise(**drawn):
    check_drawn(**drawn)


def check_table(tables, rule, max_length):
    tables = np.array(tables)
    tables[tables.max(axis=1) < -1e6, END] = 0.0  # something has to follow
    model = TableModel(tables[None])
    limits = {"beam_width": 63, "max_length": max_length}
    result = search(model, **limits, **RULES[rule][0])
    expected = all_hypotheses(model, 0, max_length, **RULES[rule][1])
    expected = [hypothesis for hypothesis in expected if hypothesis[1] > -1e6]
    found = dict(zip(hypotheses(result, 0), result["scores"][0], strict=False))
    assert set(found) == {ids for _, _, ids in expected}  # ties may come in any order
    for score, _, ids in expected:
        np.testing.assert_allclose(found[ids], score, rtol=1e-4, atol=1e-4)
    assert (np.diff(result["scores"][0]) <= 0).all()


LOGIT = st.sampled_from([-1e9, -3.0, 0.0, 0.0, 1.0, 4.0])
TABLES = {
    "tables": st.lists(st.lists(LOGIT, min_size=6, max_size=6), min_size=6, max_size=6),
    "rule": st.sampled_from([rule for rule in RULES if rule not in ("coverage", "both")]),
    "max_length": st.integers(1, 3),
}


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(**TABLES)
def test_drawn_markov_tables_are_searched_exhaustively(**drawn):
    check_table(**drawn)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(**TABLES)
def test_many_drawn_markov_tables_are_searched_exhaustively(**drawn):
    check_table(**drawn)


# One by one: 4, 5, 8, 9, 16.


@pytest.mark.thorough
def test_a_finished_hypothesis_is_never_displaced_by_a_worse_one():
    # The worst score of the finished only rises from one length limit to the next.
    model = HashModel(seed=131, batch=5, vocabulary=7, end_bias=1.5)
    before = [[] for _ in range(5)]
    for limit in range(1, 7):
        result = search(model, beam_width=2, max_length=limit, stopping="limit")
        for row in range(5):
            pairs = zip(hypotheses(result, row), result["scores"][row], strict=False)
            found = {ids: score for ids, score in pairs}
            worst = min(found.values())
            for ids, score in before[row]:
                assert found.get(ids, score) == pytest.approx(score, abs=1e-5)
                assert ids in found or score <= worst + 1e-5
            before[row] = [(ids, score) for ids, score in found.items() if ids[-1] == END]


def test_the_first_step_expands_one_hypothesis():
    model = HashModel(seed=132, batch=3, vocabulary=7)
    rows = []

    def step(ids, state, memory):
        rows.append(len(ids))
        return model.step(ids, state, memory)

    result = beam_search(step, model.state(), model.memory(), beam_width=5, max_length=3)
    assert rows[0] == 3 and set(rows[1:]) == {15}
    for row in range(3):
        assert len(set(hypotheses(arrays(result), row))) == 5


def test_the_end_mark_counts_once_and_for_all():
    # A finished score is the same whatever is searched afterwards, and counts its EOS token.
    tables = np.full((1, 6, 6), -1e9)
    tables[0, START, [4, 5]] = np.log([0.6, 0.4])
    tables[0, 4, END] = 0.0
    tables[0, 5, 5] = 0.0
    options, reference = RULES["gnmt positive"]
    for limit in (2, 3, 9):
        result = search(TableModel(tables), beam_width=2, max_length=limit, **options)
        place = hypotheses(result, 0).index((4, END))
        expected = np.log(0.6) / ((5 + 2) / 6) ** reference["gnmt"]
        np.testing.assert_allclose(result["scores"][0, place], expected, rtol=1e-6)
        assert result["lengths"][0, place] == 2


def test_merging_the_best_of_each_beam_is_the_best_of_all():
    # All good tokens belong to one beam, whose 2 x beam best are needed.
    tables = np.full((1, 13, 13), -9.0)
    tables[0, START, [4, 5, 6]] = np.log([0.98, 0.01, 0.01])
    tables[0, 4, 3:13] = np.log(np.linspace(0.05, 0.15, 10))
    tables[0, 5:] += 0.01 * np.arange(13)
    model = TableModel(tables)
    result = search(model, beam_width=3, max_length=3)
    assert_found(result, 0, reference_search(model, 0, 3, 3))
    assert all(ids[0] == 4 for ids in hypotheses(result, 0))


# The decoders of this library: 8, 11, 12, 13.

SOURCE = np.random.default_rng(7).normal(size=(3, 5, 6)).astype("float32")
MASK = np.arange(5) < np.array([[5], [2], [3]])


class NTMDecoder:
    """A decoder around a Neural Turing machine: a nested state with a memory of its own."""

    def __init__(self):
        set_seed(5)
        self.cell = NTMCell(output_dim=9, memory_size=7, word_size=3)
        self.cell.build((None, 9))
        for weight in self.cell.trainable_weights:
            weight.assign(weight * 4.0 + 0.3 * keras.random.normal(weight.shape, seed=1))

    def prepare(self, source, memory_mask=None):
        return {"source": source}

    def start(self, memory, initial_state=None, max_length=None):
        states = self.cell.get_initial_state(len(memory["source"]))
        bias = ops.mean(memory["source"], axis=(1, 2))
        return {"cell": states, "bias": bias}

    def step(self, ids, state, memory):
        inputs = ops.one_hot(ids, 9) + state["bias"][:, None]
        outputs, states = self.cell(inputs, state["cell"])
        alignment = ops.zeros_like(outputs[:, :1])
        return outputs * 6.0, {"cell": states, "bias": state["bias"]}, alignment


def _built(decoder, sharpness=3.0):
    decoder(np.array([[2, 4]]), SOURCE[:1], memory_mask=MASK[:1])
    draw = np.random.default_rng(3)
    for weight in decoder.trainable_weights:
        weight.assign(weight + 0.3 * sharpness * draw.normal(size=weight.shape))
    return decoder


DECODERS = {
    "Bahdanau": lambda: _built(BahdanauDecoder(9, embedding_dim=3, units=7, dropout=0.0), 1.0),
    "Transformer": lambda: _built(
        TransformerDecoder(9, 8, num_layers=1, num_heads=2, feed_forward_dim=11, dropout=0.0), 1.0
    ),
    "ConvS2S": lambda: _built(ConvDecoder(9, 3, convolutions=[(7, 3), (6, 2)]), 1.0),
    "NTM": NTMDecoder,
}


@pytest.fixture(scope="module")
def decoders():
    return {name: make() for name, make in DECODERS.items()}


def begun(decoder, source=SOURCE, mask=MASK):
    memory = decoder.prepare(ops.convert_to_tensor(source), memory_mask=ops.convert_to_tensor(mask))
    return memory, decoder.start(memory, max_length=4)


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(DECODERS))
def test_decoders_of_every_kind_keep_every_promise(name, decoders):
    decoder = decoders[name]
    memory, state = begun(decoder)
    options = {"beam_width": 2, "max_length": 3}
    if name != "NTM":  # attends to no source
        options |= {"memory_mask": ops.convert_to_tensor(MASK), **RULES["both"][0]}
    check_beam_search(decoder.step, state, memory, **build_arguments(**options))


@pytest.mark.thorough
def test_a_cache_left_in_place_keeps_every_promise(decoders):
    decoder = decoders["Transformer"]
    memory, state = begun(decoder)
    options = {"beam_width": 2, "max_length": 4, "reorder_cache": decoder.reorder_cache}
    check_beam_search(decoder.step, state, memory, **build_arguments(**options))


ATTENDING = [name for name in DECODERS if name != "NTM"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ATTENDING)
def test_junk_in_padding_changes_no_answer_of_a_decoder(name, decoders):
    decoder, options = decoders[name], {"beam_width": 3, "max_length": 4}
    memory, state = begun(decoder)
    plain = arrays(beam_search(decoder.step, state, memory, **build_arguments(**options)))
    junk = np.full((3, 2, 6), 37.0, "float32")
    wider = np.concatenate([np.where(MASK[..., None], SOURCE, np.float32(-53.0)), junk], axis=1)
    memory, state = begun(decoder, wider, np.pad(MASK, ((0, 0), (0, 2))))
    result = arrays(beam_search(decoder.step, state, memory, **build_arguments(**options)))
    assert (result["alignments"][..., 5:] == 0).all()
    result["alignments"] = result["alignments"][..., :5]
    assert_same(result, plain, tolerance=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ATTENDING)
def test_a_source_without_words_is_answered_and_harms_nobody(name, decoders):
    decoder, options = decoders[name], {"beam_width": 2, "max_length": 4, **RULES["both"][0]}
    memory, state = begun(decoder)
    plain = arrays(beam_search(decoder.step, state, memory, **build_arguments(**options)))
    mask = MASK & np.array([[True], [False], [True]])
    memory, state = begun(decoder, mask=mask)
    given = {"memory_mask": ops.convert_to_tensor(mask), **options}
    result = arrays(beam_search(decoder.step, state, memory, **build_arguments(**given)))
    assert all(np.isfinite(value).all() for value in result.values())
    assert (result["lengths"][1] > 0).all() and (result["alignments"][1] == 0).all()
    others = [0, 2]
    assert_same(
        {name: value[others] for name, value in result.items()},
        {name: value[others] for name, value in plain.items()},
        tolerance=1e-4,
    )
    greedy = arrays(greedy_search(decoder.step, state, memory, max_length=4))
    assert all(np.isfinite(value).all() for value in greedy.values())
