"""Dot attention by blocks: the dense form's numbers under every mask, in less memory."""

import math
import re

import keras
import numpy as np
import pytest
from keras import ops
from tf_or_skip import tf

from keras_attention.kernels import blocks
from keras_attention.kernels.blocked_dot import blockwise_dot_attention

BATCH, HEADS, KV_HEADS, QUERIES, KEYS, DIM, VALUE_DIM = 3, 6, 2, 13, 17, 5, 7
SCALE = 0.3


def data(dtype="float64", heads=True):
    random = np.random.RandomState(4)
    head, kv_head = ((HEADS,), (KV_HEADS,)) if heads else ((), ())
    shapes = (
        (BATCH, *head, QUERIES, DIM),
        (BATCH, *kv_head, KEYS, DIM),
        (BATCH, *kv_head, KEYS, VALUE_DIM),
    )
    return [random.randn(*shape).astype(dtype) for shape in shapes]


def masks():
    """Returns a key mask with an empty row, a query mask and a mask of pairs."""
    return {
        "key_mask": np.arange(KEYS) < np.array([[17], [11], [0]]),
        "query_mask": np.arange(QUERIES) < np.array([[13], [7], [11]]),
        "attention_mask": np.random.RandomState(6).rand(BATCH, QUERIES, KEYS) < 0.8,
    }


POSITION = np.array([0, 2, 5], dtype="int32")
CASES = {
    "none": {},
    "keys": {"key_mask": masks()["key_mask"]},
    "all": masks(),
    "use_causal_mask": {"use_causal_mask": True},
    "causal at a position": {"use_causal_mask": True, "position_offset": POSITION},
    "everything": {**masks(), "use_causal_mask": True, "position_offset": POSITION},
}


def find_valid_pairs(case):
    """Returns the mask of a case, `(batch, query, key)`, pair by pair."""
    everything = {name: np.ones_like(mask) for name, mask in masks().items()}
    given, kept = {**everything, **case}, np.zeros((BATCH, QUERIES, KEYS), bool)
    for b, i, j in np.ndindex(*kept.shape):
        at = i + case.get("position_offset", np.zeros(BATCH, int))[b]
        kept[b, i, j] = (
            given["key_mask"][b, j]
            and given["query_mask"][b, i]
            and given["attention_mask"][b, i, j]
            and not (case.get("use_causal_mask") and j > at)
        )
    return kept


def dense(query, key, value, case):
    """Returns the contexts in NumPy, head by head and query by query."""
    kept = find_valid_pairs(case)
    context = np.zeros((*query.shape[:3], VALUE_DIM))
    for b, h, i in np.ndindex(*query.shape[:3]):
        if not kept[b, i].any():
            continue
        group = h // (HEADS // KV_HEADS)
        keys, values = key[b, group][kept[b, i]], value[b, group][kept[b, i]]
        scores = SCALE * keys @ query[b, h, i]
        weights = np.exp(scores - scores.max())
        context[b, h, i] = weights @ values / weights.sum()
    return context


def call(query, key, value, case, **options):
    case = {
        name: ops.convert_to_tensor(given) if isinstance(given, np.ndarray) else given
        for name, given in case.items()
    }
    query, key, value = map(ops.convert_to_tensor, (query, key, value))
    return blockwise_dot_attention(query, key, value, SCALE, **case, **options)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("queries_per_block", [None, 1, 4])
def test_contexts_are_those_of_the_dense_form(case, queries_per_block):
    query, key, value = data()
    found = np.array(call(query, key, value, case, queries_per_block=queries_per_block))
    np.testing.assert_allclose(found, dense(query, key, value, case), atol=1e-12)


def test_tensors_of_rank_3_are_one_head():
    query, key, value = data(heads=False)
    case = CASES["everything"]
    found = call(query, key, value, case, queries_per_block=4)
    wide = call(query[:, None], key[:, None], value[:, None], case)
    np.testing.assert_allclose(np.array(found), np.array(wide)[:, 0], atol=1e-12)


