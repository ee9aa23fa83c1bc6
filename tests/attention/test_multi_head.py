"""Multi-head attention against loops over heads, against Keras' layer, and at its limits."""

import keras
import numpy as np
import pytest
from heads_reference import multi_head
from keras import ops
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.kernels import blocked_dot

SIZES = {"batch": 3, "query": 5, "key": 7, "query_dim": 11, "value_dim": 13, "key_dim": 10}


def _tensors(seed=1, scale=1.0):
    random, s = np.random.RandomState(seed), SIZES
    query = scale * random.randn(s["batch"], s["query"], s["query_dim"])
    value = scale * random.randn(s["batch"], s["key"], s["value_dim"])
    key = scale * random.randn(s["batch"], s["key"], s["key_dim"])
    return query, value, key


def _layer(*arguments, seed=1, **options):
    set_seed(seed)
    return ka.MultiHeadAttention(*arguments, dtype="float64", **options)


def _make_mask(seed=2):
    """Returns a mask with rows that are full, partly kept and empty."""
    kept = np.random.RandomState(seed).rand(SIZES["batch"], SIZES["query"], SIZES["key"]) < 0.6
    kept[0, 1], kept[1, 2] = True, False
    return kept


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value_dim": 3},
        {"num_key_value_heads": 2},
        {"num_key_value_heads": 1, "value_dim": 3},
        {"use_bias": True, "bias_initializer": "normal", "output_dim": 9},
        {"rotary": ka.RotaryEmbedding(dtype="float64"), "num_key_value_heads": 2},
    ],
    ids=str,
)
def test_it_is_the_paper_one_head_at_a_time(options):
    layer = _layer(4, 6, **options)
    query, value, key = _tensors()
    kept = _make_mask()
    bias = np.random.RandomState(3).randn(3, 4, 5, 7)
    given = {"attention_mask": kept, "attention_bias": bias}
    context, weights = layer(query, value, key, return_attention_scores=True, **given)
    expected = multi_head(layer, query, value, key, kept, bias, rotary="rotary" in options)
    np.testing.assert_allclose(context, expected[0], atol=1e-12)
    np.testing.assert_allclose(weights, expected[1], atol=1e-12)


@pytest.mark.parametrize("use_bias", [False, True])
def test_its_masks_are_those_of_the_paper_joined(use_bias):
    layer = _layer(4, 6, use_bias=use_bias, bias_initializer="normal")
    query, value, key = _tensors()
    query_mask = np.arange(5) < np.array([[5], [3], [4]])
    value_mask = np.arange(7) >= np.array([[0], [7], [2]])  # a sequence may be padded in front
    position = np.array([0, 2, 1])
    context = layer(
        query,
        value,
        key,
        query_mask=query_mask,
        value_mask=value_mask,
        use_causal_mask=True,
        position_offset=position,
    )
    reached = np.arange(7) <= position[:, None, None] + np.arange(5)[:, None]
    kept = query_mask[:, :, None] & value_mask[:, None] & reached
    expected, _ = multi_head(layer, query, value, key, kept)
    np.testing.assert_allclose(context, expected, atol=1e-12)


