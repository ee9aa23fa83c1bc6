"""The repetition penalty and a processor of logits, in every search, against loops in NumPy."""

import functools

import numpy as np
import pytest
from keras import ops
from search_models import END, HashModel, TableModel, log_softmax
from search_reference import all_hypotheses, diverse_search, list_permitted
from search_reference import beam_search as reference_search
from search_runs import (
    assert_compiled_alike,
    assert_found,
    assert_same,
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
    score_sequences,
)
from keras_attention.search._token_rules import penalize_repetition


def process(logits, ids, num_tokens):
    """Mixes the logits, the tokens so far, their number and their sum."""
    last = ops.take(ids, ops.maximum(num_tokens - 1, 0), axis=1)  # -1 before the first
    total = ops.sum(ops.maximum(ids, 0), axis=1) - ops.sum(ops.cast(ids < 0, "int32"), axis=1)
    moved = ops.expand_dims(3 * total + last + num_tokens, 1) + ops.arange(logits.shape[1])
    return logits * 0.5 + ops.cast(moved % 5, "float32")


class Processed:
    """A model whose reference has processed logits; its step is the model's."""

    def __init__(self, model, max_length, penalty=1.0, processed=False):
        self.model, self.max_length = model, max_length
        self.penalty, self.processed = penalty, processed
        self.vocabulary, self.source = model.vocabulary, model.source

    def reference(self, row, tokens):
        logits, alignment = self.model.reference_logits(row, tokens)
        for token in {*tokens}:
            positive = logits[token] > 0
            logits[token] *= 1 / self.penalty if positive else self.penalty
        if self.processed:
            unwritten = self.max_length - len(tokens)
            moved = 3 * (sum(tokens) - unwritten) + (tokens[-1] if tokens else -1) + len(tokens)
            logits = logits * 0.5 + (moved + np.arange(self.vocabulary)) % 5
        return log_softmax(logits), alignment


CASES = {
    "penalty": {"repetition_penalty": 1.7},
    "reward": {"repetition_penalty": 0.6},
    "processor": {"logits_processor": process},
    "both": {"repetition_penalty": 2.3, "logits_processor": process},
}
each_case = pytest.mark.parametrize("case", list(CASES))
sample_cold = functools.partial(sample_search, seed=np.array([3, 5, 7]), temperature=0.0)


def reference_of(model, case, max_length):
    options = CASES[case]
    penalty = options.get("repetition_penalty", 1.0)
    return Processed(model, max_length, penalty, "logits_processor" in options)


def test_the_worked_example():
    # 4 has the logit 2 and is halved once it is written; 5 has -1 and is doubled.
    tables = np.full((2, 6, 6), -1e9)
    tables[:, :, END], tables[:, :, 4], tables[:, :, 5] = 0.0, 2.0, -1.0
    tables[1, :, 4] = -1e9
    result = run(greedy_search, TableModel(tables), max_length=3, repetition_penalty=2.0)
    assert result["ids"].tolist() == [[4, 4, 4], [3, 0, 0]]
    first = log_softmax([0.0, 2.0, -1.0])[1]
    later = log_softmax([0.0, 1.0, -1.0])[1]  # twice written is penalized once
    np.testing.assert_allclose(result["token_log_probs"][0], [first, later, later], rtol=1e-5)
    forced = {"prefix": np.array([[5, 5, 4], [5, 5, 5]]), "repetition_penalty": 2.0}
    result = run(greedy_search, TableModel(tables), max_length=3, **forced)
    first, later = log_softmax([0.0, -1.0])[1], log_softmax([0.0, -2.0])[1]
    np.testing.assert_allclose(result["token_log_probs"][1], [first, later, later], rtol=1e-5)


def test_what_is_impossible_stays_impossible():
    logits = np.array([[0.5, 7.0, -1e9, -np.inf, np.nan, -3.0, np.inf]], "float32")
    ids = np.array([[1, 2, 3, 4, 6, -1, -1]], "int32")
    for penalty, changed in ((0.25, 28.0), (4.0, 1.75)):
        found = penalize_repetition(
            ops.convert_to_tensor(logits), ops.convert_to_tensor(ids), penalty, pad_id=0
        )
        expected = [[0.5, changed, -1e9, -np.inf, np.nan, -3.0, np.inf]]
        np.testing.assert_array_equal(ops.convert_to_numpy(found), np.float32(expected))


