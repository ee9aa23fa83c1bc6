"""Multi-step attention: both scalings by hand, the length factor, steps, weight normalization."""

import keras
import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import MultiStepAttention

B, T, S, D, F = 3, 5, 7, 11, 2
RANDOM = np.random.RandomState(1)
QUERY, TARGET = RANDOM.randn(B, T, D), RANDOM.randn(B, T, F)
KEY, SOURCE = RANDOM.randn(B, S, F), RANDOM.randn(B, S, F)
LENGTHS = (7, 3, 0)
MASK = np.arange(S) < np.array(LENGTHS)[:, None]


def _layer(**options):
    set_seed(1)
    layer = MultiStepAttention(dtype="float64", **options)
    layer.build(QUERY.shape, TARGET.shape, KEY.shape, SOURCE.shape)
    random = np.random.RandomState(2)
    layer.set_weights([random.randn(*w.shape) for w in layer.weights])
    return layer


def _maps(layer):
    """Returns W_d, b_d, W_o and b_o: each column g v / |v| under weight normalization."""
    weights = {"_".join(w.path.split("/")[-2:]): np.array(w) for w in layer.weights}
    for name in ("query", "output"):
        if layer.weight_normalization:
            v = weights[f"{name}_kernel"]
            for column in range(v.shape[1]):
                length = np.sqrt(sum(v[:, column] ** 2))
                v[:, column] *= weights[f"{name}_gain"][column] / length
    return [
        weights[f"{name}_{part}"] for name in ("query", "output") for part in ("kernel", "bias")
    ]


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("scaling", ["code", "paper"])
def test_it_is_the_papers_arithmetic(scaling, normalized):
    layer = _layer(scaling=scaling, weight_normalization=normalized)
    outputs, weights = map(
        np.array, layer(QUERY, TARGET, KEY, SOURCE, key_mask=MASK, return_attention_scores=True)
    )
    wd, bd, wo, bo = _maps(layer)
    half = np.sqrt(0.5) if scaling == "code" else 1.0
    for row, m in enumerate(LENGTHS):
        for i in range(T):
            d = (wd.T @ QUERY[row, i] + bd + TARGET[row, i]) * half
            c = np.zeros(F)
            if m:
                scores = np.array([d @ KEY[row, j] for j in range(m)])
                a = np.exp(scores) / np.exp(scores).sum()
                np.testing.assert_allclose(weights[row, i, :m], a, atol=1e-12)
                c = (
                    m
                    * np.sqrt(1 / m)
                    * sum(a[j] * (KEY[row, j] + SOURCE[row, j]) * half for j in range(m))
                )
            expected = (QUERY[row, i] + wo.T @ c + bo) * half
            np.testing.assert_allclose(outputs[row, i], expected, atol=1e-12)
        assert np.all(weights[row, :, m:] == 0)


def test_gradients_agree_with_differences():
    layer, key = _layer(), tf.Variable(KEY)
    assert_gradients_are_right(
        lambda: layer(QUERY, TARGET, tf.convert_to_tensor(key), SOURCE, key_mask=MASK),
        [*layer.trainable_weights, key],
        samples=4,
    )


def test_masks_of_key_and_source_and_of_query_and_target_join():
    layer, other = _layer(), np.arange(S) % 2 == 0
    query_mask = np.arange(T) < np.array([[2], [5], [4]])
    target_mask = np.arange(T) > np.array([[0], [1], [2]])
    outputs, weights = layer(
        QUERY,
        TARGET,
        KEY,
        SOURCE,
        query_mask=query_mask,
        target_mask=target_mask,
        key_mask=MASK,
        source_mask=np.broadcast_to(other, MASK.shape),
        return_attention_scores=True,
    )
    queries = query_mask & target_mask
    kept = queries[:, :, None] & (MASK & other)[:, None]
    assert np.array_equal(np.array(weights) > 0, kept)
    assert np.array_equal(np.any(np.array(outputs) != 0, axis=-1), queries)


def test_prepared_steps_equal_the_call():
    layer = _layer()
    expected = layer(QUERY, TARGET, KEY, SOURCE, key_mask=MASK, return_attention_scores=True)
    prepared = layer.prepare(KEY, SOURCE, key_mask=MASK)
    for i in range(T):
        results = layer.attend(tf.constant(QUERY[:, i]), tf.constant(TARGET[:, i]), prepared)
        for one, whole in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.array(one), np.array(whole)[:, i], atol=1e-12)


def test_weight_normalization_starts_at_the_plain_layer():
    def make_layer(normalized):
        layer = MultiStepAttention(
            weight_normalization=normalized,
            kernel_initializer=keras.initializers.RandomNormal(seed=3),
            dtype="float64",
        )
        return np.array(layer(QUERY, TARGET, KEY, SOURCE))

    np.testing.assert_allclose(make_layer(True), make_layer(False), atol=1e-12)


def test_the_variance_of_unit_inputs_is_kept():
    """At its initial values, with weights near uniform, as the factor m sqrt(1/m) assumes."""
    random, dim = np.random.RandomState(4), 256
    layer = MultiStepAttention()
    query, target = random.randn(8, 6, dim), random.randn(8, 6, dim)
    key, source = 1e-3 * random.randn(8, 40, dim), random.randn(8, 40, dim) * np.sqrt(2)
    outputs = np.array(layer(query, target, key, source))
    assert 0.5 < outputs.var() < 2


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: MultiStepAttention("text"), "`scaling` to be one of 'code', 'paper'.*'text'"),
        (lambda: _layer()(QUERY, TARGET[:, 0], KEY, SOURCE), "without the query axis"),
        (lambda: _layer()(QUERY, TARGET, KEY[0], SOURCE), r"\(batch, key, embedding_dim\)"),
        (lambda: _layer()(QUERY, TARGET, KEY, SOURCE[:, :3]), "same size on axis 1"),
        (lambda: _layer()(QUERY, QUERY, KEY, SOURCE), "axis -1. Project the encoder's output"),
        (
            lambda: _layer()(QUERY, TARGET, KEY, SOURCE, target_mask=MASK),
            r"`target_mask` of shape \(batch, query\)",
        ),
        (lambda: MultiStepAttention().prepare(tf.constant(KEY), SOURCE), "no weights yet"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
