"""Sampling: the distribution it draws from, and what a row's answer depends on."""

import functools
import itertools

import numpy as np
import pytest
from keras import ops
from search_models import HashModel, TableModel, log_softmax
from search_runs import (
    arrays,
    assert_compiled_alike,
    assert_same,
    assert_teacher_forced,
    run,
)

from keras_attention.search import greedy_search, sample_search
from keras_attention.search._token_sampling import select_nucleus

SEEDS = np.array([11, 13, 17, 19, 23])
ROWS = 4001


def sample(model, **options):
    options = {"seed": SEEDS[: model.batch], "max_length": 6, **options}
    return run(sample_search, model, **options)


def test_log_probs_and_alignments_are_those_of_the_ids():
    model = HashModel(seed=91, batch=5, vocabulary=11, end_bias=0.5)
    for options in ({}, {"temperature": 3.0}, {"top_k": 3}, {"top_p": 0.5}):
        result = sample(model, **options)
        assert len(set(result["lengths"].tolist())) > 1
        assert_teacher_forced(model, result)


def keep_probabilities(logits, temperature, top_k, top_p):
    """Returns the probabilities of drawing each token, with loops."""
    log_probs = log_softmax(np.asarray(logits, "float64") / temperature)
    order = sorted(range(len(logits)), key=lambda token: -log_probs[token])[:top_k]
    mass = np.exp(log_probs[order]).sum()
    kept, total = [], 0.0
    for token in order:
        if top_p is not None and kept and total >= top_p:
            break
        kept.append(token)
        total += np.exp(log_probs[token]) / mass
    probabilities = np.zeros(len(logits))
    probabilities[kept] = np.exp(log_probs[kept])
    return probabilities / probabilities.sum()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 3},
        {"top_p": 0.6},
        {"temperature": 1.7, "top_k": 5, "top_p": 0.8},
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_they_are_probable(options):
    # One step, the same logits in each row, seeds that follow one another.
    logits = np.array([-1e9, 0.3, -1e9, 1.1, 0.9, -0.5, 0.1, 2.0, -2.0], "float32")
    expected = keep_probabilities(
        logits, **{"temperature": 1.0, "top_k": None, "top_p": None, **options}
    )

    def step(ids, state, memory):
        rows = ops.ones_like(state["rows"])[:, None]
        return rows * ops.convert_to_tensor(logits), state, rows

    state = {"rows": np.zeros(ROWS, "float32")}
    result = sample_search(step, state, None, seed=np.arange(ROWS), max_length=1, **options)
    counts = np.bincount(ops.convert_to_numpy(result["ids"])[:, 0], minlength=len(logits))
    assert (counts[expected == 0] == 0).all()
    places = expected > 0
    chi_squared = ((counts - ROWS * expected) ** 2)[places] / (ROWS * expected[places])
    assert chi_squared.sum() < 30.0  # at most 6 degrees of freedom: 1 in 25,000
    drawn = expected[ops.convert_to_numpy(result["ids"])[:, 0]]
    np.testing.assert_allclose(result["sample_log_probs"], np.log(drawn), atol=1e-4)


@pytest.mark.parametrize("end_bias", [-9.0, 0.0, 2.0])
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.3}], ids=str)
def test_temperature_zero_is_greedy(end_bias, options):
    model = HashModel(seed=92, batch=5, vocabulary=13, end_bias=end_bias)
    model.logits[:, 5] = model.logits[:, 6]  # ties, which go to the smaller id
    greedy = run(greedy_search, model, max_length=6)
    cold = sample(model, temperature=0.0, **options)
    assert (cold.pop("sample_log_probs") == 0).all()
    assert_same(cold, greedy)


def test_low_temperature_tends_to_greedy():
    model = HashModel(seed=93, batch=5, vocabulary=13)
    np.testing.assert_array_equal(
        sample(model, temperature=1e-3)["ids"], run(greedy_search, model, max_length=6)["ids"]
    )


def test_top_k_of_one_is_greedy_at_any_temperature():
    model = HashModel(seed=93, batch=5, vocabulary=13)
    np.testing.assert_array_equal(
        sample(model, temperature=9.0, top_k=1)["ids"],
        run(greedy_search, model, max_length=6)["ids"],
    )


