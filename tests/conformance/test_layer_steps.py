"""Every layer in parts: prepared once and asked at each step, it answers as its call does."""

import inspect

import keras
import numpy as np
import pytest
from backends import policies, tensors
from layer_rows import arrays
from layer_table import TABLE

import keras_attention as ka

POLICIES = policies("float32", "mixed_float16", "mixed_bfloat16")
#: The two parts may round once where the call does not; recurrences carry it on.
ROUNDING = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}


def _rows_with(*methods):
    rows = [row for row in TABLE if all(hasattr(row.layer, method) for method in methods)]
    assert rows, f"no layer has {methods}"
    return pytest.mark.parametrize("row", rows, ids=str)


def _arguments(method, data):
    """Returns those of the data that a method takes."""
    return {name: data[name] for name in inspect.signature(method).parameters if name in data}


def _prepare_layer(row, policy, *, without=()):
    """Returns a layer, its data as tensors, what it prepared of them, and its call's outputs."""
    layer = row.built(dtype=policy)
    data = {k: v for k, v in row.data(masks=True).items() if k not in without}
    data = tensors(data)
    return layer, data, layer.prepare(**_arguments(layer.prepare, data)), row.call(layer, data)


def _assert_close(results, expected):
    for one, other in zip(results, expected, strict=False):
        dtype = keras.backend.standardize_dtype(other.dtype)
        assert keras.backend.standardize_dtype(one.dtype) == dtype
        (one, other) = arrays([one, other])
        assert one.shape == other.shape
        atol = ROUNDING[dtype] * max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@_rows_with("prepare", "attend")
@pytest.mark.parametrize("policy", POLICIES)
def test_prepare_and_attend_equal_the_call(row, policy):
    layer, data, prepared, expected = _prepare_layer(row, policy, without=("query_mask",))
    _assert_close(layer.attend(**_arguments(layer.attend, data), prepared=prepared), expected)


@_rows_with("prepare", "score")
@pytest.mark.parametrize("policy", POLICIES)
def test_prepare_and_score_equal_the_call(row, policy):
    layer, data, prepared, expected = _prepare_layer(row, policy)
    asked = {k: keras.ops.cast(v, layer.compute_dtype) for k, v in data.items() if k != "key"}
    step = len(row.inputs["query"]) == 2
    if step:
        asked = {name: value[:, None] for name, value in asked.items()}
    scores = layer.score(prepared=prepared, **asked)
    _assert_close([scores[:, 0] if step else scores], expected)


#: A step rounds its own way: 2e-2 of the largest entry in half precision.
STEP_ROUNDING = {"float32": 1e-5, "mixed_float16": 2e-2, "mixed_bfloat16": 2e-2}


@_rows_with("prepare", "start", "step")
@pytest.mark.parametrize("policy", POLICIES)
def test_steps_equal_the_call(row, policy):
    name = next(iter(row.inputs))
    masks = [mask for mask in row.masks if row.masks[mask].covers == name]
    layer, data, memory, expected = _prepare_layer(row, policy, without=masks)
    state, steps = layer.start(memory), []
    for index in range(data[name].shape[1]):
        results = layer.step(data[name][:, index], state, memory)
        (state,) = (result for result in results if isinstance(result, dict))
        steps.append(results[0])
    (one, other) = arrays([keras.ops.stack(steps, axis=1), expected[0]])
    atol = STEP_ROUNDING[policy] * max(1.0, np.abs(other).max())
    np.testing.assert_allclose(one, other, rtol=0, atol=atol)


#: Their queries are steps in time: each goes on from where the one before stopped.
IN_TIME = (ka.ForwardAttention, ka.GMMAttention, ka.MonotonicChunkwiseAttention)
READERS = [
    row
    for row in TABLE
    if issubclass(row.layer, (ka.AttentionMechanism, ka.Scorer))
    and len(row.inputs["query"]) == 3
    and row.layer not in IN_TIME
]


@pytest.mark.parametrize("row", READERS, ids=str)
def test_a_query_of_rank_2_is_a_slice_of_rank_3(row):
    layer, data = row.built(), row.data(masks=True)
    expected = arrays(row.call(layer, data))
    positioned = "position_offset" in inspect.signature(layer.call).parameters
    for index in (0, data["query"].shape[1] - 1):
        axes = row.inputs | {name: mask.axes for name, mask in row.masks.items()}
        one = {k: v[:, index] if "query" in axes[k] else v for k, v in data.items()}
        position = np.full(len(data["query"]), index, "int32")
        flags = {"position_offset": position} if positioned else {}
        for result, whole in zip(arrays(row.call(layer, one, **flags)), expected, strict=True):
            np.testing.assert_allclose(result, whole.take(index, axis=-2), atol=1e-5)


RETURNING = [row for row in TABLE if row.flags]


@pytest.mark.parametrize("row", RETURNING, ids=str)
def test_what_else_is_returned_does_not_change_the_first_output(row):
    assert all(name.startswith("return_") for name in row.flags), "a flag with another meaning"
    layer, data = row.built(), row.data(masks=True)
    alone = layer(*(data[name] for name in row.inputs), **{m: data[m] for m in row.masks})
    assert keras.ops.is_tensor(alone), "without flags one tensor comes back"
    np.testing.assert_allclose(*arrays([alone, row.call(layer, data)[0]]), atol=1e-5)
    symbols = row.symbols(masks=True)
    symbol = layer(*(symbols[name] for name in row.inputs), **{m: symbols[m] for m in row.masks})
    sizes = zip(symbol.shape, alone.shape, strict=True)
    assert all(size in (None, real) for size, real in sizes)
    assert symbol.dtype == keras.backend.standardize_dtype(alone.dtype)


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_rows_of_a_batch_do_not_affect_one_another(row):
    layer, data = row.built(), row.data(masks=True)
    whole = arrays(row.call(layer, data))
    for index in range(len(whole[0])):
        one = keras.tree.map_structure(lambda array, i=index: array[i : i + 1], data)
        for result, expected in zip(arrays(row.call(layer, one)), whole, strict=True):
            np.testing.assert_allclose(result, expected[index : index + 1], atol=1e-5)
