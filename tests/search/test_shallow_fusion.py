"""A language model that ranks hypotheses too, Gulcehre et al. 2015, section 4.1."""

import functools
import types

import numpy as np
import pytest
from keras import ops
from search_models import HashModel, TableModel
from search_reference import all_hypotheses, contains, diverse_search, pad, score_ids
from search_reference import beam_search as reference_search
from search_runs import (
    RULES,
    assert_compiled_alike,
    assert_found,
    assert_same,
    assert_teacher_forced,
    run,
    search,
)

from keras_attention._utils.flat_beams import gather_beams
from keras_attention.search import ShallowFusion, beam_search, greedy_search, sample_search


class Fused:
    """A model with a language model, with a reference in NumPy: the sum of log-probabilities."""

    def __init__(self, seed, weight, **options):
        options = {"batch": 3, "vocabulary": 7, "end_bias": 0.5} | options
        self.model, self.weight = HashModel(seed, **options), weight
        self.vocabulary, self.source = self.model.vocabulary, self.model.source
        self.language_model = HashModel(seed + 1000, **options, tables=89)
        self.language_model.offsets = self.model.offsets  # those in the memory of the search
        self.fusion = ShallowFusion(
            types.SimpleNamespace(start=self.start, step=self.language_model.step), weight
        )

    def start(self, batch):
        zeros = ops.zeros((batch,), "int32")
        return {"hash": zeros, "nested": [{"position": zeros}, (ops.zeros((batch, 2, 3)),)]}

    def reference(self, row, tokens):
        log_probs, alignment = self.model.reference(row, tokens)
        return log_probs + self.weight * self.language_model.reference(row, tokens)[0], alignment

    def separate(self, row, expected):
        """Returns hypotheses of the sum with the log-probability of the model."""
        return [(score, score_ids(self.model, row, ids)[1], ids) for score, _, ids in expected]

    def search(self, **options):
        return search(self.model, fusion=self.fusion, **options)


def test_one_step_by_hand():
    """Sums 0.5, 0.3 and 0.2 to the power of one, times 0.1, 0.6 and 0.3 to the power of 0.5."""
    tables = np.full((2, 1, 6, 6), -1e9)
    tables[0, 0, 2, 3:] = np.log([0.5, 0.3, 0.2])
    tables[1, 0, 2, 3:] = np.log([0.1, 0.6, 0.3])
    model, language_model = (TableModel(table) for table in tables)

    def step(ids, state, memory):  # the memory of the search holds the model's table
        return language_model.step(ids, state, language_model.memory())

    given = types.SimpleNamespace(start=lambda batch: {}, step=step)
    options = {"max_length": 1, "fusion": ShallowFusion(given, 0.5)}
    found = search(model, beam_width=3, **options)
    assert found["ids"][0, :, 0].tolist() == [4, 3, 5]
    fused = [0.3 * 0.6**0.5, 0.5 * 0.1**0.5, 0.2 * 0.3**0.5]
    np.testing.assert_allclose(np.exp(found["scores"][0]), fused, rtol=1e-5)
    np.testing.assert_allclose(np.exp(found["log_probs"][0]), [0.3, 0.5, 0.2], rtol=1e-5)
    greedy = run(greedy_search, model, **options)
    assert greedy["ids"].tolist() == [[4]]
    np.testing.assert_allclose(np.exp(greedy["log_probs"]), [0.3], rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_a_wide_beam_is_the_list_of_all_sequences(rule):
    fused, (given, expected) = Fused(311, 0.7), RULES[rule]
    found = fused.search(beam_width=85, max_length=3, **given)
    for row in range(3):
        every = all_hypotheses(fused, row, 3, **expected)
        assert len(every) == 1 + 4 + 16 + 64
        assert_found(found, row, fused.separate(row, every))


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"min_length": 3, "banned": (5,)},
        {"ngram": 2},
        {"prefix": (4, 5)},
        {"ends": (3, 6)},
    ],
)
def test_a_search_equals_the_reference_with_loops(limits):
    fused, given = Fused(312, 2.0), {}
    if "min_length" in limits:
        given = {"min_length": 3, "suppress_ids": (5,)}
    if "ngram" in limits:
        given = {"no_repeat_ngram_size": 2}
    if "prefix" in limits:
        given = {"prefix": ops.array([[4, 5]] * 3)}
    if "ends" in limits:
        given = {"end_id": (3, 6)}
    found = fused.search(beam_width=3, max_length=5, length_penalty=0.8, **given)
    for row in range(3):
        expected = reference_search(fused, row, 3, 5, limits=limits, gnmt=0.8)
        assert_found(found, row, fused.separate(row, expected))
    assert_teacher_forced(fused.model, found)


def test_groups_equal_the_reference_with_loops():
    fused = Fused(313, 0.7, vocabulary=11)
    found = fused.search(beam_width=6, max_length=4, num_groups=3, diversity_penalty=0.4)
    for row in range(3):
        expected = diverse_search(fused, row, 6, 3, 0.4, 4)
        assert_found(found, row, fused.separate(row, expected))
    assert_teacher_forced(fused.model, found)


def test_phrases_restrict_the_list_of_all_sequences():
    fused, phrases = Fused(318, 0.7), [[(4, 4), (5,)], [], [(1, 4)]]
    found = fused.search(beam_width=85, max_length=3, phrases=pad(phrases, 2, 2))
    for row in range(3):
        every = [one for one in all_hypotheses(fused, row, 3) if contains(one[2], phrases[row])]
        assert_found(found, row, fused.separate(row, every))


