"""Vectors of relative positions: the paper's sums over pairs, cached steps and saved models."""

import keras
import numpy as np
import pytest
from heads_reference import softmax
from seeds import set_seed

import keras_attention as ka

B, H, K, V, T, S, D = 3, 2, 5, 7, 11, 13, 17  # heads, key_dim, value_dim, query, key, width


def attend_by_the_paper(layer, query, value, kept, position=0):
    """Equations 3 and 4, one query, key and head at a time; biases are 0."""
    dense = [layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense]
    kernels = [np.array(one.kernel, "float64") for one in dense]
    tables = [
        None if one is None else np.array(one.table)
        for one in (layer.relative_keys, layer.relative_values)
    ]
    contexts = np.zeros((*query.shape[:2], kernels[3].shape[1]))
    for b, i in np.ndindex(*query.shape[:2]):
        joined = []
        for h in range(layer.num_heads):
            columns = slice(h * K, (h + 1) * K)
            x = query[b, i] @ kernels[0][:, columns]
            scores, values = [], []
            for j in range(value.shape[1]):
                key = value[b, j] @ kernels[1][:, columns]
                z = value[b, j] @ kernels[2][:, h * V : (h + 1) * V]
                if tables[0] is not None:
                    k = layer.relative_keys.max_distance
                    key = key + tables[0][max(-k, min(k, j - i - position)) + k]
                if tables[1] is not None:
                    k = layer.relative_values.max_distance
                    z = z + tables[1][max(-k, min(k, j - i - position)) + k]
                scores.append(x @ key / np.sqrt(K))
                values.append(z)
            joined.append(softmax(np.array(scores), kept[b, i]) @ np.array(values))
        contexts[b, i] = np.concatenate(joined) @ kernels[3]
    return contexts


def _layer(keys=3, values=2, dtype="float64", **options):
    set_seed(1)

    def make(distance):
        return distance and ka.RelativePositionEmbedding(distance, "normal", dtype=dtype)

    layer = ka.MultiHeadAttention(
        H, K, V, relative_keys=make(keys), relative_values=make(values), dtype=dtype, **options
    )
    layer.build((None, None, D), (None, None, D))
    for embedding in (layer.relative_keys, layer.relative_values):
        if embedding is not None:  # large enough to count
            embedding.table.assign(np.random.RandomState(2).randn(*embedding.table.shape))
    return layer


def _tensors(seed=1):
    random = np.random.RandomState(seed)
    return random.randn(B, T, D), random.randn(B, S, D)


@pytest.mark.parametrize(("keys", "values"), [(3, 2), (3, None), (None, 2), (40, 40), (1, 1)])
def test_it_is_the_sum_over_pairs_of_the_paper(keys, values):
    layer = _layer(keys, values)
    query, value = _tensors()
    kept = np.random.RandomState(3).rand(B, T, S) < 0.6
    kept[1, 2] = False
    context, weights = layer(query, value, attention_mask=kept, return_attention_scores=True)
    expected = attend_by_the_paper(layer, query, value, kept)
    np.testing.assert_allclose(context, expected, atol=1e-12)
    assert np.all(np.array(context)[1, 2] == 0)
    assert np.all(np.array(weights)[np.broadcast_to(~kept[:, None], (B, H, T, S))] == 0)
    np.testing.assert_array_equal(context, layer(query, value, attention_mask=kept))
    shifted = layer(query, value, attention_mask=kept, position_offset=np.full(B, 4))
    expected = attend_by_the_paper(layer, query, value, kept, position=4)
    np.testing.assert_allclose(shifted, expected, atol=1e-12)