def tape_gradients(function, inputs):
    inputs = [tf.convert_to_tensor(array) for array in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(tf.sin(tf.cast(function(*inputs), "float64")))
    return tape.gradient(total, inputs)


def automatic(query, key, value, case):
    """The dense form in TensorFlow, for its automatic gradient."""
    group = HEADS // KV_HEADS
    key, value = (tf.repeat(tensor, group, axis=1) for tensor in (key, value))
    scores = SCALE * tf.matmul(query, key, transpose_b=True)
    kept = tf.constant(find_valid_pairs(case)[:, None])
    weights = tf.nn.softmax(tf.where(kept, scores, tf.constant(-1e9, scores.dtype)))
    return tf.matmul(tf.where(kept, weights, tf.zeros((), weights.dtype)), value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("queries_per_block", [None, 4])
def test_gradients_are_those_of_the_dense_form(case, queries_per_block):
    inputs = data()
    found = tape_gradients(lambda *x: call(*x, case, queries_per_block=queries_per_block), inputs)
    expected = tape_gradients(lambda *x: automatic(*x, case), inputs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-12)


def test_gradients_on_jax_are_those_of_differences():
    if keras.backend.backend() != "jax":
        pytest.skip("the backend is not JAX")
    import jax

    inputs, case = data("float32"), CASES["everything"]
    function = lambda *x: ops.sum(ops.sin(call(*x, case, queries_per_block=4)))  # noqa: E731
    for argument, gradient in enumerate(jax.grad(function, (0, 1, 2))(*inputs)):
        direction = np.random.RandomState(1).randn(*inputs[argument].shape)
        sides = []
        for sign in (1, -1):
            moved = list(inputs)
            moved[argument] = (inputs[argument] + sign * 1e-2 * direction).astype("float32")
            sides.append(float(function(*moved)))
        slope = (sides[0] - sides[1]) / 2e-2
        assert float(np.sum(np.array(gradient) * direction)) == pytest.approx(slope, rel=1e-2)


@pytest.mark.thorough
@pytest.mark.parametrize("jit_compile", [False, True])
def test_unknown_batch_and_lengths_run_in_one_traced_function(jit_compile):
    traces = []
    shapes = [(None, HEADS, None, DIM), (None, KV_HEADS, None, DIM), (None, KV_HEADS, None, 7)]
    signature = [tf.TensorSpec(shape, "float64") for shape in shapes]
    signature += [tf.TensorSpec((None, None), "bool")] * 2

    @tf.function(jit_compile=jit_compile, autograph=False, input_signature=signature)
    def step(query, key, value, key_mask, query_mask):
        traces.append(query)
        case = {"key_mask": key_mask, "query_mask": query_mask, "use_causal_mask": True}
        return tape_gradients(lambda *x: call(*x, case), (query, key, value))

    for rows, queries, keys in ((3, 13, 17), (2, 5, 3), (1, 67, 71)):
        query, key, value = (
            np.resize(array, (rows, array.shape[1], length, array.shape[3]))
            for array, length in zip(data(), (queries, keys, keys), strict=True)
        )
        kept = {
            "key_mask": np.arange(keys)[None] < np.arange(1, rows + 1)[:, None] * 3,
            "query_mask": np.arange(queries)[None] < np.arange(rows)[:, None] * 4,
        }
        found = step(query, key, value, kept["key_mask"], kept["query_mask"])
        case = {**kept, "use_causal_mask": True}
        expected = tape_gradients(
            lambda *x, c=case: call(*x, c, queries_per_block=3), (query, key, value)
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-12)
    assert len(traces) == 1


def test_masked_content_may_be_nan_and_changes_nothing():
    query, key, value = data()
    case = CASES["all"]
    clean = tape_gradients(lambda *x: call(*x, case), (query, key, value))
    for array, mask in ((query, "query_mask"), (key, "key_mask"), (value, "key_mask")):
        array[np.broadcast_to(~case[mask][:, None, :, None], array.shape)] = np.nan
    value[1, :, 12:] = np.inf
    spoiled = tape_gradients(lambda *x: call(*x, case), (query, key, value))
    for one, other in zip(spoiled, clean, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_empty_rows_are_zero_and_extreme_scores_finite(dtype):
    query, key, value = (ops.cast(array, dtype) for array in data("float32"))
    case = CASES["everything"]
    context = call(query * 100, key, value, case)
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    context = np.array(ops.cast(context, "float32"))
    empty = np.broadcast_to(~find_valid_pairs(case).any(-1)[:, None], context.shape[:3])
    assert empty.any() and np.all(context[empty] == 0) and np.all(np.isfinite(context))
    for gradient in tape_gradients(lambda *x: call(*x, case), (query * 100, key, value)):
        assert np.all(np.isfinite(np.array(ops.cast(gradient, "float32"))))


def test_half_precision_is_close_to_float32():
    inputs, case = data("float32"), CASES["everything"]
    found = call(*(ops.cast(array, "bfloat16") for array in inputs), case, queries_per_block=4)
    np.testing.assert_allclose(
        np.array(ops.cast(found, "float32")), dense(*inputs, case), atol=5e-2
    )


def test_the_score_matrix_is_never_whole():
    length = 257
    inputs = [tf.constant(np.random.RandomState(1).randn(1, length, 8), "float32")] * 3
    case = {"key_mask": tf.ones((1, length), "bool"), "use_causal_mask": True}
    step = lambda *x: tape_gradients(lambda *y: call(*y, case, queries_per_block=16), x)  # noqa: E731
    compiled = tf.function(step, jit_compile=True, autograph=False)
    program = compiled.experimental_get_compiler_ir(*inputs)(stage="optimized_hlo")
    shapes = re.findall(r"(?:f32|pred)\[([\d,]+)\]", program)
    largest = max(math.prod(map(int, shape.split(","))) for shape in shapes)
    assert 8 * length <= largest < length * length / 4


@pytest.mark.thorough
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("block", [3 * KEYS, 2 * 3 * QUERIES * KEYS])  # a query, and two rows
def test_compiled_blocks_are_those_of_the_dense_form(block, jit_compile, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", block)
    inputs, case = data(), CASES["everything"]
    step = tf.function(lambda *x: tape_gradients(lambda *y: call(*y, case), x))
    found = tf.function(step, jit_compile=jit_compile)(*inputs)
    expected = tape_gradients(lambda *x: automatic(*x, case), inputs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-12)


@pytest.mark.slow
def test_eight_thousand_positions_take_less_than_a_quarter_of_their_score_matrix():
    from benchmarks.harness import Case, measure_memory

    sizes = {"batch": 1, "queries": 8192, "keys": 8192, "units": 64}
    options = {**sizes, "score": "dot", "owner": "ours", "jit_compile": False}
    side = Case("ours", "benchmarks.attention:long_dot_side", options)
    memory = measure_memory([side], 3, threads=2)["ours"]
    assert memory["median_extra_bytes"] < 8192 * 8192 * 4 / 4