def test_a_beam_of_one_is_greedy_and_the_language_model_decides():
    fused = Fused(314, 1.0, batch=5)
    options = {"max_length": 5, "fusion": fused.fusion}
    greedy = run(greedy_search, fused.model, **options)
    narrow = search(fused.model, beam_width=1, **options)
    assert narrow.pop("scores") is not None
    assert_same({name: value[:, 0] for name, value in narrow.items()}, greedy)
    assert_teacher_forced(fused.model, greedy)
    alone = run(greedy_search, fused.model, max_length=5)
    assert (alone["ids"] != greedy["ids"]).any()
    assert (alone["log_probs"] != greedy["log_probs"]).any()


def test_the_tree_has_the_log_probabilities_of_the_model():
    fused = Fused(315, 0.5)
    found = fused.search(beam_width=3, max_length=4, return_tree=True)
    for row, length in enumerate(found["lengths"][:, 0]):
        ended = found["tree_log_probs"][row, length - 1, 3:]
        np.testing.assert_allclose(ended[0], found["log_probs"][row, 0], rtol=1e-6)
    alive, ids = found["tree_log_probs"][:, 0, :3], found["tree_ids"][:, 0, :3]
    for row in range(3):
        for log_prob, token in zip(alive[row], ids[row], strict=True):
            expected = fused.model.reference(row, ())[0][token]
            np.testing.assert_allclose(log_prob, expected, rtol=1e-5)


def test_a_weight_of_zero_runs_no_language_model():
    def refuse(*arguments):
        raise AssertionError("the language model ran")

    fusion = ShallowFusion(types.SimpleNamespace(start=refuse, step=refuse), 0)
    model = HashModel(316, batch=3, vocabulary=7)
    for function in (greedy_search, beam_search):
        plain = run(function, model, max_length=4)
        assert_same(run(function, model, max_length=4, fusion=fusion), plain)


@pytest.mark.parametrize("low", [-1e9, -np.inf, np.nan])
@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_what_the_language_model_rules_out_is_impossible(low, weight):
    fused = Fused(317, weight)
    fused.language_model.logits[:, 4] = low
    if np.isnan(low):
        fused.language_model.logits[:, 5] = -np.inf  # a row of NaN has no token at all
    found = fused.search(beam_width=3, max_length=3)
    if np.isnan(low):
        assert (found["lengths"] == -1).all() and (found["log_probs"] == -1e9).all()
        return
    assert (found["lengths"] > 0).all() and not (found["ids"] == 4).any()
    greedy = run(greedy_search, fused.model, max_length=3, fusion=fused.fusion)
    assert not (greedy["ids"] == 4).any()


@pytest.mark.thorough
@pytest.mark.parametrize("function", [beam_search, greedy_search])
def test_eager_graph_and_xla_agree_with_an_unknown_batch(function):
    fused = Fused(318, 0.6)
    bound = functools.partial(function, max_length=4, fusion=fused.fusion)
    assert_compiled_alike(bound, fused.model)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_logits_are_ranked_in_float32(dtype):
    fused = Fused(319, 0.6)

    def cast_step(step):
        def low(ids, state, memory):
            logits, state, alignment = step(ids, state, memory)
            return ops.cast(logits, dtype), state, ops.cast(alignment, dtype)

        return low

    given = types.SimpleNamespace(start=fused.start, step=cast_step(fused.language_model.step))
    inputs = cast_step(fused.model.step), fused.model.state(), fused.model.memory()
    found = beam_search(*inputs, beam_width=3, max_length=4, fusion=ShallowFusion(given, 0.6))
    exact = fused.search(beam_width=3, max_length=4)
    assert found["scores"].dtype == "float32"
    np.testing.assert_allclose(found["scores"][:, 0], exact["scores"][:, 0], atol=0.1)


def test_reorder_cache_reorders_the_model_alone():
    fused, seen = Fused(320, 0.5), []

    def reorder_cache(state, parents):
        seen.append(set(state))
        return gather_beams(state, parents)

    options = {"beam_width": 3, "max_length": 4}
    found = fused.search(reorder_cache=reorder_cache, **options)
    assert seen and all(keys == {"hash", "nested"} for keys in seen)
    assert_same(found, fused.search(**options))


def test_bad_input_is_named():
    fused = Fused(321, 0.5)
    inputs = fused.model.step, fused.model.state(), fused.model.memory()
    with pytest.raises(ValueError, match="methods start and step.*Received: method without sta"):
        ShallowFusion(fused.model.step, 0.5)
    for weight in (-0.1, 101, "much", float("nan")):
        with pytest.raises(ValueError, match="ShallowFusion expects `weight`"):
            ShallowFusion(fused.fusion.language_model, weight)
    for function in (beam_search, greedy_search):
        with pytest.raises(ValueError, match="`fusion` to be None or a `ShallowFusion`.*=0.5"):
            function(*inputs, max_length=3, fusion=0.5)
        wide = Fused(321, 0.5, vocabulary=11).fusion
        with pytest.raises(ValueError, match="vocabulary of the model, 7 logits. Received: 11"):
            function(*inputs, max_length=3, fusion=wide)
        given = types.SimpleNamespace(start=lambda batch: fused.start(2), step=inputs[0])
        with pytest.raises(ValueError, match=r"`start\(3\)`.* Received: a first dimension of 2"):
            function(*inputs, max_length=3, fusion=ShallowFusion(given, 0.5))
    with pytest.raises(TypeError, match="fusion"):
        sample_search(*inputs, seed=ops.array([1, 2, 3]), max_length=3, fusion=fused.fusion)
