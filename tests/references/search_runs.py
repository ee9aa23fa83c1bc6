"""How the tests of this folder run a search and compare what it returns."""

import dataclasses
import functools

import numpy as np
from keras import ops
from tf_or_skip import tf

from keras_attention.search import (
    AverageLengthPenalty,
    BeamOptions,
    Constraints,
    CoveragePenalty,
    GNMTLengthPenalty,
    SpecialIds,
    beam_search,
    score_sequences,
)

# Each rule: arguments of the search, and of the reference.
RULES = {
    "none": ({}, {}),
    "gnmt positive": ({"length_penalty": GNMTLengthPenalty(0.9)}, {"gnmt": 0.9}),
    "gnmt zero": ({"length_penalty": GNMTLengthPenalty(0.0)}, {"gnmt": 0.0}),
    "gnmt negative": ({"length_penalty": GNMTLengthPenalty(-1.1)}, {"gnmt": -1.1}),
    "average": ({"length_penalty": AverageLengthPenalty()}, {"average": True}),
    "coverage": ({"coverage_penalty": CoveragePenalty(0.7)}, {"beta": 0.7}),
    "both": (
        {"length_penalty": GNMTLengthPenalty(1.3), "coverage_penalty": CoveragePenalty(0.4)},
        {"gnmt": 1.3, "beta": 0.4},
    ),
}


def build_arguments(**options):
    """Returns the arguments of a search for the named options of all its objects.

    So that tests can draw and combine options of several objects by their names.
    """
    owners = {"constraints": Constraints, "options": BeamOptions}
    ids = take_fields(options, SpecialIds)
    if ids:
        options["special_ids"] = SpecialIds(**ids)
    for name, owner in owners.items():
        fields = take_fields(options, owner)
        if fields:
            options[name] = owner(**fields)
    return options


def take_fields(options, owner):
    """Removes the fields of a dataclass from a dict and returns them."""
    names = [field.name for field in dataclasses.fields(owner) if field.name in options]
    return {name: options.pop(name) for name in names}


def call(function, step, state, memory, **options):
    """Calls a search, or a `functools.partial` of one, with options of all its objects."""
    if isinstance(function, functools.partial):
        function, options = function.func, function.keywords | options
    return function(step, state, memory, **build_arguments(**options))


def run(function, model, **options):
    """Returns the results of a search over a model, as NumPy arrays."""
    return arrays(call(function, model.step, model.state(), model.memory(), **options))


def arrays(result):
    return {name: ops.convert_to_numpy(value) for name, value in result.items()}


def search(model, **options):
    return run(beam_search, model, **options)


def hypotheses(result, row):
    """The hypotheses of a row that are not padding, as tuples of ids."""
    pairs = zip(result["ids"][row], result["lengths"][row], strict=True)
    return [tuple(ids[:length].tolist()) for ids, length in pairs if length >= 0]


def assert_found(result, row, expected):
    """Holds a row of a result against (score, log p, ids) of a reference, best first."""
    found = hypotheses(result, row)
    assert found == [ids for _, _, ids in expected[: len(found)]]
    assert len(found) == min(len(expected), result["ids"].shape[1])
    for place, (score, log_prob, _) in enumerate(expected[: len(found)]):
        np.testing.assert_allclose(result["scores"][row, place], score, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(result["log_probs"][row, place], log_prob, rtol=1e-5, atol=1e-5)


def assert_teacher_forced(model, result):
    """Every hypothesis has the log-probability and the alignment of feeding its ids."""
    ids, lengths = result["ids"], result["lengths"]
    if ids.ndim == 2:
        result = {name: value[:, None] for name, value in result.items()}
        ids, lengths = result["ids"], result["lengths"]
    for place in range(ids.shape[1]):
        here = ops.convert_to_tensor(ids[:, place])
        scored = arrays(score_sequences(model.step, model.state(), model.memory(), here))
        real = lengths[:, place] > 0
        for name in ("log_probs", "token_log_probs", "lengths", "alignments"):
            found, expected = result[name][:, place][real], scored[name][real]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def assert_same(one, other, tolerance=1e-5):
    assert set(one) == set(other)
    for name in one:
        if name in ("ids", "lengths"):
            np.testing.assert_array_equal(one[name], other[name])
        else:
            np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance)


def compile_search(function, model, jit_compile, **tensors):
    """Returns `function(step, state, memory, **tensors)` of a HashModel, run with unknown batch.

    The result is called with offsets and the tensors, so that one graph serves several batches.
    """

    def body(offsets, tensors):
        zeros = tf.zeros_like(offsets)
        floats = tf.zeros((tf.shape(offsets)[0], 2, 3))
        state = {"hash": zeros, "nested": [{"position": zeros}, (floats,)]}
        return call(function, model.step, state, {"offsets": offsets}, **tensors)

    specs = {
        name: tf.TensorSpec([None, *np.shape(value)[1:]], np.asarray(value).dtype)
        for name, value in tensors.items()
    }
    return tf.function(
        body, [tf.TensorSpec([None], tf.int32), specs], autograph=False, jit_compile=jit_compile
    )


def assert_compiled_alike(function, model, jit_compile=True, rows=(1,), **tensors):
    """Eager, graph and XLA agree on all rows, and the graph on some of them and on none."""
    tensors = {name: np.asarray(value) for name, value in tensors.items()}
    eager = arrays(
        call(
            function,
            model.step,
            model.state(),
            model.memory(),
            **{name: tf.constant(value) for name, value in tensors.items()},
        )
    )
    graph = compile_search(function, model, False, **tensors)
    given = {name: tf.constant(value) for name, value in tensors.items()}
    assert_same(arrays(graph(tf.constant(model.offsets), given)), eager)
    few = {name: tf.constant(value[list(rows)]) for name, value in tensors.items()}
    alone = arrays(graph(tf.constant(model.offsets[list(rows)]), few))
    assert_same(alone, {name: value[list(rows)] for name, value in eager.items()})
    none = {name: tf.constant(value[:0]) for name, value in tensors.items()}
    for name, value in graph(tf.zeros([0], tf.int32), none).items():  # as a server may send
        assert value.shape == (0, *eager[name].shape[1:])
    if jit_compile:
        xla = compile_search(function, model, True, **tensors)
        assert_same(arrays(xla(tf.constant(model.offsets), given)), eager)
