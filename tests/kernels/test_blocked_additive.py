"""Additive scores by blocks: the plain form's numbers, forward and backward, in less memory."""

import math
import re

import keras
import numpy as np
import pytest
from keras import ops
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import AdditiveScorer, Attention, BahdanauAttention, ConcatScorer
from keras_attention.kernels import blocked_additive, blocks, execution_mode, tanh_forms
from keras_attention.scorers.additive import additive_scores

SIZES = (3, 11, 13, 19)  # batch, query, key, units: none is a multiple of a block


def plain(query, key, vector):
    return additive_scores(query, key, vector, blockwise=False)


def blockwise(query, key, vector):
    return additive_scores(query, key, vector, blockwise=True)


def arrays(scale=1.0, dtype="float64", sizes=SIZES):
    """Returns query, key and vector, then what the scores are multiplied with for a gradient."""
    batch, queries, keys, units = sizes
    random = np.random.RandomState(3)
    shapes = ((batch, queries, units), (batch, keys, units), (units,), (batch, queries, keys))
    drawn = [random.randn(*shape) for shape in shapes]
    return [(array * (scale if index < 2 else 1.0)).astype(dtype) for index, array in
            enumerate(drawn)]  # fmt: skip


def with_gradients(function, query, key, vector, given):
    """Returns the scores and the gradients of `sum(scores * given)`, on either backend."""
    if keras.backend.backend() == "jax":
        import jax

        scores, back = jax.vjp(function, *map(ops.convert_to_tensor, (query, key, vector)))
        return [scores, *back(ops.cast(given, scores.dtype))]
    inputs = [tf.convert_to_tensor(array) for array in (query, key, vector)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        scores = function(*inputs)
        total = tf.reduce_sum(scores * tf.cast(given, scores.dtype))
    return [scores, *tape.gradient(total, inputs)]


def run_function(run, function, *inputs):
    """Returns what the function makes of arrays, eagerly, in a graph or compiled by XLA."""
    if run == "eager":
        return function(*inputs)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function, static_argnums=0)(*inputs)
    step = tf.function(lambda *x: function(inputs[0], *x), jit_compile=run == "xla")
    return step(*map(tf.convert_to_tensor, inputs[1:]))


def assert_close(found, expected, tolerance):
    """Compares each pair of tensors relative to the largest entry of the expected one."""
    for one, other in zip(found, expected, strict=True):
        one, other = (np.array(ops.cast(x, "float64")) for x in (one, other))
        assert np.all(np.isfinite(one))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())


def truth(data):
    """Returns scores and gradients in float64, written like the equations, loop by loop."""
    query, key, vector, given = (array.astype("float64") for array in data)
    scores, for_query, for_key = np.zeros(given.shape), np.zeros(query.shape), np.zeros(key.shape)
    for_vector = np.zeros(vector.shape)
    for b, i, j in np.ndindex(*given.shape):
        hidden = np.tanh(query[b, i] + key[b, j])
        scores[b, i, j] = vector @ hidden
        to_sum = given[b, i, j] * vector * (1 - hidden**2)
        for_query[b, i] += to_sum
        for_key[b, j] += to_sum
        for_vector += given[b, i, j] * hidden
    return scores, for_query, for_key, for_vector


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_scores_and_gradients_are_those_of_the_equations(dtype, tolerance):
    data = arrays(dtype=dtype)
    assert_close(with_gradients(blockwise, *data), truth(data), tolerance)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 1.0, 3.0, 5.0])
def test_small_and_large_projections_are_exact(scale):
    data = arrays(scale, "float32")
    assert max(np.abs(array).max() for array in data[:2]) < tanh_forms.MAX_QUOTIENT_ARGUMENT
    assert_close(with_gradients(blockwise, *data), truth(data), 1e-5)


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e6])
def test_huge_projections_are_those_of_the_plain_form(scale):
    data = arrays(scale, "float32")
    assert np.abs(data[0]).max() > tanh_forms.MAX_QUOTIENT_ARGUMENT
    assert_close(with_gradients(blockwise, *data), with_gradients(plain, *data), 1e-5)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_quotient_is_exact_up_to_its_limit(sign):
    query, key, vector, given = arrays(dtype="float32")
    limit = np.float32(sign * tanh_forms.MAX_QUOTIENT_ARGUMENT)
    query, key = limit * np.ones_like(query), -limit * np.ones_like(key)
    query[:, ::2] *= np.float32(0.99)  # sums near 0 from large terms
    key[:, ::3] = -key[:, ::3]  # and the largest sums
    data = (query, key, vector, given)
    assert_close(with_gradients(blockwise, *data), truth(data), 1e-5)


