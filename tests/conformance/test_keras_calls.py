"""Calls as users of `keras.layers` write them: taken where they mean one thing, or refused with
the call to write instead. What is taken gives what Keras' own layer gives with the same weights.
"""

import inspect

import keras
import numpy as np
import pytest
from layer_table import TABLE
from seeds import set_seed

import keras_attention as ka

B, T, S, D, H, K = 3, 5, 7, 11, 2, 4
RANDOM = np.random.RandomState(1)
QUERY, VALUE = (RANDOM.randn(B, n, D).astype("float32") for n in (T, S))
QUERY_MASK = np.arange(T) < np.array([[5], [3], [2]])
VALUE_MASK = np.arange(S) < np.array([[7], [2], [4]])
#: Every query keeps a key: what Keras does where none is left depends on its path.
PAIRS = (RANDOM.rand(B, H, T, S) < 0.5) | (np.arange(S) == 0)
BAND = np.abs(np.arange(T)[:, None] - np.arange(S)) < 3

MECHANISMS = {
    "Attention": lambda: ka.Attention("dot"),
    "BahdanauAttention": lambda: ka.BahdanauAttention(5),
    "LuongAttention": ka.LuongAttention,
    "LocalAttention": lambda: ka.LocalAttention(3),
    "LocalAttention-p": lambda: ka.LocalAttention(5, "predictive"),
    "SoftAttention": lambda: ka.SoftAttention(5, doubly_stochastic=1.0),
    "HardAttention": lambda: ka.HardAttention(5),
    "TextGuidedAttention": lambda: ka.TextGuidedAttention(5),
    "MultiHeadAttention": lambda: ka.MultiHeadAttention(H, K),
    "MultiQueryPooling": lambda: ka.MultiQueryPooling("general"),
}
OTHERS = {
    "SelfAttention": lambda: ka.SelfAttention(5),
    "AttentionPooling": lambda: ka.AttentionPooling(5),
    "HierarchicalAttention": lambda: ka.HierarchicalAttention(5),
    "MultiStepAttention": ka.MultiStepAttention,
    "AttentionOverAttention": ka.AttentionOverAttention,
    "AdditiveScorer": lambda: ka.AdditiveScorer(5),
    "SoftmaxNormalizer": ka.SoftmaxNormalizer,
    "TransformerEncoderLayer": lambda: ka.TransformerEncoderLayer(11, 5),
    "TransformerDecoder": lambda: ka.TransformerDecoder(13, 4, 1, 2),
}
EVERY = pytest.mark.parametrize("name", [*MECHANISMS, *OTHERS])
READING = pytest.mark.parametrize("name", MECHANISMS)
HEADLESS = [name for name in MECHANISMS if name != "MultiHeadAttention"]
SYMBOLIC = pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])


def _make_inputs(symbolic, *tensors):
    return [keras.Input(t.shape[1:], t.shape[0]) if symbolic else t for t in tensors]


def _weights(layer, *tensors, **masks):
    """Returns context and weights, or the one result of a pooling."""
    set_seed(1)
    results = layer(*tensors, **masks, return_attention_scores=True)
    return [np.array(result) for result in results]


# Lists ---------------------------------------------------------------------------------------


@EVERY
@SYMBOLIC
def test_a_list_of_tensors_is_refused_with_the_call_to_make(name, symbolic):
    layer = (MECHANISMS | OTHERS)[name]()
    with pytest.raises(ValueError, match="one by one, .* call `layer\\(.*Received: \\w+=\\[a tens"):
        layer(_make_inputs(symbolic, QUERY, VALUE))


def _takes_a_list(layer):
    """Cells take a list of states, as `keras.layers.RNN` gives them, others one of sources."""
    return not {"states", "sources"}.isdisjoint(inspect.signature(layer.call).parameters)