@each_case
def test_a_wide_beam_finds_every_sequence_in_order(case):
    model = HashModel(seed=71, batch=3, vocabulary=7, end_bias=0.5)
    result = search(model, beam_width=127, max_length=4, **CASES[case])
    for row in range(3):
        expected = all_hypotheses(reference_of(model, case, 4), row, 4)
        assert_found(result, row, expected[:127])


@each_case
@pytest.mark.parametrize("num_groups", [1, 3])
def test_a_narrow_beam_equals_the_reference(case, num_groups):
    model = HashModel(seed=72, batch=3, vocabulary=11, end_bias=-1.0)
    constraints = {"no_repeat_ngram_size": 2, "suppress_ids": [5], "min_length": 3}
    limits = {"ngram": 2, "banned": (5,), "min_length": 3}
    options = {"max_length": 5, "num_groups": num_groups, **constraints, **CASES[case]}
    result = search(model, beam_width=3, **options)
    reference = reference_of(model, case, 5)
    for row in range(3):
        if num_groups == 1:
            expected = reference_search(reference, row, 3, 5, limits=limits)
        else:
            expected = diverse_search(reference, row, 3, num_groups, 0.5, 5, limits)
        assert_found(result, row, expected)


@each_case
def test_greedy_search_is_that_of_the_rule_and_of_a_beam_of_one(case):
    model = HashModel(seed=73, batch=3, vocabulary=13, end_bias=-1.0)
    greedy = run(greedy_search, model, max_length=7, **CASES[case])
    reference = reference_of(model, case, 7)
    for row in range(3):
        ids, by_token = [], []
        while len(ids) < 7 and END not in ids:
            log_probs, _ = reference.reference(row, ids)
            ids.append(max(list_permitted(ids, 13), key=lambda t: log_probs[t]))
            by_token.append(log_probs[ids[-1]])
        assert greedy["ids"][row].tolist() == ids + [0] * (7 - len(ids))
        np.testing.assert_allclose(
            greedy["token_log_probs"][row, : len(ids)], by_token, rtol=1e-5, atol=1e-5
        )
    beam = search(model, beam_width=1, max_length=7, **CASES[case])
    assert_same({**greedy, "scores": beam["scores"][:, 0]}, {k: v[:, 0] for k, v in beam.items()})
    cold = run(sample_cold, model, max_length=7, **CASES[case])
    assert (cold.pop("sample_log_probs") == 0).all()
    assert_same(greedy, cold)


def test_a_sample_has_the_probabilities_of_the_processed_logits():
    model = HashModel(seed=74, batch=3, vocabulary=7, end_bias=-1.0)
    seed = np.array([3, 5, 7])
    result = run(sample_search, model, seed=seed, max_length=5, **CASES["both"])
    reference = reference_of(model, "both", 5)
    for row, length in enumerate(result["lengths"]):
        ids = result["ids"][row, :length].tolist()
        steps = [reference.reference(row, ids[:place])[0] for place in range(length)]
        taken = [log_probs[token] for log_probs, token in zip(steps, ids, strict=True)]
        np.testing.assert_allclose(
            result["token_log_probs"][row, :length], taken, rtol=1e-5, atol=1e-5
        )
        # What is drawn from leaves out padding and BOS.
        drawn = sum(
            t - np.log1p(-np.exp(s[[0, 2]]).sum()) for t, s in zip(taken, steps, strict=True)
        )
        np.testing.assert_allclose(result["sample_log_probs"][row], drawn, rtol=1e-4)
    again = ops.convert_to_tensor(result["ids"])
    own = score_sequences(model.step, model.state(), model.memory(), again)["log_probs"]
    assert (np.abs(ops.convert_to_numpy(own) - result["log_probs"]) > 1e-2).all()


