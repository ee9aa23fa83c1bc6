"""Local attention by windows of keys equals scoring all keys, and is never as large."""

import numpy as np
import pytest
from local_layers import KEY, MASK, MODES, QUERY, VALUE, B, S, T, build_layer, score_windows_alone
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention import LocalAttention


@pytest.fixture(autouse=True)
def windows_alone(monkeypatch):
    score_windows_alone(monkeypatch)


SCORERS = {
    "dot": ka.DotScorer,
    "scaled_dot": ka.ScaledDotScorer,
    "cosine": ka.CosineScorer,
    "general": ka.GeneralScorer,
    "bilinear": ka.BilinearScorer,
    "low_rank": lambda **o: ka.LowRankBilinearScorer(3, **o),
    "additive": lambda **o: ka.AdditiveScorer(3, **o),
    "concat": lambda **o: ka.ConcatScorer(3, **o),
    "mlp": lambda **o: ka.MLPScorer([3, 2], **o),
    "uniform": ka.UniformScorer,
}
NORMALIZERS = {
    "softmax": ka.SoftmaxNormalizer,
    "sparsemax": ka.SparsemaxNormalizer,
    "entmax": ka.EntmaxNormalizer,
}


def _with_gradients(layer, dtype, **flags):
    """Returns context, weights and all gradients under masks of every kind."""
    query, value, key = (tf.constant(x, dtype) for x in (QUERY, VALUE, KEY))
    with tf.GradientTape() as tape:
        tape.watch([query, value, key])
        results = layer(
            query,
            value,
            key,
            query_mask=np.arange(T) < np.array([[T], [31], [T]]),
            value_mask=MASK,
            attention_mask=np.random.RandomState(2).rand(B, T, S) > 0.2,
            return_attention_scores=True,
            **flags,
        )
        total = tf.add_n([tf.reduce_sum(tf.sin(5 * result)) for result in results])
    watched = [query, value, key, *layer.trainable_variables]
    gradients = tape.gradient(total, watched, unconnected_gradients="zero")
    return [np.array(x) for x in (*results, *gradients)]


def _assert_forms_agree(make, dtype, monkeypatch, **flags):
    spans = _with_gradients(make(), dtype, **flags)
    monkeypatch.setattr(LocalAttention, "_should_score_all_keys", lambda *arguments: True)
    dense = _with_gradients(make(), dtype, **flags)
    tolerance = 1e-10 if dtype == "float64" else 1e-5
    for one, other in zip(spans, dense, strict=True):
        assert np.isfinite(one).all()
        bound = tolerance * max(1e-3, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=bound)


@MODES
@pytest.mark.parametrize("scorer", SCORERS)
def test_spans_equal_the_dense_form_under_every_scorer(options, scorer, monkeypatch):
    def make():
        set_seed(1)
        return build_layer(scorer=SCORERS[scorer](dtype="float64"), **options)

    _assert_forms_agree(make, "float64", monkeypatch)


@MODES
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spans_equal_the_dense_form_under_every_normalizer(
    options, normalizer, causal, dtype, monkeypatch
):
    def make():
        given = NORMALIZERS[normalizer](dtype=dtype)
        return build_layer(dtype=dtype, scorer="dot", normalizer=given, **options)

    _assert_forms_agree(make, dtype, monkeypatch, use_causal_mask=causal)


@MODES
def test_dropout_acts_on_the_place_in_the_window(options):
    layer = build_layer(dropout=0.4, seed=3, **options)
    noise = layer.noise(B, T, S, training=True)
    assert noise["dropout"].shape == (B, T, 5)
    prepared = layer.prepare(tf.constant(VALUE), tf.constant(KEY), value_mask=MASK)
    context, weights = layer.attend(tf.constant(QUERY), prepared, noise=noise, training=True)
    plain, plain_weights = layer.attend(tf.constant(QUERY), prepared)
    np.testing.assert_array_equal(weights, plain_weights)
    assert np.abs(np.array(context) - plain).max() > 0.1
    # By the dense form: the noise of a place belongs to the key that stands there.
    steps = [
        layer.attend(
            tf.constant(QUERY[:, t]),
            prepared,
            position=np.full(B, t),
            noise={"dropout": noise["dropout"][:, t]},
            training=True,
        )[0]
        for t in range(T)
    ]
    np.testing.assert_allclose(np.stack(steps, axis=1), context, atol=1e-12)


@MODES
def test_nothing_as_large_as_queries_times_keys_is_built(options):
    size = 1024
    layer = LocalAttention(3, **options)
    layer.build((1, size, 2), (1, size, 2))

    @tf.function(input_signature=[tf.TensorSpec((1, size, 2)), tf.TensorSpec((1, size), "bool")])
    def step(values, mask):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(values, values, value_mask=mask, query_mask=mask))
        return tape.gradient(total, layer.trainable_variables)

    graph = step.get_concrete_function().graph
    shapes = [output.shape for op in graph.get_operations() for output in op.outputs]
    sizes = [shape.num_elements() or 0 for shape in shapes if shape.rank is not None]
    assert max(sizes) <= 100 * size


@pytest.mark.parametrize("mode", ["monotonic", "predictive"])
def test_a_scorer_that_reads_positions_is_read_densely(mode):
    scorer = ka.LocationScorer(S, dtype="float64")
    layer = build_layer(3, mode=mode, scorer=scorer)
    flags = {"return_attention_scores": True, "return_auxiliary_outputs": True}
    _, weights, auxiliary_outputs = layer(QUERY, VALUE, KEY, **flags)
    centers = (
        np.array(auxiliary_outputs["position"]) if mode == "predictive" else np.arange(T)[None]
    )
    inside = np.abs(np.arange(S) - np.minimum(centers.astype(int), S - 1)[..., None]) <= 1
    scores = np.where(inside, QUERY @ np.array(scorer.kernel), -np.inf)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    if mode == "predictive":
        expected *= np.exp(-((np.arange(S) - centers[..., None]) ** 2) / (2 * 0.5**2))
    np.testing.assert_allclose(np.array(weights), expected, atol=1e-6)