@pytest.mark.parametrize("row", [row for row in TABLE if not _takes_a_list(row.layer)], ids=str)
def test_every_layer_refuses_a_list_and_a_tensor_that_is_missing(row):
    layer, tensors = row.make(), [*row.data().values()]
    with pytest.raises(ValueError, match=f"{row.layer.__name__} takes its tensors one by one"):
        layer(tensors)
    required = [p.default is p.empty for p in inspect.signature(layer.call).parameters.values()]
    for place in range(sum(required)):
        given = [None if index == place else one for index, one in enumerate(tensors)]
        with pytest.raises(
            ValueError, match="needs every tensor of `layer\\(.*Received: \\w+=None"
        ):
            layer(*given)


@READING
@SYMBOLIC
def test_a_list_of_masks_is_refused_with_the_names_of_ours(name, symbolic):
    query, value = _make_inputs(symbolic, QUERY, VALUE)
    masks = [QUERY_MASK, VALUE_MASK]
    with pytest.raises(ValueError, match="pass `query_mask=...`, `value_mask=...`"):
        MECHANISMS[name]()(query, value, mask=masks)
    with pytest.raises(ValueError, match="pass `query_mask=...`, `value_mask=...`"):
        MECHANISMS[name]()(query, value, mask=VALUE_MASK)
    with pytest.raises(ValueError, match="one boolean tensor as `value_mask`.*Received: val"):
        MECHANISMS[name]()(query, value, value_mask=masks)


def test_the_remedy_names_the_arguments_of_the_layer():
    with pytest.raises(ValueError, match="`layer\\(query, value\\)` or `layer\\(query, value, key"):
        ka.BahdanauAttention(5)([QUERY, VALUE])
    with pytest.raises(ValueError, match="call `layer\\(document, query\\)`"):
        ka.AttentionOverAttention()([QUERY, VALUE])
    with pytest.raises(ValueError, match="call `layer\\(inputs\\)`"):
        ka.SelfAttention()([QUERY, VALUE])


@pytest.mark.parametrize(
    "call",
    [
        lambda layer: layer(inputs=[QUERY, VALUE]),
        lambda layer: layer({"query": QUERY, "value": VALUE}),
        lambda layer: layer(QUERY, [VALUE, VALUE]),
        lambda layer: layer(QUERY, value=[VALUE, VALUE]),
        lambda layer: layer(query=[QUERY], value=VALUE),
    ],
    ids=["inputs", "dict", "second", "second by name", "first by name"],
)
@pytest.mark.parametrize("name", MECHANISMS)
def test_tensors_in_a_list_or_dict_are_refused_wherever_they_stand(name, call):
    with pytest.raises(
        ValueError, match="one by one, .* call `layer\\(query, value\\).*Received: "
    ):
        call(MECHANISMS[name]())


@pytest.mark.parametrize("row", [row for row in TABLE if not _takes_a_list(row.layer)], ids=str)
def test_a_tensor_that_is_not_given_is_named(row):
    tensors = [*row.data().values()]
    required = [
        p.default is p.empty for p in inspect.signature(row.make().call).parameters.values()
    ]
    for count in range(sum(required)):
        with pytest.raises(ValueError, match="needs every tensor of `layer\\(.*Received: no \\w+"):
            row.make()(*tensors[:count])


@pytest.mark.parametrize("name", [*MECHANISMS, "AdditiveScorer"])
def test_time_distributed_is_refused_with_the_remedy(name):
    wrapped = keras.layers.TimeDistributed((MECHANISMS | OTHERS)[name]())
    with pytest.raises(TypeError, match="fold the other axes into the batch"):
        wrapped(QUERY[None], VALUE[None])


# Integer and float masks ---------------------------------------------------------------------


@READING
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_an_integer_mask_is_the_boolean_one(name, dtype):
    layer = MECHANISMS[name]()
    masks = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK, "attention_mask": BAND}
    integers = {which: mask.astype(dtype) for which, mask in masks.items()}
    for one, other in zip(
        _weights(layer, QUERY, VALUE, **masks),
        _weights(layer, QUERY, VALUE, **integers),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["SelfAttention", "AttentionPooling", "TransformerEncoderLayer"])