@pytest.fixture
def gpu(monkeypatch):
    """The forms that the library chooses on a GPU."""
    monkeypatch.setattr(execution_mode, "has_gpu", lambda: True)
    monkeypatch.setattr(blocks, "has_gpu", lambda: True)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0, 1e3])
def test_fused_sums_of_a_gpu_are_exact_at_every_size(gpu, scale):
    data = arrays(scale, "float32")
    found = run_function("xla", with_gradients, blockwise, *data)
    assert_close(found, truth(data), 1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("sign", [-1, 1])
def test_fused_sums_are_exact_up_to_the_limit_of_the_quotient(gpu, sign):
    query, key, vector, given = arrays(dtype="float32")
    limit = np.float32(sign * tanh_forms.MAX_QUOTIENT_ARGUMENT)
    query, key = limit * np.ones_like(query), -limit * np.ones_like(key)
    query[:, ::2] *= np.float32(0.99)
    key[:, ::3] = -key[:, ::3]
    data = (query, key, vector, given)
    assert_close(run_function("xla", with_gradients, blockwise, *data), truth(data), 1e-5)


def test_zeros_have_zero_scores_and_finite_gradients():
    query, key, vector, given = arrays()
    data = (0 * query, 0 * key, vector, given)
    found = with_gradients(blockwise, *data)
    assert np.all(np.array(found[0]) == 0)
    assert_close(found[1:3], truth(data)[1:3], 1e-12)


@pytest.mark.parametrize(
    ("run", "block"),
    [
        ("eager", 1),  # a query in a block
        ("eager", 13 * 19 * 4),  # a few queries
        ("graph", 13 * 19 * 4),
        ("graph", 13 * 19 * 11 * 2),  # two batch elements, and one of zeros
        ("xla", 13 * 19 * 11 * 2),
        pytest.param("xla", 13 * 19 * 11, marks=pytest.mark.thorough),  # a few units at a time
        ("graph", 2**20),  # everything
    ],
)
def test_every_size_of_a_block_gives_the_same_numbers(run, block, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", block)
    monkeypatch.setattr(blocks, "EAGER_BLOCK_VALUES", block)
    monkeypatch.setattr(blocks, "MAX_EAGER_ITERATIONS", 2**20)
    data = arrays()
    found = run_function(run, with_gradients, blockwise, *data)
    assert_close(found, truth(data), 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("jit_compile", [False, True])
def test_unknown_batch_and_lengths_run_in_one_traced_function(jit_compile):
    traces = []
    units = SIZES[-1]
    signature = [tf.TensorSpec([None, None, units], "float64") for _ in range(2)]
    signature += [tf.TensorSpec([units], "float64"), tf.TensorSpec([None, None, None], "float64")]

    @tf.function(jit_compile=jit_compile, autograph=False, input_signature=signature)
    def step(*data):
        traces.append(data)
        return with_gradients(additive_scores, *data)

    for sizes in (SIZES, (2, 3, 17, units), (5, 8, 1, units)):
        data = arrays(sizes=sizes)
        assert_close(step(*data), with_gradients(plain, *data), 1e-10)
    assert len(traces) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_keeps_its_dtype_and_stays_finite(dtype):
    data = [ops.cast(array, dtype) for array in arrays(dtype="float32")]
    found = with_gradients(blockwise, *data)
    assert {keras.backend.standardize_dtype(x.dtype) for x in found} == {dtype}
    wide = [np.array(ops.cast(array, "float32")) for array in data]
    assert_close(found, truth(wide), 1e-2)


@pytest.mark.parametrize(
    ("run", "sizes", "expected"),
    [
        ("eager", (450, 5, 17, 128), False),  # 45 s where 0.17 do, when rows went one by one
        ("eager", (8, 256, 256, 256), True),
        ("graph", (450, 5, 17, 64), False),
        ("graph", (450, 5, 17, 128), False),
        ("graph", (4096, 9, 15, 32), True),
        ("xla", (450, 5, 17, 64), False),
        ("xla", (450, 5, 17, 128), False),
        ("xla", (2, 256, 256, 64), True),
        ("xla", (4096, 20, 15, 32), False),
        ("eager", (2, 1, 2**16, 2**11), False),  # a decoder's step
    ],
)
def test_blocks_are_used_where_they_pay(run, sizes, expected, monkeypatch):
    monkeypatch.setattr(execution_mode, "get_execution_mode", lambda tensor: run)
    batch, queries, keys, units = sizes
    shapes = (batch, queries, units), (batch, keys, units)
    assert blocked_additive.should_use_blocks(*map(keras.KerasTensor, shapes)) is expected


@pytest.mark.parametrize(
    ("run", "sizes", "expected"),
    [
        ("xla", (8, 64, 64, 256), False),
        ("xla", (8, 256, 256, 256), True),
        ("eager", (8, 256, 256, 256), False),
        ("eager", (8, 1024, 1024, 256), True),
    ],
)
def test_fused_sums_are_used_where_they_pay(gpu, run, sizes, expected, monkeypatch):
    test_blocks_are_used_where_they_pay(run, sizes, expected, monkeypatch)


@pytest.mark.parametrize("make", [AdditiveScorer, ConcatScorer])
def test_scorers_give_the_same_scores_either_way(make):
    query, key, *_ = arrays()
    found = []
    for choice in (False, True):
        set_seed(2)
        scorer = make(units=7, blockwise=choice, dtype="float64")
        found.append(np.array(scorer(query, key)))
    # Keras' tanh on JAX computes float64 in float32, which the plain form cannot help.
    tolerance = 1e-12 if keras.backend.backend() == "tensorflow" else 1e-6
    np.testing.assert_allclose(found[1], found[0], atol=tolerance)


def test_bahdanau_attention_hands_the_choice_to_its_scorer():
    attention = BahdanauAttention(units=5, blockwise=False)
    assert attention.scorer.blockwise is False
    assert BahdanauAttention.from_config(attention.get_config()).scorer.blockwise is False


@pytest.mark.parametrize("make", [AdditiveScorer, ConcatScorer, BahdanauAttention])
def test_another_word_is_refused(make):
    with pytest.raises(ValueError, match="`blockwise`.*'auto', True, False.*blockwise='always'"):
        make(units=3, blockwise="always")


def largest_array(function, *inputs):
    """Returns the size of the largest array in the compiled program of `function`."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    program = compiled.experimental_get_compiler_ir(*inputs)(stage="optimized_hlo")
    shapes = re.findall(r"f32\[([\d,]+)\]", program)
    return max(math.prod(map(int, shape.split(","))) for shape in shapes)


@pytest.mark.thorough
@pytest.mark.parametrize("row_blocks", [2, 0.5])
def test_no_array_is_as_large_as_all_pairs(row_blocks, monkeypatch):
    sizes = (23, 31, 37, 64)
    data = [tf.constant(array) for array in arrays(dtype="float32", sizes=sizes)]
    pairs = math.prod(sizes)
    monkeypatch.setattr(blocks, "BLOCK_VALUES", int(pairs / sizes[0] / row_blocks))
    assert largest_array(lambda *d: with_gradients(plain, *d), *data) >= pairs
    assert largest_array(lambda *d: with_gradients(blockwise, *d), *data) < pairs / 4


@pytest.mark.slow
def test_a_thousand_queries_and_keys_take_less_than_400_megabytes():
    from benchmarks.harness import Case, measure_memory

    sizes = {"batch": 8, "queries": 1024, "keys": 1024, "units": 256}
    options = {**sizes, "score": "additive", "owner": "ours", "jit_compile": False}
    side = Case("ours", "benchmarks.attention:attention_side", options)
    memory = measure_memory([side], 1, threads=2)["ours"]
    assert memory["median_extra_bytes"] < 400e6


class Doubled(AdditiveScorer):
    def score(self, query, prepared, previous_weights=None):
        return 2 * super().score(query, prepared, previous_weights)


def test_a_subclass_that_overrides_score_alone_scores_steps_too():
    layer = Attention(Doubled(7))
    query, value, *_ = (array.astype("float32") for array in arrays())
    query, value = ops.convert_to_tensor(query), ops.convert_to_tensor(value)
    expected = layer(query, value)
    np.testing.assert_allclose(layer.attend(query, layer.prepare(value))[0], expected, atol=1e-6)
