"""A search in parts: its result is that of the search, and what is certain stays."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from search_models import END, HashModel, TableModel
from search_runs import RULES, arrays, assert_same, build_arguments, run
from tf_or_skip import tf

from keras_attention.search import (
    Constraints,
    ResumableSearch,
    ShallowFusion,
    beam_search,
    greedy_search,
    sample_search,
)

LENGTH = 7
SEEDS = np.array([5, 11, 2], "int32")
BEAM = {"beam_width": 3}
OPTIONS = {
    "greedy": (greedy_search, {}),
    "greedy, no repetition": (greedy_search, {"no_repeat_ngram_size": 1, "min_length": 3}),
    "greedy, limits": (greedy_search, {"max_lengths": np.array([5, 1, 7])}),
    "sample": (sample_search, {"seed": SEEDS, "temperature": 1.3}),
    **{f"beam, {name}": (beam_search, {**BEAM, **rule}) for name, (rule, _) in RULES.items()},
    "one beam": (beam_search, {"beam_width": 1}),
    "wide": (beam_search, {"beam_width": 11}),
    **{
        f"beam, {stopping}": (beam_search, {**BEAM, "stopping": stopping, "length_penalty": 0.6})
        for stopping in ("first", "limit", "heuristic", "shrinking")
    },
    "all": (beam_search, {**BEAM, "finished_candidates": "all"}),
    "groups": (beam_search, {"beam_width": 4, "num_groups": 2, "diversity_penalty": 0.7}),
    "tree": (beam_search, {**BEAM, "return_tree": True}),
    "ngrams": (beam_search, {**BEAM, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3}),
    "prefix": (beam_search, {**BEAM, "prefix": [[5, 4], [6, 0], [0, 0]], "min_length": 2}),
    "greedy, prefix": (greedy_search, {"prefix": [[5, 4], [6, 0], [0, 0]]}),
    "several ends": (beam_search, {**BEAM, "end_id": (3, 6)}),
    "own penalty": (beam_search, {**BEAM, "length_penalty": lambda total, length: total / 2.0}),
}


def models():
    """A search that ends early, one that ends late, and one of which a row ends at once."""
    for seed, end_bias in ((41, 1.0), (43, -1.5), (47, 2.5)):
        yield HashModel(seed=seed, batch=3, vocabulary=11, end_bias=end_bias)


def make(function, model, **options):
    arguments = build_arguments(max_length=LENGTH, **options)
    return ResumableSearch(function, model.step, model.state(), model.memory(), **arguments)


def best(result):
    """The ids and alignments of the best hypothesis of each batch element, without the beam."""
    single = result["ids"].ndim == 2
    return {n: result[n] if single else result[n][:, 0] for n in ("ids", "lengths", "alignments")}


FAST = ("greedy", "beam, both", "groups", "beam, first", "prefix")
EACH = [pytest.param(n, marks=[] if n in FAST else pytest.mark.thorough) for n in OPTIONS]


@pytest.mark.parametrize("num_steps", [1, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", EACH)
def test_the_parts_find_what_the_search_finds_and_certain_tokens_stay(name, num_steps):
    function, options = OPTIONS[name]
    early = 0
    for model in models():
        expected = run(function, model, max_length=LENGTH, **options)
        found = best(expected)
        search = make(function, model, **options)
        state, before = search.start(), np.zeros(3, "int32")
        while True:
            certain = arrays(search.find_certain(state))
            is_active = ops.convert_to_numpy(state.active)
            for row, length in enumerate(certain["lengths"]):
                assert before[row] <= length <= found["lengths"][row]
                inside = np.arange(LENGTH) < length
                np.testing.assert_array_equal(
                    certain["ids"][row], np.where(inside, found["ids"][row], 0)
                )
                alignment = np.where(inside[:, None], found["alignments"][row], 0.0)
                np.testing.assert_allclose(certain["alignments"][row], alignment, atol=1e-6)
            early += (certain["lengths"] > before)[is_active].sum()
            before = certain["lengths"]
            np.testing.assert_array_equal(before[~is_active], found["lengths"][~is_active])
            if not is_active.any():
                break
            state = search.advance(state, num_steps)
        assert_same(arrays(search.finish(state)), expected, tolerance=1e-6)
    assert early > 0 or num_steps > 1 or name == "own penalty"  # something was certain early


def test_a_language_model_and_no_alignments():
    model = HashModel(seed=53, batch=3, vocabulary=11, end_bias=1.0)
    other = HashModel(seed=59, batch=3, vocabulary=11)

    class Language:
        def start(self, batch):
            return other.state()

        def step(self, ids, state, memory):
            logits, state, alignment = other.step(ids, state, memory)
            return logits, state, alignment

    fusion = ShallowFusion(Language(), 0.4)
    for function, options in ((beam_search, BEAM), (greedy_search, {})):
        options = {**options, "fusion": fusion, "return_alignments": False}
        expected = run(function, model, max_length=LENGTH, **options)
        search = make(function, model, **options)
        state = search.start()
        while ops.any(state.active):
            certain = arrays(search.find_certain(state))
            assert set(certain) == {"ids", "lengths"}
            state = search.advance(state)
        assert_same(arrays(search.finish(state)), expected)


def test_every_state_has_the_batch_first_and_rows_are_independent():
    model = HashModel(seed=61, batch=3, vocabulary=11)
    arguments = {**BEAM, "no_repeat_ngram_size": 2, "coverage_penalty": 0.2}
    search = make(beam_search, model, **arguments)
    state = search.advance(search.start(), 2)
    leaves = keras.tree.flatten(state)
    assert {leaf.shape[0] for leaf in leaves} == {3}
    alone = make(beam_search, model.rows([2]), **arguments)
    part = keras.tree.map_structure(lambda leaf: leaf[2:], state)
    expected = arrays(search.finish(search.advance(state, LENGTH)))
    found = arrays(alone.finish(alone.advance(part, LENGTH)))
    assert_same(found, {name: value[2:] for name, value in expected.items()})


def compile_function(mode, function):
    """Compiles a function of tensors: to a graph, or by XLA on TensorFlow and on JAX."""
    if keras.backend.backend() == "jax" and mode == "xla":
        import jax

        return jax.jit(function)
    return tf.function(function, autograph=False, jit_compile=mode == "xla")


@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("name", ["greedy", "beam, both", "groups"])
def test_a_state_passes_from_one_compiled_function_to_another(name, mode):
    function, options = OPTIONS[name]
    model = HashModel(seed=67, batch=3, vocabulary=11, end_bias=-0.5)
    compile_part = functools.partial(compile_function, mode)

    def open_search(offsets):
        zeros = ops.zeros_like(offsets)
        floats = ops.zeros((ops.shape(offsets)[0], 2, 3))
        state = {"hash": zeros, "nested": [{"position": zeros}, (floats,)]}
        arguments = build_arguments(max_length=LENGTH, **options)
        return ResumableSearch(function, model.step, state, {"offsets": offsets}, **arguments)

    offsets = ops.convert_to_tensor(model.offsets)
    state = compile_part(lambda offsets: open_search(offsets).start())(offsets)
    advance = compile_part(lambda offsets, state, n: open_search(offsets).advance(state, n))
    while ops.any(state.active):
        state = advance(offsets, state, ops.convert_to_tensor(2))
    found = compile_part(lambda offsets, state: open_search(offsets).finish(state))(offsets, state)
    assert_same(arrays(found), run(function, model, max_length=LENGTH, **options))


def test_a_search_without_any_hypothesis_ends_without_tokens():
    tables = np.full((1, 6, 6), -1e9)
    tables[0, 2, 4] = tables[0, 4, 5] = 0.0  # 4 5, and then nothing is possible
    tables[0, 5] = np.nan
    model = TableModel(tables)
    search = make(beam_search, model, beam_width=2)
    state = search.start()
    assert arrays(search.find_certain(state))["lengths"].tolist() == [1]
    state = search.advance(state, LENGTH)
    assert arrays(search.find_certain(state))["lengths"].tolist() == [0]
    assert arrays(search.finish(state))["lengths"].tolist() == [[-1, -1]]
    greedy = make(greedy_search, model)
    state = greedy.advance(greedy.start(), LENGTH)
    certain = arrays(greedy.find_certain(state))
    assert certain["ids"][0, :2].tolist() == [4, 5] and certain["lengths"].tolist() == [2]


def test_an_empty_batch_and_a_limit_of_one():
    def step(ids, state, memory):
        return ops.one_hot(ids, 7), state, ops.ones((ids.shape[0], 2))

    for function, options in ((beam_search, BEAM), (greedy_search, {})):
        search = ResumableSearch(function, step, ops.ones((0, 3)), None, max_length=7, **options)
        state = search.start()
        assert arrays(search.find_certain(state))["ids"].shape == (0, LENGTH)
        assert arrays(search.finish(search.advance(state)))["lengths"].shape[0] == 0
    model = HashModel(seed=71, batch=2, vocabulary=7)
    limited = make(beam_search, model, beam_width=2, max_lengths=[1, 1])
    state = limited.start()
    assert not ops.any(state.active)
    assert arrays(limited.find_certain(state))["lengths"].tolist() == [1, 1]


def test_a_prefix_outside_of_the_vocabulary_is_cut_in_every_part():
    model = HashModel(seed=73, batch=2, vocabulary=7)

    @tf.function(autograph=False)
    def search(prefix, num_steps):
        options = build_arguments(max_length=LENGTH, prefix=prefix)
        given = (model.step, model.state(), model.memory())
        parts = ResumableSearch(greedy_search, *given, **options)
        # A second object, as another compiled function has it.
        others = ResumableSearch(greedy_search, *given, **options)
        return others.finish(others.advance(parts.start(), num_steps))

    found = arrays(search(tf.constant([[5, 99], [4, 6]]), tf.constant(LENGTH)))
    expected = run(greedy_search, model, max_length=LENGTH, prefix=[[5, 0], [4, 6]])
    assert_same(found, expected)
    assert END not in expected["ids"][:, :1]


def test_a_search_that_still_runs_is_not_finished():
    model = HashModel(seed=78, batch=2, vocabulary=7)
    given = (model.step, model.state(), model.memory())
    constraints = Constraints(min_length=9)
    search = ResumableSearch(beam_search, *given, max_length=9, constraints=constraints)
    with pytest.raises(ValueError, match=r"a search that has ended.*active=\[True, True\]"):
        search.finish(search.start())


def test_other_functions_and_arguments_are_refused():
    model = HashModel(seed=79, batch=2, vocabulary=7)
    given = (model.step, model.state(), model.memory())
    with pytest.raises(ValueError, match="`greedy_search`, `beam_search` or `sample_search`.*len"):
        ResumableSearch(len, *given, max_length=3)
    with pytest.raises(TypeError, match="beam_width"):
        ResumableSearch(greedy_search, *given, max_length=3, beam_width=2)
    with pytest.raises(TypeError, match="max_length"):
        ResumableSearch(beam_search, *given)
    with pytest.raises(ValueError, match="beam_search expects `beam_width`.*beam_width=0"):
        ResumableSearch(beam_search, *given, max_length=3, beam_width=0)
