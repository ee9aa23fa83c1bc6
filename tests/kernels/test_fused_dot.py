"""The fused kernel of a GPU gives the numbers of the plain form; here Keras computes it plainly."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import Attention, MultiHeadAttention
from keras_attention.kernels import blocked_dot, fused_dot

SIZES = (3, 11, 13, 8)  # batch, queries, keys, width


@pytest.fixture
def use_fused_kernel(monkeypatch):
    """Takes the kernel for queries of any dtype, and counts its calls."""
    calls, attend = [], fused_dot.attend_fused

    def count_call(*arguments):
        calls.append(1)
        return attend(*arguments)

    def choose(is_on):
        monkeypatch.setattr(blocked_dot, "has_fused_kernel", lambda query: is_on)
        monkeypatch.setattr(blocked_dot, "attend_fused", count_call)
        return calls

    return choose


def make_inputs(name):
    batch, queries, keys, width = SIZES
    random = np.random.RandomState(1)
    query, value = (
        random.randn(batch, length, width).astype("float32") for length in (queries, keys)
    )
    masks = {
        "source": {"value_mask": random.rand(batch, keys) > 0.3},
        "query": {"query_mask": random.rand(batch, queries) > 0.3},
        "pairs": {"attention_mask": random.rand(batch, queries, keys) > 0.5},
        "nothing left": {"value_mask": np.arange(batch)[:, None] > np.zeros((1, keys))},
        "causal": {"use_causal_mask": True},
        "causal and source": {
            "use_causal_mask": True,
            "value_mask": random.rand(batch, keys) > 0.3,
        },
        "none": {},
    }[name]
    if "value_mask" in masks:
        value[~masks["value_mask"]] = np.nan
    return query, value, masks


NAMES = ("none", "source", "query", "pairs", "nothing left", "causal", "causal and source")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention("scaled_dot"),
        lambda: Attention("dot"),
        lambda: MultiHeadAttention(4, 3),
        lambda: MultiHeadAttention(4, 3, num_key_value_heads=2),
    ],
)
def test_contexts_are_those_of_the_plain_form(use_fused_kernel, make, name):
    query, value, masks = make_inputs(name)
    layer = make()
    use_fused_kernel(False)
    expected = np.array(layer(query, value, **masks))
    calls = use_fused_kernel(True)
    found = np.array(layer(query, value, **masks))
    assert calls
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_causal_square_without_masks_needs_no_mask(use_fused_kernel, monkeypatch):
    given, plain = [], ops.dot_product_attention

    def seen(*tensors, **options):
        given.append(options)
        return plain(*tensors, **options)

    monkeypatch.setattr(ops, "dot_product_attention", seen)
    use_fused_kernel(True)
    query = np.random.RandomState(1).randn(2, 7, 4).astype("float32")
    MultiHeadAttention(2, 4)(query, query, use_causal_mask=True)
    assert given[0]["is_causal"] is True and given[0]["mask"] is None


def test_weights_are_given_where_they_are_asked_for(use_fused_kernel):
    calls = use_fused_kernel(True)
    query, value, _ = make_inputs("none")
    _, weights = MultiHeadAttention(2, 4)(query, value, return_attention_scores=True)
    assert weights.shape == (3, 2, 11, 13)
    assert not calls


@pytest.mark.parametrize(
    ("dtype", "queries", "on_gpu", "expected"),
    [
        ("bfloat16", 7, True, True),
        ("float16", 7, True, True),
        ("float32", 7, True, False),
        ("bfloat16", 1, True, False),
        ("bfloat16", 7, False, False),
    ],
)
def test_the_kernel_is_for_half_precision_on_a_gpu(monkeypatch, dtype, queries, on_gpu, expected):
    monkeypatch.setattr(fused_dot.execution_mode, "has_gpu", lambda: on_gpu)
    query = keras.KerasTensor((2, 3, queries, 8), dtype)
    is_jax = keras.backend.backend() == "jax"
    assert fused_dot.has_fused_kernel(query) is (expected and is_jax)