def test_the_layer_returns_products_with_the_vectors_of_clipped_distances():
    layer = ka.RelativePositionEmbedding(1)
    layer.build((1, 2, 2), (1, 4, 3))
    layer.table.assign([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # behind, here, ahead
    query = np.array([[[2.0, 3.0], [5.0, 7.0]]])
    expected = [[[3, 5, 5, 5], [5, 7, 12, 12]]]
    np.testing.assert_array_equal(layer(query, np.zeros((1, 4, 3))), expected)
    offset = layer(query, np.zeros((1, 4, 3)), position_offset=np.array([[3, 0]]))
    np.testing.assert_array_equal(offset, [[[2, 2, 2, 3], [7, 12, 12, 12]]])
    heads = layer(query[:, None] * np.array([1.0, 2.0])[:, None, None], np.zeros((1, 4, 3)))
    np.testing.assert_array_equal(heads, np.stack([expected[0], 2 * np.array(expected[0])])[None])


def test_its_result_may_be_the_bias_of_another_attention():
    query, value = _tensors()
    embedding = ka.RelativePositionEmbedding(3, dtype="float64")
    attention = ka.Attention("dot", dtype="float64")
    _, weights = attention(
        query, value, attention_bias=embedding(query, value), return_attention_scores=True
    )
    table = np.array(embedding.table)
    for b, i in np.ndindex(B, T):
        keys = [value[b, j] + table[np.clip(j - i, -3, 3) + 3] for j in range(S)]
        expected = softmax(np.array(keys) @ query[b, i], np.ones(S, bool))
        np.testing.assert_allclose(weights[b, i], expected, atol=1e-12)


def test_without_vectors_nothing_changes():
    layer, plain = _layer(), _layer(None, None)
    plain.set_weights(layer.get_weights()[-4:])  # of the projections
    for embedding in (layer.relative_keys, layer.relative_values):
        embedding.table.assign(np.zeros(embedding.table.shape))
    query, value = _tensors()
    np.testing.assert_allclose(layer(query, value), plain(query, value), atol=1e-12)


@pytest.mark.parametrize("policy", ["float16", "mixed_bfloat16"])
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_half_precision_and_masked_nan(policy, jit_compile):
    query, value = (tensor.astype("float32") for tensor in _tensors())
    mask = np.arange(S) < np.array([[S], [4], [0]])
    layer, exact = _layer(dtype=policy), _layer()
    layer.set_weights(exact.get_weights())
    expected = np.array(exact(query, np.where(mask[..., None], value, 0), value_mask=mask))
    inputs = keras.Input((None, D)), keras.Input((None, D)), keras.Input((None,), dtype="bool")
    model = keras.Model(inputs, layer(*inputs[:2], value_mask=inputs[2]))
    model.compile("sgd", "mse", jit_compile=jit_compile)
    junk = np.where(mask[..., None], value, np.nan)
    found = model.predict([query, junk, mask], verbose=0).astype("float64")
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    assert np.all(found[2] == 0)
    if not policy.startswith("mixed"):
        return
    model.fit([query, junk, mask], expected, verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_the_vectors_may_have_a_dtype_policy_of_their_own(policy):
    pieces = ka.RelativePositionEmbedding(3), ka.RelativePositionEmbedding(2)
    layer = ka.MultiHeadAttention(
        2, 4, relative_keys=pieces[0], relative_values=pieces[1], dtype=policy
    )
    assert layer(*_tensors()).dtype == policy.removeprefix("mixed_")


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`max_distance` to be a positive int"):
        ka.RelativePositionEmbedding(0)
    layer = ka.RelativePositionEmbedding(2)
    with pytest.raises(ValueError, match=r"`key` of shape \(batch, key, ...\)"):
        layer(np.zeros((2, 3, 5)), np.zeros(2))
    with pytest.raises(ValueError, match="`query` of shape"):
        layer(np.zeros((2, 3)), np.zeros((2, 3)))
    layer(np.zeros((2, 3, 5)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="width 5.*`query.shape.-1.`.*Received: query.shape.-1.=7"):
        layer(np.zeros((2, 3, 7)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="width 5.*`key_dim`.*Received: key_dim=4"):
        ka.MultiHeadAttention(2, 4, relative_keys=layer)(np.zeros((2, 3, 8)), np.zeros((2, 3, 8)))
    for name in ("relative_keys", "relative_values"):
        with pytest.raises(ValueError, match=f"`{name}` to be a `RelativePositionEmbedding`"):
            ka.MultiHeadAttention(2, 4, **{name: 16})
    for options in ({"scorer": "general"}, {"rotary": ka.RotaryEmbedding()}):
        with pytest.raises(ValueError, match="`relative_keys`.*Received: "):
            ka.MultiHeadAttention(2, 4, relative_keys=layer, **options)