def test_each_row_has_its_own_temperature():
    model = HashModel(seed=94, batch=5, vocabulary=13)
    temperature = np.array([0.0, 0.5, 1.0, 2.0, 0.0], "float32")
    together = sample(model, temperature=temperature)
    for row, value in enumerate(temperature):
        alone = sample(model.rows([row]), seed=SEEDS[[row]], temperature=float(value))
        assert_same(alone, {name: array[[row]] for name, array in together.items()})


def test_a_mass_that_tokens_reach_exactly_keeps_no_further_one():
    parts = [p for p in itertools.product(range(1, 18), repeat=4) if sum(p) == 20]
    parts = np.array(sorted({tuple(sorted(p, reverse=True)) for p in parts}))
    logits = ops.convert_to_tensor(np.log(parts / 20).astype("float32"))
    for mass in range(1, 21):
        kept = ops.convert_to_numpy(select_nucleus(logits, mass / 20))
        before = np.cumsum(parts, axis=1) - parts
        np.testing.assert_array_equal(kept, before < mass)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"top_k": 4, "top_p": 0.9}], ids=str)
def test_a_row_depends_on_its_seed_and_on_nothing_else(options):
    model = HashModel(seed=95, batch=5, vocabulary=13, end_bias=-1.0)
    together = sample(model, temperature=1.5, **options)
    for order in ([3], [2, 2, 1, 3, 0, 4]):
        apart = sample(model.rows(order), seed=SEEDS[order], temperature=1.5, **options)
        assert_same(apart, {name: value[order] for name, value in together.items()})
    # A longer limit shows more of the same sequence, a limit of its own less.
    longer = sample(model, max_length=9, temperature=1.5, **options)
    np.testing.assert_array_equal(longer["ids"][:, :6], together["ids"])
    limits = np.array([1, 2, 3, 4, 5])
    shorter = sample(model, max_lengths=limits, temperature=1.5, **options)
    kept = np.arange(6) < limits[:, None]
    np.testing.assert_array_equal(shorter["ids"], np.where(kept, together["ids"], 0))
    others = sample(model, seed=SEEDS + 1, temperature=1.5, **options)
    assert (others["ids"] != together["ids"]).any(axis=1).all()


def test_seeds_of_one_and_of_two_words():
    model = HashModel(seed=96, batch=5, vocabulary=101)
    one = sample(model, temperature=9.0)
    two = sample(model, seed=np.stack([SEEDS, 0 * SEEDS], axis=1), temperature=9.0)
    other = sample(model, seed=np.stack([SEEDS, 1 + 0 * SEEDS], axis=1), temperature=9.0)
    assert_same(one, two)
    assert (one["ids"] != other["ids"]).any(axis=1).all()
    assert_same(one, sample(model, seed=ops.convert_to_tensor(SEEDS), temperature=9.0))


def test_wide_seeds_are_not_cut():
    model, wide = HashModel(seed=96, batch=5, vocabulary=101), SEEDS.astype("int64")
    narrow = sample(model, temperature=9.0)
    assert_same(narrow, sample(model, seed=wide, temperature=9.0))
    if "int64" in str(ops.convert_to_tensor(wide).dtype):  # JAX has none unless asked
        other = sample(model, seed=wide + 2**32, temperature=9.0)
        assert (narrow["ids"] != other["ids"]).any(axis=1).all()


def test_a_mass_of_one_is_every_token():
    # Of the seeds below 307, 246 and four others draw one of the last 31 tokens in eleven steps.
    seeds, vocabulary = np.array([0, 19, 202, 246, 291, 297, 1]), 50_000
    rows = len(seeds)

    def step(ids, state, memory):
        return ops.zeros((rows, vocabulary)), state, ops.zeros((rows, 1))

    options = {"seed": seeds, "max_length": 11, "return_alignments": False}
    every, whole = (
        arrays(sample_search(step, {"row": ops.zeros((rows, 1))}, None, top_p=mass, **options))
        for mass in (None, 1.0)
    )
    # Rounded sums reach 1 some 30 tokens before the last.
    assert (every["ids"] > vocabulary - 31).any(axis=1).sum() == 5
    np.testing.assert_array_equal(every["ids"], whole["ids"])