def test_an_integer_mask_of_a_sequence_is_the_boolean_one(name):
    layer = OTHERS[name]()
    outputs = [np.array(layer(VALUE, mask=mask)) for mask in (VALUE_MASK, VALUE_MASK.astype(int))]
    np.testing.assert_array_equal(*outputs)
    assert np.abs(outputs[0] - np.array(layer(VALUE))).max() > 1e-3


def test_integer_masks_reach_plain_methods_and_decoders():
    memory = {"memory_mask": VALUE_MASK.astype("int32")}
    for decoder in (ka.BahdanauDecoder(13, 5, 3), ka.TransformerDecoder(13, 4, 1, 2)):
        ids = np.ones((B, T), "int32")
        expected = decoder(ids, VALUE, memory_mask=VALUE_MASK)
        np.testing.assert_array_equal(decoder(ids, VALUE, **memory), expected)
        prepared = decoder.prepare(keras.ops.convert_to_tensor(VALUE), **memory)
        leaves = keras.tree.flatten(prepared)
        masks = [leaf for leaf in leaves if keras.backend.standardize_dtype(leaf.dtype) == "bool"]
        assert all(np.array_equal(mask, VALUE_MASK) for mask in masks) and masks


def test_an_integer_mask_may_be_an_input_of_a_model():
    layer = ka.MultiHeadAttention(H, K)
    inputs = keras.Input((None, D)), keras.Input((None, D)), keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(inputs[0], inputs[1], value_mask=inputs[2]))
    found = model([QUERY, VALUE, VALUE_MASK.astype("int32")])
    np.testing.assert_allclose(found, layer(QUERY, VALUE, value_mask=VALUE_MASK), atol=1e-6)


@READING
def test_a_float_mask_is_refused_for_it_may_be_added(name):
    layer = MECHANISMS[name]()
    added = np.where(BAND, 0.0, -1e9).astype("float32")
    with pytest.raises(ValueError, match="additive mask, with `attention_mask == 0`.*float32"):
        layer(QUERY, VALUE, attention_mask=added)


# Masks of pairs ------------------------------------------------------------------------------


@READING
@pytest.mark.parametrize(
    "mask", [BAND, BAND[:1], BAND[None, :, :1]], ids=["pairs", "keys", "queries"]
)
def test_a_mask_without_a_batch_holds_for_every_row(name, mask):
    layer = MECHANISMS[name]()
    every = np.broadcast_to(mask, (B, T, S))
    found = _weights(layer, QUERY, VALUE, attention_mask=mask, value_mask=VALUE_MASK)
    expected = _weights(layer, QUERY, VALUE, attention_mask=every, value_mask=VALUE_MASK)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    plain = _weights(layer, QUERY, VALUE, value_mask=VALUE_MASK)
    assert mask.all() or any(
        not np.allclose(one, other) for one, other in zip(found, plain, strict=True)
    )


@pytest.mark.parametrize("window", [None, 3])
def test_self_attention_takes_a_mask_without_a_batch(window):
    layer = ka.SelfAttention(5, window=window)
    causal = np.tril(np.ones((S, S), bool))
    expected = layer(VALUE, use_causal_mask=True)
    np.testing.assert_allclose(layer(VALUE, attention_mask=causal), expected, atol=1e-6)


@READING
@SYMBOLIC
def test_a_mask_of_keys_is_none_of_pairs(name, symbolic):
    query, value = _make_inputs(symbolic, QUERY, VALUE)
    with pytest.raises(ValueError, match="\\(batch, key\\), is `value_mask`.*Received: attenti"):
        MECHANISMS[name]()(query, value, attention_mask=VALUE_MASK)