def test_a_processor_that_changes_nothing_and_a_penalty_of_one_change_nothing():
    model = HashModel(seed=75, batch=3, vocabulary=11)
    plain = search(model, beam_width=3, max_length=5)
    same = {"logits_processor": lambda logits, ids, num_tokens: logits, "repetition_penalty": 1}
    found = search(model, beam_width=3, max_length=5, **same)
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_processor_may_decide_alone_and_constraints_come_after_it():
    model = HashModel(seed=76, batch=3, vocabulary=11)

    def count_up(logits, ids, num_tokens):
        return ops.where(ops.arange(11) == 4 + num_tokens, 0.0, logits * 0.0 - 1e9)

    result = search(model, beam_width=2, max_length=3, logits_processor=count_up)
    assert [hypotheses(result, row) for row in range(3)] == [[(4, 5, 6)]] * 3
    options = {"suppress_ids": [5], "max_length": 3, "logits_processor": count_up}
    assert run(greedy_search, model, **options)["lengths"].tolist() == [1, 1, 1]
    prefix = {"prefix": np.array([[7]] * 3), "max_length": 3, "logits_processor": count_up}
    with pytest.raises(ValueError, match="expects prefixes that"):
        run(greedy_search, model, **prefix)


@pytest.mark.thorough
def test_eager_graph_and_xla_agree():
    model = HashModel(seed=77, batch=3, vocabulary=13, end_bias=0.5)
    options = {"max_length": 5, **CASES["both"]}
    assert_compiled_alike(functools.partial(beam_search, beam_width=3, **options), model)
    assert_compiled_alike(functools.partial(greedy_search, **options), model)


def test_a_search_that_asks_for_neither_stores_no_ids_and_has_no_operation_more():
    model = HashModel(seed=78, batch=3, vocabulary=11)

    def count(**options):
        constraints = Constraints(**options)

        def search_greedily():
            arguments = (model.step, model.state(), model.memory())
            return greedy_search(*arguments, max_length=5, constraints=constraints)

        graph = (
            tf.function(search_greedily, autograph=False)
            .get_concrete_function()
            .graph.as_graph_def()
        )
        return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)

    plain = count()
    assert count(repetition_penalty=1.0, logits_processor=None) == plain
    assert count(repetition_penalty=1.1) > plain


SHAPE = r"`logits_processor` to return float32 logits of the shape that it receives, \(3, 7\)\."


@pytest.mark.parametrize(
    ("processor", "text"),
    [
        (lambda x, ids, n: None, "Received: None"),
        (lambda x, ids, n: ops.convert_to_numpy(x), r"Received: array"),
        (lambda x, ids, n: x[:, :5], r"Received: shape=\(3, 5\), dtype=float32"),
        (lambda x, ids, n: x[:2], r"Received: shape=\(2, 7\), dtype=float32"),
        (lambda x, ids, n: ops.sum(x, axis=1), r"Received: shape=\(3,\), dtype=float32"),
        (lambda x, ids, n: ops.cast(x, "float16"), r"Received: shape=\(3, 7\), dtype=float16"),
    ],
)
@pytest.mark.parametrize("function", [greedy_search, beam_search, sample_cold])
def test_a_processor_returns_logits(processor, text, function):
    model = HashModel(seed=79, batch=3, vocabulary=7)
    with pytest.raises(ValueError, match=f"_search expects {SHAPE} {text}"):
        run(function, model, max_length=3, logits_processor=processor)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"repetition_penalty": 0}, r"`repetition_penalty` to be a number in \(0, .*penalty=0"),
        ({"repetition_penalty": -1.2}, r"`repetition_penalty` to be a number.*penalty=-1.2"),
        ({"repetition_penalty": "1.2"}, "`repetition_penalty` to be a number.*penalty='1.2'"),
        ({"logits_processor": "drop"}, "`logits_processor` to be None or a callable.*'drop'"),
        ({"logits_processor": HashModel}, "`logits_processor` to be None or a callable.*HashMod"),
    ],
)
def test_options_must_be_sound(options, text):
    with pytest.raises(ValueError, match=f"Constraints expects {text}"):
        Constraints(**options)