def test_nothing_unknown_padded_or_infinite_comes_out():
    tables = np.full((3, 7, 7), -np.inf)
    tables[0] = np.nan
    tables[1, :, 5] = 0.0
    tables[2, :, [0, 2, 4]] = 3.0  # padding and start are never drawn
    for options in ({}, {"temperature": 1e6}, {"top_p": 0.9}, {"top_k": 7}):
        result = sample(TableModel(tables), max_length=3, **options)
        assert all(np.isfinite(value).all() for value in result.values())
        assert result["ids"].tolist() == [[0, 0, 0], [5, 5, 5], [4, 4, 4]]
        np.testing.assert_array_equal(result["lengths"], [0, 3, 3])


@pytest.mark.thorough
def test_eager_graph_and_xla_agree_with_unknown_batch():
    model = HashModel(seed=97, batch=5, vocabulary=53, end_bias=2.0)
    sample_all = functools.partial(sample_search, max_length=5, top_k=11, top_p=0.95)
    temperature = np.array([0.0, 0.5, 1.0, 2.0, 1.0], "float32")
    given = {"seed": SEEDS.astype("int32"), "temperature": temperature}
    assert_compiled_alike(sample_all, model, rows=(3, 1), **given)
    whole = functools.partial(sample_search, max_length=5)
    assert_compiled_alike(whole, model, jit_compile=False, rows=(0,), **given)


def test_alignments_can_be_left_out():
    model = HashModel(seed=98, batch=3, vocabulary=7)
    bare = sample(model, return_alignments=False)
    assert sorted(bare) == ["ids", "lengths", "log_probs", "sample_log_probs", "token_log_probs"]
    np.testing.assert_array_equal(bare["ids"], sample(model)["ids"])


def test_low_precision_logits_are_drawn_in_float32():
    model = HashModel(seed=99, batch=3, vocabulary=7)

    def step(ids, state, memory):
        logits, state, alignment = model.step(ids, state, memory)
        return ops.cast(logits, "bfloat16"), state, alignment

    given = {"seed": SEEDS[:3], "max_length": 4, "top_p": 0.9}
    result = arrays(sample_search(step, model.state(), model.memory(), **given))
    assert result["log_probs"].dtype == result["sample_log_probs"].dtype == "float32"


@pytest.mark.parametrize(
    "options, text",
    [
        ({"seed": 7}, r"`seed` to be one int per .*, \(batch,\) or \(batch, 2\).*seed=array\(7\)"),
        ({"seed": np.array([1.0, 2.0, 3.0])}, "`seed` to be one int per batch element"),
        ({"seed": np.array([1, 2])}, r"one entry for each of the 3 batch.*seed.shape=\(2,\)"),
        ({"seed": np.zeros((3, 3), "int32")}, r"`seed` to be one int.*seed.shape=\(3, 3\)"),
        ({"temperature": -0.1}, r"`temperature` to be a number in \[0, 1000000.*=-0.1"),
        ({"temperature": float("nan")}, "`temperature` to be a number in"),
        ({"temperature": np.array([1.0, -1.0, 1.0])}, "`temperature` to be a number from 0"),
        ({"temperature": np.ones((3, 1))}, "`temperature` to be a number from 0"),
        ({"temperature": np.ones(2)}, r"one entry for each of the 3 batch.*shape=\(2,\)"),
        ({"top_k": 0}, "`top_k` to be a positive int. Omit it.*top_k=0"),
        ({"top_p": 0.0}, r"`top_p` to be a number in \(0, 1\].*top_p=0.0"),
        ({"top_p": 1.1}, r"`top_p` to be a number in \(0, 1\].*top_p=1.1"),
        ({"max_length": 0}, "`max_length` to be a positive int.*max_length=0"),
        ({"min_length": 7}, "`min_length` to be at most `max_length`"),
        ({"min_length": np.array([1, 7, 1])}, "`min_length` to be at most.*\\[1, 7, 1\\]"),
    ],
)
def test_arguments_must_fit(options, text):
    with pytest.raises(ValueError, match=f"sample_search expects.*{text}"):
        sample(HashModel(seed=0, batch=3, vocabulary=7), **options)
