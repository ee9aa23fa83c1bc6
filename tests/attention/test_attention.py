"""The mechanisms: masks of every kind, empty rows, steps, names, bad input."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    AdditiveScorer,
    Attention,
    BahdanauAttention,
    HardAttention,
    LocalAttention,
    LuongAttention,
    ScaledDotScorer,
    SoftAttention,
    TextGuidedAttention,
)
from keras_attention.kernels import blocked_dot

B, T, S, DQ, DV = 3, 5, 7, 11, 13


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


QUERY, VALUE = _random(B, T, DQ), _random(B, S, DV)
VALUE_MASK = np.arange(S) < np.array([[7], [3], [0]])
QUERY_MASK = np.arange(T) < np.array([[2], [5], [4]])

MAKERS = {
    "bahdanau": lambda **kw: BahdanauAttention(17, **kw),
    "general": lambda **kw: LuongAttention("general", **kw),
    "concat": lambda **kw: LuongAttention("concat", units=17, **kw),
    "location": lambda **kw: LuongAttention("location", max_length=5, **kw),
    "composed": lambda **kw: Attention(AdditiveScorer(17, dtype=kw.get("dtype")), **kw),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_weights_sum_to_one_over_kept_keys_and_context_is_their_mean(make):
    context, weights = make()(QUERY, VALUE, value_mask=VALUE_MASK, return_attention_scores=True)
    weights = np.array(weights)
    assert weights.shape == (B, T, S)
    sums = np.array([[1.0], [1.0], [0.0]]) * np.ones((1, T))
    np.testing.assert_allclose(weights.sum(-1), sums, atol=1e-6)
    assert np.all(weights[np.broadcast_to(~VALUE_MASK[:, None], weights.shape)] == 0)
    np.testing.assert_allclose(
        np.array(context), np.einsum("bts,bsd->btd", weights, VALUE), atol=1e-5
    )


@pytest.mark.parametrize("junk", [1e4, np.nan, np.inf])
def test_masked_values_do_not_change_context_or_gradient(make, junk):
    attention = make()
    attention.build(QUERY.shape, VALUE.shape)

    def run(value):
        with tf.GradientTape() as tape:
            context = attention(tf.constant(QUERY), value, value_mask=VALUE_MASK)
            total = tf.reduce_sum(context**2)
        return [context, *tape.gradient(total, attention.trainable_variables)]

    changed = np.where(VALUE_MASK[..., None], VALUE, junk).astype("float32")
    for one, other in zip(run(tf.constant(VALUE)), run(tf.constant(changed)), strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16"])
def test_rows_with_nothing_to_keep_are_zero_with_finite_gradients(make, dtype):
    attention = make(dtype=dtype)
    with tf.GradientTape() as tape:
        context, weights = attention(
            QUERY * 30,
            VALUE,
            query_mask=QUERY_MASK,
            value_mask=VALUE_MASK,
            return_attention_scores=True,
        )
        total = tf.reduce_sum(tf.cast(context, "float32"))
    assert context.dtype == attention.compute_dtype
    empty = ~QUERY_MASK | ~VALUE_MASK.any(1, keepdims=True)
    assert np.all(np.array(context)[empty] == 0)
    assert np.all(np.array(weights)[empty] == 0)
    for gradient in tape.gradient(total, attention.trainable_variables):
        assert np.all(np.isfinite(np.array(tf.cast(gradient, "float32"))))


def test_one_step_and_the_prepared_form_equal_the_call(make):
    attention = make()
    context, weights = attention(QUERY, VALUE, value_mask=VALUE_MASK, return_attention_scores=True)
    prepared = attention.prepare(VALUE, value_mask=VALUE_MASK)
    read, attended = attention.attend(tf.constant(QUERY), prepared)
    np.testing.assert_allclose(np.array(read), np.array(context), atol=1e-6)
    np.testing.assert_allclose(np.array(attended), np.array(weights), atol=1e-6)
    read, attended = attention.attend(tf.constant(QUERY[:, 2]), prepared)
    np.testing.assert_allclose(np.array(read), np.array(context)[:, 2], atol=1e-6)
    step, step_weights = attention(
        QUERY[:, 2], VALUE, value_mask=VALUE_MASK, return_attention_scores=True
    )
    np.testing.assert_allclose(np.array(step), np.array(context)[:, 2], atol=1e-6)
    np.testing.assert_allclose(np.array(step_weights), np.array(weights)[:, 2], atol=1e-6)


def test_permuting_the_source_permutes_the_weights():
    attention, order = BahdanauAttention(17), np.random.RandomState(3).permutation(S)
    context, weights = attention(QUERY, VALUE, return_attention_scores=True)
    moved, moved_weights = attention(QUERY, VALUE[:, order], return_attention_scores=True)
    np.testing.assert_allclose(np.array(moved), np.array(context), atol=1e-5)
    np.testing.assert_allclose(np.array(moved_weights), np.array(weights)[:, :, order], atol=1e-6)


def test_a_zero_vector_gives_uniform_first_weights():
    attention = BahdanauAttention(17, vector_initializer="zeros")
    _, weights = attention(QUERY, VALUE, return_attention_scores=True)
    np.testing.assert_allclose(np.array(weights), 1 / S, rtol=1e-6)


def test_key_may_differ_from_value_in_width():
    key = _random(B, S, 4)
    context, weights = LuongAttention("general")(
        QUERY, VALUE, key, key_mask=VALUE_MASK, return_attention_scores=True
    )
    assert (tuple(context.shape), tuple(weights.shape)) == ((B, T, DV), (B, T, S))


def test_attention_masks_and_key_masks_join():
    attention_mask = np.random.RandomState(5).rand(B, T, S) > 0.4
    _, weights = BahdanauAttention(17)(
        QUERY,
        VALUE,
        value_mask=VALUE_MASK,
        attention_mask=attention_mask,
        return_attention_scores=True,
    )
    kept = attention_mask & VALUE_MASK[:, None]
    assert np.array_equal(np.array(weights) > 0, kept)


def test_causal_mask_counts_from_the_query_position():
    attention = Attention(ScaledDotScorer())
    _, weights = attention(
        _random(2, 3, 4), _random(2, 6, 4), use_causal_mask=True, return_attention_scores=True
    )
    assert np.array_equal(np.array(weights)[0] > 0, np.arange(6) <= np.arange(3)[:, None])
    _, weights = attention(
        _random(2, 1, 4),
        _random(2, 6, 4),
        use_causal_mask=True,
        position_offset=np.array([4, 0]),
        return_attention_scores=True,
    )
    assert np.array_equal(np.array(weights)[:, 0] > 0, np.arange(6) <= np.array([[4], [0]]))


BIASED = {
    **MAKERS,
    "dot": lambda **options: LuongAttention("dot", **options),
    "local": lambda **options: LocalAttention(5, **options),
    "soft": lambda **options: SoftAttention(17, **options),
    "hard": lambda **options: HardAttention(17, inference_mode="expected", **options),
    "text": lambda **options: TextGuidedAttention(17, **options),
}


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("length", [1, T])
def test_a_bias_multiplies_the_weights_by_its_exponential(name, length):
    attention, value = BIASED[name](), VALUE[:, :, :DQ]
    query, bias = QUERY[:, :length], _random(B, length, S)
    options = {"value_mask": VALUE_MASK, "return_attention_scores": True}
    weights = np.array(attention(query, value, **options)[1], "float64") * np.exp(bias)
    expected = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    found = attention(query, value, attention_bias=bias, **options)
    np.testing.assert_allclose(found[1], expected, atol=1e-6)
    prepared = attention.prepare(value, value_mask=VALUE_MASK)
    attended = attention.attend(query, prepared, attention_bias=bias)
    np.testing.assert_allclose(attended[0], found[0], atol=1e-6)
    row = attention(query[:, 0], value, attention_bias=bias[:, 0], **options)
    np.testing.assert_allclose(row[1], np.array(found[1])[:, 0], atol=1e-6)
    shared = attention(query, value, attention_bias=bias[:1], **options)
    np.testing.assert_allclose(shared[1][0], found[1][0], atol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_bias_is_added_in_float32(policy):
    attention = Attention("dot", dtype=policy)
    query, value = np.zeros((1, 1, 4), "float32"), np.ones((1, 2, 4), "float32")
    bias = np.array([[[70000.0, 70001.0]]], "float32")
    _, weights = attention(query, value, attention_bias=bias, return_attention_scores=True)
    np.testing.assert_allclose(np.array(weights)[0, 0], [0.2689, 0.7311], atol=4e-3)


def test_a_causal_step_of_attend_equals_the_call():
    attention = Attention(ScaledDotScorer())
    query, value = _random(2, 3, 4), _random(2, 6, 4)
    mask = np.random.RandomState(3).rand(2, 3, 6) > 0.3
    options = {"use_causal_mask": True, "attention_mask": mask}
    expected = attention(query, value, return_attention_scores=True, **options)
    found = attention.attend(query, attention.prepare(value), **options)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_dropout_leaves_the_returned_weights_whole():
    attention = BahdanauAttention(17, dropout=0.5, seed=7)
    dropped, weights = attention(QUERY, VALUE, training=True, return_attention_scores=True)
    np.testing.assert_allclose(np.array(weights).sum(-1), 1, atol=1e-6)
    kept = attention(QUERY, VALUE)
    assert not np.allclose(np.array(dropped), np.array(kept))


def test_dropout_is_reproducible_under_its_seed():
    def draw_outputs():
        set_seed(3)
        attention = BahdanauAttention(17, dropout=0.5, seed=7)
        return [np.array(attention(QUERY, VALUE, training=True)) for _ in range(2)]

    (first, second), (again, _) = draw_outputs(), draw_outputs()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, second)


def test_implicit_masks_are_read_passed_on_and_not_erased():
    ids = np.array([[3, 4, 0, 0], [5, 6, 7, 0]])
    embedding = keras.layers.Embedding(9, 6, mask_zero=True)
    hidden = embedding(ids)
    attention = LuongAttention("dot")
    context, weights = attention(hidden, hidden, return_attention_scores=True)
    assert np.array_equal(np.array(weights)[0, 0] > 0, ids[0] > 0)
    assert np.all(np.array(weights)[0, 3] == 0), "a padded query reads nothing"
    assert np.array_equal(np.array(hidden._keras_mask), ids > 0)
    assert np.array_equal(np.array(context._keras_mask), ids > 0)
    second = attention(context, hidden)
    assert np.array_equal(np.array(second._keras_mask), ids > 0)


def test_symbolic_shapes_equal_eager_shapes(make):
    attention = make()
    inputs = keras.Input((T, DQ)), keras.Input((S, DV))
    context, weights = attention(*inputs, return_attention_scores=True)
    assert context.shape == (None, T, DV)
    assert weights.shape == (None, T, S)
    unknown = keras.Input((None, DQ)), keras.Input((None, DV))
    context, weights = attention(*unknown, return_attention_scores=True)
    assert (context.shape, weights.shape) == ((None, None, DV), (None, None, None))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: BahdanauAttention(0), "BahdanauAttention.*`units`.*Received: units=0"),
        (lambda: LuongAttention("addictive"), "'dot', 'general'.*score='addictive'"),
        (lambda: LuongAttention("location"), "needs `max_length`"),
        (lambda: LuongAttention("dot", max_length=3), "max_length=3"),
        (lambda: LuongAttention("dot", units=3), "`units` only with score='concat'"),
        (lambda: Attention("addictive"), "`Scorer` object or one of.*'scaled_dot'.*'addictive'"),
        (lambda: Attention("dot", "sofmax"), "`Normalizer` object or one of 'argmax'"),
        (lambda: Attention("dot", dropout=1.0), r"\[0, 1\).*dropout=1.0"),
        (lambda: LuongAttention("dot")(QUERY, VALUE), "of equal width"),
        (lambda: BahdanauAttention(2)(QUERY, VALUE[:2]), "same size on axis 0"),
        (lambda: BahdanauAttention(2)(QUERY, VALUE[0]), "`value` of shape"),
        (lambda: BahdanauAttention(2)(QUERY, VALUE, VALUE[:, :3]), "Each key belongs"),
        (
            lambda: BahdanauAttention(2)(QUERY, VALUE, value_mask=VALUE_MASK.astype("float32")),
            "`value_mask` to be boolean.*keras.ops.cast",
        ),
        (
            lambda: BahdanauAttention(2)(QUERY, VALUE, value_mask=VALUE_MASK[:, :4]),
            r"`value_mask` of shape \(batch, key\), here \(3, 7\).*\(3, 4\)",
        ),
        (
            lambda: BahdanauAttention(2)(QUERY, VALUE, query_mask=VALUE_MASK),
            r"`query_mask` of shape \(batch, query\)",
        ),
        (
            lambda: BahdanauAttention(2)(QUERY[:, 0], VALUE, use_causal_mask=True),
            "needs a query axis",
        ),
        (
            lambda: BahdanauAttention(2)(QUERY, VALUE, attention_bias=np.zeros((B, S))),
            r"`attention_bias` of shape \(1 or batch, query, key\), here \(3, 5, 7\).*\(3, 7\)",
        ),
        (lambda: BahdanauAttention(2).attend(QUERY, {}), "no weights yet"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_a_long_reading_without_weights_equals_the_one_with_them(score, monkeypatch):
    attention, value = LuongAttention(score, dtype="float64"), _random(B, S, DQ)
    masks = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK, "use_causal_mask": True}
    masks["attention_mask"] = _random(1, T, S) > -0.5
    for names in ([], ["value_mask"], ["use_causal_mask"], masks):
        given = {name: masks[name] for name in names}
        expected, _ = attention(QUERY, value, return_attention_scores=True, **given)
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 2**40)
        np.testing.assert_allclose(attention(QUERY, value, **given), expected, atol=1e-12)
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
        np.testing.assert_allclose(attention(QUERY, value, **given), expected, atol=1e-12)


def test_only_plain_softmax_over_dot_products_is_read_by_blocks(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("read by blocks")

    monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
    monkeypatch.setattr(blocked_dot, "attend_without_stored_scores", refuse)
    value = _random(B, S, DQ)
    Attention("scaled_dot")(QUERY, value, return_attention_scores=True)
    Attention("scaled_dot", normalizer="sparsemax")(QUERY, value)
    Attention("scaled_dot", dropout=0.5)(QUERY, value, training=True)
    LuongAttention("general")(QUERY, value)
    Attention("scaled_dot")(QUERY, value, attention_bias=np.zeros((1, T, S), "float32"))
    with pytest.raises(AssertionError, match="by blocks"):
        Attention("scaled_dot", dropout=0.5)(QUERY, value)