@pytest.mark.parametrize("name", HEADLESS)
@SYMBOLIC
def test_a_mask_of_heads_is_refused_where_there_are_none(name, symbolic):
    query, value = _make_inputs(symbolic, QUERY, VALUE)
    with pytest.raises(ValueError, match="`attention_mask\\[:, 0\\]`.*Received: attention_mask.sh"):
        MECHANISMS[name]()(query, value, attention_mask=PAIRS[:, :1])


# Heads ---------------------------------------------------------------------------------------


def _keras_and_ours(dropout=0.0, **options):
    """Returns Keras' layer and ours with the same weights."""
    theirs = keras.layers.MultiHeadAttention(H, K, use_bias=True, dropout=dropout)
    theirs.build((B, T, D), (B, S, D))
    ours = ka.MultiHeadAttention(H, K, use_bias=True, dropout=dropout, **options)
    ours.build((B, T, D), (B, S, D))
    for name in ("query", "key", "value", "output"):
        one, other = (getattr(layer, f"{name}_dense") for layer in (theirs, ours))
        bias = RANDOM.randn(*other.bias.shape)
        one.bias.assign(bias.reshape(one.bias.shape))
        other.kernel.assign(np.array(one.kernel).reshape(other.kernel.shape))
        other.bias.assign(bias)
    return theirs, ours


HEAD_MASKS = {
    "every head": PAIRS,
    "one for all heads": PAIRS[:, :1],
    "one for all rows": PAIRS[:1],
    "one query for all": PAIRS[:, :, :1],
    "without heads": PAIRS[:, 0],
    "without a batch": BAND | (np.arange(S) == 0),
    "one": PAIRS[:1, :1],
}


