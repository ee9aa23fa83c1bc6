"""`check_beam_search` passes right steps and names what a wrong one breaks."""

import numpy as np
import pytest
from keras import ops
from search_models import END, HashModel, TableModel
from search_runs import RULES, build_arguments
from tf_or_skip import tf

from keras_attention.search import (
    BeamOptions,
    _beam_search_invariants,
    _enumeration,
    beam_search,
    check_beam_search,
)


def model_of(batch=3, seed=121, **options):
    return HashModel(seed=seed, batch=batch, vocabulary=7, **options)


def check(model, step=None, **options):
    step = model.step if step is None else step
    options = {"max_length": 3, **options}
    return check_beam_search(step, model.state(), model.memory(), **build_arguments(**options))


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["none", "both"])
def test_a_right_step_passes(rule):
    assert 0.0 <= check(model_of(end_bias=0.5), **RULES[rule][0]) < 1e-5


@pytest.mark.thorough
def test_numbers_are_penalties_here_too():
    assert check(model_of(end_bias=0.5), length_penalty=0.6, coverage_penalty=0.2) < 1e-5


@pytest.mark.thorough
def test_a_right_step_passes_under_xla():
    assert check(model_of(batch=2), beam_width=2, max_length=3, jit_compile=True) < 1e-5


@pytest.mark.thorough
@pytest.mark.parametrize("batch", [1, 2])
def test_few_rows_large_vocabularies_and_ties_pass(batch):
    if batch == 1:
        assert check(HashModel(seed=122, batch=1, vocabulary=131), max_length=2) < 1e-5
    ties = TableModel(np.zeros((batch, 7, 7)))  # every hypothesis has the same score
    assert check(ties, max_length=3) < 1e-5


@pytest.mark.thorough
def test_few_hypotheses_pass():
    tables = np.full((2, 7, 7), -1e9)
    tables[0, :, 5], tables[1, :, END] = 0.0, 0.0
    assert check(TableModel(tables)) < 1e-5


def shares_beams(ids, state, memory, model):
    logits, state, alignment = model.step(ids, state, memory)
    beams = len(ids) // model.batch
    hashed = ops.repeat(state["hash"][::beams], beams)
    return logits, {**state, "hash": hashed}, alignment


def tiles_memory(ids, state, memory, model):
    beams = len(ids) // len(memory["offsets"])
    tiled = {"offsets": ops.tile(memory["offsets"], (beams,))}
    return model.step(ids, state, tiled)


def sees_neighbors(ids, state, memory, model):
    logits, state, alignment = model.step(ids, state, memory)
    total = ops.cast(ops.sum(memory["offsets"]) % 7, "float32")
    return logits + ops.cast(ops.arange(7), "float32") * total, state, alignment


class CountsCalls:
    """Keeps the position on itself instead of in the state."""

    def __init__(self):
        self.calls = 0

    def __call__(self, ids, state, memory, model):
        self.calls += 1
        logits, state, alignment = model.step(ids, state, memory)
        return ops.roll(logits, self.calls, axis=1), state, alignment


def sums_to_more(ids, state, memory, model):
    logits, state, alignment = model.step(ids, state, memory)
    return logits, state, alignment * 2.0


def reads_padding(ids, state, memory, model):
    return model.step(ids, state, memory)


def differs_compiled(ids, state, memory, model):
    logits, state, alignment = model.step(ids, state, memory)
    return logits if tf.executing_eagerly() else logits[:, ::-1], state, alignment