@pytest.mark.parametrize("use_bias", [False, True])
def test_without_biases_it_has_four_square_matrices(use_bias):
    layer = ka.MultiHeadAttention(4, 6, use_bias=use_bias)
    layer.build((None, None, 24), (None, None, 24))
    assert layer.count_params() == 4 * 24**2 + use_bias * 4 * 24


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_it_computes_what_the_layer_of_keras_does(use_bias, causal):
    query, value, key = (tensor.astype("float32") for tensor in _tensors())
    theirs = keras.layers.MultiHeadAttention(4, 6, 5, use_bias=use_bias)
    theirs.build(query.shape, value.shape, key.shape)
    random = np.random.RandomState(4)
    theirs.set_weights([random.randn(*weight.shape) / 3 for weight in theirs.weights])
    ours = ka.MultiHeadAttention(4, 6, 5, use_bias=use_bias)
    ours.build(query.shape, value.shape, key.shape)
    pairs = zip(theirs.weights, ours.weights, strict=True)
    ours.set_weights([np.reshape(one, other.shape) for one, other in pairs])
    options = {"return_attention_scores": True, "use_causal_mask": causal}
    for one, other in zip(
        ours(query, value, key, **options), theirs(query, value, key, **options), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_shared_key_value_heads_equal_repeated_ones(groups):
    query, value, _ = _tensors()
    shared = _layer(4, 6, value_dim=3, num_key_value_heads=groups)
    shared.build(query.shape, value.shape)
    full = _layer(4, 6, value_dim=3)
    full.build(query.shape, value.shape)

    def repeat_groups(kernel, width):
        blocks = np.split(np.array(kernel), groups, axis=1)
        assert blocks[0].shape[1] == width
        return np.concatenate([block for block in blocks for _ in range(4 // groups)], axis=1)

    weights = [np.array(weight) for weight in shared.weights]
    full.set_weights(
        [weights[0], repeat_groups(weights[1], 6), repeat_groups(weights[2], 3), weights[3]]
    )
    for one, other in zip(
        shared(query, value, return_attention_scores=True),
        full(query, value, return_attention_scores=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_one_key_value_head_trains_in_a_graph(compiled):
    layer = ka.MultiHeadAttention(4, 6, num_key_value_heads=1)
    query = tf.constant(_tensors()[0], "float32")
    layer.build(query.shape, query.shape)

    @tf.function(jit_compile=compiled, input_signature=[tf.TensorSpec([None, None, 11])])
    def gradients(query):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(query, query) ** 2)
        return tape.gradient(loss, layer.trainable_variables)

    for gradient, weight in zip(gradients(query), layer.trainable_variables, strict=True):
        assert gradient.shape == weight.shape and np.abs(gradient).max() > 0


SCORERS = {
    "dot": lambda: ka.DotScorer(dtype="float64"),
    "cosine": lambda: ka.CosineScorer(dtype="float64"),
    "additive": lambda: ka.AdditiveScorer(3, dtype="float64"),
    "concat": lambda: ka.ConcatScorer(3, dtype="float64"),
    "general": lambda: ka.GeneralScorer(dtype="float64"),
    "bilinear": lambda: ka.BilinearScorer(dtype="float64"),
    "low_rank": lambda: ka.LowRankBilinearScorer(3, dtype="float64"),
    "location": lambda: ka.LocationScorer(17, dtype="float64"),
    "mlp": lambda: ka.MLPScorer([3], dtype="float64"),
    "uniform": lambda: ka.UniformScorer(dtype="float64"),
}


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("groups", [None, 2])
def test_any_scorer_scores_each_head_by_itself(name, groups):
    layer = _layer(4, 6, scorer=SCORERS[name](), num_key_value_heads=groups)
    query, value, _ = _tensors()
    _, weights = layer(query, value, return_attention_scores=True)
    projected = np.split(np.array(layer.query_dense(query)), 4, axis=-1)
    keys = np.split(np.array(layer.key_dense(value)), groups or 4, axis=-1)
    scorers = [layer.scorer, *layer.other_head_scorers]
    assert len(scorers) == (4 if layer.scorer.weights else 1)
    for head in range(4):
        scorer = scorers[head % len(scorers)]
        scores = scorer(projected[head], keys[head // (4 // (groups or 4))])
        expected = layer.normalizer(scores)
        np.testing.assert_allclose(weights[:, head], expected, atol=1e-12)


def test_heads_start_with_scorers_of_their_own_under_one_seed():
    start = keras.initializers.GlorotUniform(seed=5)
    scorer = ka.AdditiveScorer(3, kernel_initializer=start, vector_initializer=start)
    layer = ka.MultiHeadAttention(3, 4, scorer=scorer, kernel_initializer=start)
    layer.build((None, None, 12), (None, None, 12))
    kernels = [scorer.query_kernel for scorer in [layer.scorer, *layer.other_head_scorers]]
    kernels += [layer.query_dense.kernel, layer.key_dense.kernel, layer.value_dense.kernel]
    flat = [np.array(kernel).ravel()[:12] for kernel in kernels]
    assert len({tuple(values) for values in flat}) == 6


NORMALIZERS = {
    "softmax": lambda: "softmax",
    "sparsemax": lambda: ka.SparsemaxNormalizer(),
    "entmax": lambda: ka.EntmaxNormalizer(1.5),
    "learnable entmax": lambda: ka.EntmaxNormalizer(1.4, learn_alpha=True),
    "argmax": lambda: ka.ArgmaxNormalizer(),
    "sample": lambda: ka.SampleNormalizer(seed=1),
    "gumbel": lambda: ka.GumbelSoftmaxNormalizer(0.5, seed=1),
    "monotonic": lambda: ka.MonotonicNormalizer(),
    "recursive": lambda: ka.MonotonicNormalizer("recursive"),
}


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("scorer", ["scaled_dot", "concat"])
def test_any_normalizer_weighs_each_head_by_itself(name, scorer):
    set_seed(1)
    options = {"scorer": scorer, "normalizer": NORMALIZERS[name](), "num_key_value_heads": 2}
    layer = ka.MultiHeadAttention(4, 6, **options)
    query, value, _ = (tensor.astype("float32") for tensor in _tensors())
    kept = _make_mask()
    context, weights = layer(query, value, attention_mask=kept, return_attention_scores=True)
    assert np.all(np.array(weights)[np.broadcast_to(~kept[:, None], weights.shape)] == 0)
    assert np.all(np.array(context)[~kept.any(-1)] == 0)
    sums = np.array(weights).sum(-1)
    assert np.all(sums < 1 + 1e-5)
    if name not in ("monotonic", "recursive"):
        full = np.broadcast_to(kept.any(-1)[:, None], sums.shape)
        np.testing.assert_allclose(sums[full], 1, atol=1e-5)
    projected = layer.query_dense(query)
    for head in (0, 3):
        one = [layer.scorer, *layer.other_head_scorers][head if layer.other_head_scorers else 0]
        keys = layer.key_dense(value)[..., (head // 2) * 6 : (head // 2 + 1) * 6]
        scores = one(projected[..., head * 6 : (head + 1) * 6], keys)
        expected = layer.normalizer(scores, mask=kept)
        np.testing.assert_allclose(weights[:, head], expected, atol=1e-5)


def test_gradients_equal_finite_differences():
    layer = _layer(2, 4, 3, 1, rotary=ka.RotaryEmbedding(dtype="float64"), use_bias=True)
    query, value, key = map(tf.constant, _tensors(scale=0.7))
    kept, direction = _make_mask(), np.random.RandomState(5).randn(3, 5, 11)

    def loss():
        return tf.reduce_sum(layer(query, value, key, attention_mask=kept) * direction)

    loss()
    with tf.GradientTape() as tape:
        total = loss()
    gradients = tape.gradient(total, layer.trainable_variables)
    for weight, gradient in zip(layer.trainable_variables, gradients, strict=True):
        start, random = np.array(weight), np.random.RandomState(6).randn(*weight.shape)
        sides = []
        for sign in (1, -1):
            weight.assign(start + sign * 1e-6 * random)
            sides.append(float(loss()))
        weight.assign(start)
        slope = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * random), slope, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("step", [False, True])
def test_shapes_of_symbols_are_those_of_values(step):
    query, value, _ = (tensor.astype("float32") for tensor in _tensors())
    query = query[:, 0] if step else query
    layer = ka.MultiHeadAttention(4, 6, value_dim=3)
    symbols = [keras.Input(tensor.shape[1:]) for tensor in (query, value)]
    for outputs, values in zip(
        layer(*symbols, return_attention_scores=True),
        layer(query, value, return_attention_scores=True),
        strict=True,
    ):
        assert outputs.shape == (None, *values.shape[1:])


def test_a_query_of_rank_2_is_one_row_of_rank_3():
    layer, (query, value, _) = _layer(4, 6), _tensors()
    bias = np.random.RandomState(1).randn(1, 4, 5, 7)
    given = {"return_attention_scores": True}
    context, weights = layer(query, value, attention_bias=bias, **given)
    for row in range(5):
        one, its = layer(query[:, row], value, attention_bias=bias[:, :, row], **given)
        np.testing.assert_allclose(one, context[:, row], atol=1e-12)
        np.testing.assert_allclose(its, weights[:, :, row], atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (3, 1, 1, 7), (1, 4, 1, 7)])
def test_a_bias_broadcasts_over_batch_heads_and_positions(shape):
    layer, (query, value, _) = _layer(4, 6), _tensors()
    bias = np.random.RandomState(1).randn(*shape)
    full = np.broadcast_to(bias, (3, 4, 5, 7))
    one = layer(query, value, attention_bias=bias)
    np.testing.assert_allclose(one, layer(query, value, attention_bias=full), atol=1e-12)
    assert np.abs(one - layer(query, value)).max() > 1e-3


def test_a_large_bias_is_added_in_float32():
    layer = ka.MultiHeadAttention(1, 2, dtype="float16")
    zeros, value = np.zeros((1, 1, 3)), np.ones((1, 2, 3))
    bias = np.array([[[[2048.0, 2049.0]]]])  # the same number in float16
    _, weights = layer(zeros, value, attention_bias=bias, return_attention_scores=True)
    np.testing.assert_allclose(weights[0, 0, 0], [0.2689, 0.7311], atol=1e-3)


@pytest.mark.parametrize("policy", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("path", ["weights", "plain", "dropout", "blocks", "bias"])
def test_a_row_with_nothing_to_keep_is_zero_in_every_path(policy, path, monkeypatch):
    options = {"use_bias": True, "bias_initializer": "ones", "dtype": policy, "seed": 1}
    layer = ka.MultiHeadAttention(2, 4, dropout=0.5 * (path == "dropout"), **options)
    query, value, _ = (tensor.astype("float32") for tensor in _tensors(scale=3.0))
    query, value = tf.constant(query), tf.constant(value)
    value_mask = np.arange(7) < np.array([[7], [0], [3]])
    flags = {"training": path == "dropout", "return_attention_scores": path == "weights"}
    if path == "blocks":
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
    if path == "bias":
        flags["attention_bias"] = np.ones((1, 1, 5, 7), "float32")
    with tf.GradientTape() as tape:
        tape.watch([query, value])
        results = layer(query, value, value_mask=value_mask, use_causal_mask=True, **flags)
        results = keras.tree.flatten(results)
        total = tf.add_n([tf.reduce_sum(tf.cast(result, "float32")) for result in results])
    for result in results:
        result = np.array(ops.cast(result, "float32"))
        assert np.all(result[1] == 0) and np.isfinite(result).all() and np.any(result[0])
    for gradient in tape.gradient(total, [query, value, *layer.trainable_variables]):
        assert np.isfinite(np.array(ops.cast(gradient, "float32"))).all()


@pytest.mark.parametrize("use_bias", [False, True])
def test_keys_that_the_scorer_cannot_score_are_masked(use_bias):
    scorer, query, value = ka.LocationScorer(4), ops.ones((1, 2, 8)), ops.ones((1, 6, 8))
    layer = ka.MultiHeadAttention(2, 4, scorer=scorer, use_bias=use_bias, bias_initializer="ones")
    for mask, expected in (([0, 0, 0, 0, 1, 1], 0), ([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 0])):
        context, weights = layer(
            query, value, value_mask=ops.array([mask], "bool"), return_attention_scores=True
        )
        np.testing.assert_array_equal(weights, np.broadcast_to(expected, (1, 2, 2, 6)))
        assert np.any(context) == np.any(expected)


def test_blocks_compute_what_all_scores_at_once_do(monkeypatch):
    layer = _layer(4, 6, 3, 2, use_bias=True, bias_initializer="normal")
    query, value, key = _tensors()
    masks = {
        "query_mask": np.arange(5) < np.array([[5], [3], [4]]),
        "value_mask": np.arange(7) >= np.array([[0], [7], [2]]),
        "attention_mask": _make_mask(),
        "position_offset": np.array([0, 2, 1]),
        "use_causal_mask": True,
    }
    spread = {"query_mask": masks["query_mask"][:1], "attention_mask": _make_mask()[:, :1]}
    for names in ([], ["value_mask"], ["use_causal_mask", "position_offset", "value_mask"], masks):
        given = {name: masks[name] for name in names}
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 2**40)
        expected = layer(query, value, key, **given)
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
        np.testing.assert_allclose(layer(query, value, key, **given), expected, atol=1e-12)
    one_by_one = {"use_causal_mask": True, "position_offset": np.arange(5)[None]}
    for given in (spread, {"value_mask": masks["value_mask"][2:]}, one_by_one):
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 2**40)
        expected = layer(query, value, key, **given)
        monkeypatch.setattr(blocked_dot, "MAX_DENSE_SCORES", 0)
        np.testing.assert_allclose(layer(query, value, key, **given), expected, atol=1e-12)


def test_one_query_under_a_cache_sees_all_earlier_keys():
    layer, (query, value, _) = _layer(2, 4), _tensors()
    position = np.array([0, 3, 6])
    given = {"use_causal_mask": True, "return_attention_scores": True}
    _, weights = layer(query[:, :1], value, position_offset=position, **given)
    for row, last in enumerate(position):
        assert np.all(np.array(weights)[row, :, 0, : last + 1] > 0)
        assert np.all(np.array(weights)[row, :, 0, last + 1 :] == 0)


def test_dropout_leaves_the_returned_weights_whole():
    layer = ka.MultiHeadAttention(2, 4, dropout=0.5, seed=1)
    query, value, _ = (tensor.astype("float32") for tensor in _tensors())
    given = {"return_attention_scores": True}
    context, weights = layer(query, value, training=True, **given)
    np.testing.assert_allclose(np.sum(weights, -1), 1, atol=1e-6)
    assert np.abs(context - layer(query, value)).max() > 1e-3


def test_a_mask_stays_on_the_tensor_it_came_with():
    layer = ka.MultiHeadAttention(2, 4)
    states, mask = tf.constant(_tensors()[0], "float32"), tf.constant(_make_mask()[:, :, 0])
    states._keras_mask = mask
    first, second = layer(states, states), layer(states, states)
    assert states._keras_mask is mask
    np.testing.assert_array_equal(first, second)
    explicit = layer(np.array(states), np.array(states), query_mask=mask, value_mask=mask)
    np.testing.assert_array_equal(first, explicit)


def test_what_is_drawn_beforehand_is_what_attend_drops():
    layer = ka.MultiHeadAttention(2, 4, dropout=0.5, normalizer="softmax", seed=1)
    query, value, _ = (tensor.astype("float32") for tensor in _tensors())
    layer(query, value)
    prepared, noise = layer.prepare(value), layer.noise(3, 5, 7, training=True)
    assert noise["dropout"].shape == (3, 5, 2, 7)
    whole, weights = layer.attend(query, prepared, noise=noise, training=True)
    assert np.abs(whole - layer.attend(query, prepared)[0]).max() > 1e-3
    for row in range(5):
        part = {name: tensor[:, row] for name, tensor in noise.items()}
        one, its = layer.attend(query[:, row], prepared, noise=part, training=True)
        np.testing.assert_allclose(one, whole[:, row], atol=1e-5)
        np.testing.assert_allclose(its, weights[:, :, row], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 0}, "`num_heads` to be a positive int. Received: num_heads=0"),
        ({"key_dim": 1.5}, "`key_dim` to be a positive int"),
        ({"value_dim": 0}, "`value_dim` to be a positive int"),
        ({"num_key_value_heads": 3}, "`num_key_value_heads` to divide `num_heads`"),
        ({"output_dim": -1}, "`output_dim` to be a positive int"),
        ({"scorer": "scaled"}, "Expected `scorer`"),
        ({"rotary": True}, "`rotary` to be a `RotaryEmbedding` object or None"),
        ({"rotary": ka.RotaryEmbedding(), "key_dim": 5}, "an even `key_dim`"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ka.MultiHeadAttention(**{"num_heads": 4, "key_dim": 6, **options})


def test_a_recurrent_layer_refuses_the_earlier_weights_of_heads():
    with pytest.raises(ValueError, match="not those of several heads.*'previous'"):
        ka.AttentionRNN(
            keras.layers.GRUCell(3), ka.MultiHeadAttention(2, 4), attention_history="previous"
        )


def test_tensors_that_do_not_fit_are_refused():
    layer, (query, value, key) = _layer(4, 6), _tensors()
    with pytest.raises(ValueError, match="`query` of shape"):
        layer(query[None], value)
    layer(query, value, key)
    with pytest.raises(ValueError, match="was built for the widths"):
        layer(query, key, value)
    with pytest.raises(ValueError, match="same size on axis 1"):
        layer(query, value, key[:, :4])
    with pytest.raises(ValueError, match="`attention_bias` of shape"):
        layer(query, value, key, attention_bias=np.zeros((3, 5, 7)))
    with pytest.raises(ValueError, match="no weights yet"):
        ka.MultiHeadAttention(2, 4).start_cache(2, 5)