@pytest.mark.parametrize("weights", [False, True], ids=["alone", "weights"])
@pytest.mark.parametrize("dtype", ["bool", "int32"])
@pytest.mark.parametrize("mask", HEAD_MASKS.values(), ids=HEAD_MASKS)
def test_heads_take_every_mask_that_keras_takes(mask, dtype, weights):
    theirs, ours = _keras_and_ours()
    flags = {"attention_mask": mask.astype(dtype), "return_attention_scores": weights}
    found, expected = ours(QUERY, VALUE, **flags), theirs(QUERY, VALUE, **flags)
    for one, other in zip(*map(keras.tree.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


@pytest.mark.parametrize("mask", HEAD_MASKS.values(), ids=HEAD_MASKS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_key_value_heads": 1},
        {"normalizer": "sparsemax", "scorer": "general"},
        {"scorer": ka.AdditiveScorer(3), "normalizer": "entmax", "use_bias": True},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_masks_of_heads_join_all_others(mask, options):
    layer = ka.MultiHeadAttention(H, K, **options)
    masks = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK, "use_causal_mask": True}
    context, weights = _weights(layer, QUERY, VALUE, attention_mask=mask, **masks)
    pairs = mask if mask.ndim == 4 else np.broadcast_to(mask, (B, T, S))[:, None]
    causal = np.tril(np.ones((T, S), bool))
    kept = pairs & QUERY_MASK[:, None, :, None] & VALUE_MASK[:, None, None] & causal
    kept = np.broadcast_to(kept, (B, H, T, S))
    assert np.all(weights[~kept] == 0)
    np.testing.assert_allclose(weights.sum(-1), kept.any(-1), atol=1e-5)
    assert np.all(context[~kept.any((1, 3))] == 0)
    # What a head may not read does not matter, be it NaN under a mask of keys.
    poisoned = np.where(VALUE_MASK[:, :, None], VALUE, np.nan)
    again = layer(QUERY, poisoned, attention_mask=mask, **masks)
    np.testing.assert_allclose(again, context, atol=1e-6)


def test_one_head_may_read_where_another_may_not():
    layer = ka.MultiHeadAttention(H, K, use_bias=True, bias_initializer="ones")
    mask = np.ones((1, H, T, S), bool)
    mask[:, 0, 1] = False  # one head of query 1
    mask[:, :, 2] = False  # both heads of query 2
    context, weights = _weights(layer, QUERY, VALUE, attention_mask=mask)
    assert np.all(weights[:, 0, 1] == 0) and np.all(weights[:, 1, 1].sum(-1) > 0.99)
    assert np.all(context[:, 2] == 0) and np.all(np.any(context[:, 1] != 0, axis=-1))


@pytest.mark.parametrize("mask", HEAD_MASKS.values(), ids=HEAD_MASKS)
def test_a_model_with_a_mask_of_heads_computes_what_the_layer_does(mask):
    layer = ka.MultiHeadAttention(H, K)
    expected = layer(QUERY, VALUE, attention_mask=mask)
    batched = mask.ndim > 2 and len(mask) == B
    inputs = [keras.Input((None, D), B), keras.Input((None, D), B)]
    symbol = keras.Input(batch_shape=mask.shape, dtype="bool")
    model = keras.Model([*inputs, symbol], layer(*inputs, attention_mask=symbol))
    assert model.output_shape == (B, None, D)
    if batched:
        np.testing.assert_allclose(model([QUERY, VALUE, mask]), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "by_blocks"), [(BAND, True), (PAIRS[:, :1], True), (PAIRS, False)]
)
def test_long_sequences_take_every_mask(monkeypatch, mask, by_blocks):
    from keras_attention.kernels import blocked_dot

    layer, taken, read = ka.MultiHeadAttention(H, K), [], blocked_dot.attend_without_stored_scores
    expected = layer(QUERY, VALUE, attention_mask=mask, value_mask=VALUE_MASK)
    monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
    monkeypatch.setattr(
        blocked_dot, "attend_without_stored_scores", lambda *given: taken.append(1) or read(*given)
    )
    found = layer(QUERY, VALUE, attention_mask=mask, value_mask=VALUE_MASK)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert bool(taken) == (by_blocks and keras.backend.backend() != "torch")  # has no blocks


@pytest.mark.parametrize("mask", HEAD_MASKS.values(), ids=HEAD_MASKS)
def test_a_cache_and_a_prepared_source_take_masks_of_heads(mask):
    layer = ka.MultiHeadAttention(H, K)
    expected = layer(QUERY, VALUE, attention_mask=mask)
    query, value = map(keras.ops.convert_to_tensor, (QUERY, VALUE))
    found, _ = layer.attend(query, layer.prepare(value), attention_mask=mask)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    cache = layer.extend_cache(layer.start_cache(B, S), value, np.zeros(B, "int32"))
    found, _ = layer.attend(query, cache, attention_mask=mask)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("heads", [1, H])
def test_a_step_takes_a_mask_of_heads(heads):
    layer = ka.MultiHeadAttention(H, K)
    expected = layer(QUERY, VALUE, attention_mask=PAIRS[:, :heads])
    step = layer(QUERY[:, 1], VALUE, attention_mask=PAIRS[:, :heads, 1])
    np.testing.assert_allclose(step, expected[:, 1], atol=1e-6)


@pytest.mark.parametrize("shape", [(B, 3, T, S), (B, H, S, T), (B, 1, 1, T, S), (S,), (T, T)])
def test_other_shapes_are_refused_with_those_that_are_taken(shape):
    expected = "`attention_mask` of shape \\(batch, query, key\\) or \\(query, key\\) or \\(b"
    with pytest.raises(ValueError, match=expected):
        ka.MultiHeadAttention(H, K)(QUERY, VALUE, attention_mask=np.ones(shape, bool))


# Time ----------------------------------------------------------------------------------------


def test_what_time_distributed_would_do_is_one_call_on_folded_axes():
    layer = ka.BahdanauAttention(5)
    documents, questions = RANDOM.randn(B, 2, S, D), RANDOM.randn(B, 2, T, D)
    found = layer(questions.reshape(-1, T, D), documents.reshape(-1, S, D))
    found = np.array(found).reshape(B, 2, T, D)
    for index in range(2):
        expected = layer(questions[:, index], documents[:, index])
        np.testing.assert_allclose(found[:, index], expected, atol=1e-6)