FAULTS = {
    "shares beams": (shares_beams, {}, "differ from those of feeding the returned ids to `step`"),
    "tiles memory": (tiles_memory, {}, "differ from those of feeding the returned ids to `step`"),
    "counts calls": (CountsCalls(), {}, "differ from those of feeding the returned ids to `step`"),
    "neighbors": (sees_neighbors, {}, r"batch elements \[0\] alone have other results"),
    "sum": (sums_to_more, {}, "alignments of at least 0 that sum to at most 1. .*largest sum 2"),
    "padding": (reads_padding, {"masked": True}, "exactly 0 where `memory_mask` is False"),
    "compiled": (differs_compiled, {}, "a search in a graph differs from an eager one"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", list(FAULTS))
def test_each_fault_of_a_step_is_found(fault):
    function, options, text = FAULTS[fault]
    model = model_of()
    if options.pop("masked", False):
        options["memory_mask"] = ops.convert_to_tensor([[True, True, False]] * 3)

    def step(ids, state, memory):
        return function(ids, state, memory, model)

    with pytest.raises(AssertionError, match=f"check_beam_search.*{text}"):
        check(model, step, **options)


def broken(change, only=lambda options: True):
    """A search whose result `change` spoils, where `only` says so of its options."""

    def search(*args, **options):
        result = {k: np.array(v) for k, v in beam_search(*args, **options).items()}
        if only(options):
            change(result)
        return {name: ops.convert_to_tensor(value) for name, value in result.items()}

    return search


def twice(result):
    for value in result.values():
        value[1, 1] = value[1, 0]


def backwards(result):
    for value in result.values():
        value[1] = value[1, ::-1].copy()


def after_the_end(result):
    result["ids"][result["ids"] == 0] = 5


def worse(result):
    for value in result.values():
        value[:, 0] = value[:, 1]


SPOILED = {
    "duplicates": (twice, lambda options: True, "the same hypothesis twice, element 1"),
    "order": (backwards, lambda options: True, "hypotheses that are not sorted, element 1"),
    "padding": (after_the_end, lambda options: True, "ids after the end, element 0"),
    "stopping": (
        worse,
        lambda options: options.get("options", BeamOptions()).stopping == "limit",
        "stopping early changes the answer. In batch element 0, place 0",
    ),
    "greedy": (
        lambda result: result["ids"].__setitem__((0, 0, 0), 1),
        lambda options: options["beam_width"] == 1,
        "a beam of 1 differs from the greedy search. In batch element 0, place 0",
    ),
    "exhaustive": (
        worse,
        lambda options: options["beam_width"] > 19,
        "a wide beam is not the list of all sequences. In batch element 0, place 0",
    ),
}


@pytest.mark.parametrize("fault", list(SPOILED))
def test_each_fault_of_a_search_is_found(fault, monkeypatch):
    change, only, text = SPOILED[fault]
    monkeypatch.setattr(_beam_search_invariants, "beam_search", broken(change, only))
    with pytest.raises(AssertionError, match=f"check_beam_search found (that )?{text}"):
        check(model_of(end_bias=0.5))


def test_memory_of_another_layout_is_taken_apart_by_the_user():
    model = model_of()

    def step(ids, state, memory):
        return model.step(ids, state, {"offsets": memory["turned"][0]})

    memory = {"turned": ops.convert_to_tensor(model.offsets[None])}
    options = {"max_length": 3, "beam_width": 2}
    with pytest.raises(Exception):  # noqa: B017 - whatever the step raises when rows do not fit
        check_beam_search(step, model.state(), {**memory, "turned": memory["turned"]}, **options)
    difference = check_beam_search(
        step,
        model.state(),
        memory,
        take_rows=lambda memory, rows: {
            "turned": ops.take(memory["turned"], np.array(rows), axis=1)
        },
        **options,
    )
    assert difference < 1e-5


def test_sequences_are_all_enumerated():
    ids, lengths = _enumeration.enumerate_sequences((4, 5, 6), (END,), 0, max_length=3)
    assert len(ids) == 1 + 3 + 9 + 27 == len({tuple(row) for row in ids.tolist()})
    assert np.bincount(lengths).tolist() == [0, 1, 3, 36]
    assert _enumeration.choose_enumerable_length(3, 1, limit=40, max_length=9) == 3
    assert _enumeration.choose_enumerable_length(3, 1, limit=39, max_length=9) == 2
    assert _enumeration.choose_enumerable_length(3, 1, limit=3, max_length=9) == 0
    assert _enumeration.choose_enumerable_length(3, 1, limit=40, max_length=2) == 2


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="`beam_width` to be a positive int"):
        check(model_of(), beam_width=0)
    with pytest.raises(ValueError, match="`max_length` to be a positive int"):
        check(model_of(), max_length=0)
    with pytest.raises(ValueError, match=r"`tolerance` to be a number in \[0, inf\)"):
        check(model_of(), tolerance=-1.0)
