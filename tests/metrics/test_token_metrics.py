"""Metrics of tokens: formulas in float64, masks and weights, long sums, `fit`, `.keras`."""

import keras
import numpy as np
import pytest

from keras_attention import TokenCrossentropy, metrics

B, T, V = 5, 3, 7
DRAW = np.random.RandomState(1)
LABELS = np.where(np.arange(T) < [[3], [2], [3], [1], [0]], DRAW.randint(1, V, (B, T)), 0)
LOGITS = DRAW.randn(B, T, V) + 4 * np.eye(V)[LABELS]  # most are right
LOGITS[0] = LOGITS[0, ::-1]
MASK = np.arange(T) < [[3], [1], [2], [3], [3]]
WEIGHTS = {"none": None, "batch": DRAW.rand(B) + 0.5, "tokens": DRAW.rand(B, T) + 0.5}
METRICS = [metrics.TokenAccuracy, metrics.Perplexity, metrics.ExactMatch]


class _Attach(keras.layers.Layer):
    """Returns its input with a mask attached."""

    def call(self, inputs):
        return inputs * 1

    def compute_mask(self, inputs, previous_mask=None):
        return keras.ops.convert_to_tensor(MASK)


def _references(labels, logits, weight=None, mask=None):
    """Returns the three metrics, in float64."""
    weights = (
        np.ones(labels.shape) if weight is None else np.ones(labels.shape) * weight.reshape(B, -1)
    )
    weights = weights * (labels != 0) * (1 if mask is None else mask)
    right = logits.argmax(-1) == labels
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]
    sequences = [all(right[b][weights[b] > 0]) for b in range(B)]
    return [
        (right * weights).sum() / weights.sum(),
        np.exp(-(chosen * weights).sum() / weights.sum()),
        (sequences * weights.max(1)).sum() / weights.max(1).sum(),
    ]


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_metrics_equal_their_formulas(weight, mask):
    expected = _references(LABELS, LOGITS, WEIGHTS[weight], mask)
    logits = LOGITS if mask is None else _Attach(dtype="float64")(LOGITS)
    for metric, value in zip([one() for one in METRICS], expected, strict=True):
        for part in ([0], [1, 2], [3, 4]) if mask is None else [range(B)]:  # batches of unlike size
            one = WEIGHTS[weight] if WEIGHTS[weight] is None else WEIGHTS[weight][list(part)]
            predictions = logits[list(part)] if mask is None else logits
            metric.update_state(LABELS[list(part)], predictions, sample_weight=one)
        np.testing.assert_allclose(float(metric.result()), value, rtol=1e-6)
        metric.reset_state()
        assert float(metric.result()) == (metric.name == "perplexity")


def test_known_numbers():
    """Of two sequences one is right; of three tokens two. A token of weight 0 may be wrong."""
    labels, ids = np.array([[4, 3, 0], [2, 0, 0]]), np.array([[4, 1, 1], [2, 2, 2]])
    assert float(metrics.ExactMatch()(labels, ids)) == 0.5
    assert float(metrics.ExactMatch()(labels, ids, sample_weight=[[1, 0, 1], [1, 1, 1]])) == 1
    assert float(metrics.TokenAccuracy()(labels, ids)) == pytest.approx(2 / 3)
    np.testing.assert_allclose(
        float(metrics.Perplexity()(labels, np.zeros((2, 3, V)))), V, rtol=1e-6
    )
    probabilities = metrics.Perplexity(from_logits=False)
    np.testing.assert_allclose(
        float(probabilities(labels, np.full((2, 3, V), 1 / V))), V, rtol=1e-6
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_summed_in_float32(dtype):
    logits = keras.ops.cast(LOGITS, dtype)
    rounded = np.array(keras.ops.cast(logits, "float32"))
    for one, value in zip(METRICS, _references(LABELS, rounded), strict=True):
        metric = one(dtype=dtype)
        np.testing.assert_allclose(float(metric(LABELS, logits)), value, rtol=1e-6)
        assert {variable.dtype for variable in metric.variables} == {"float32"}


def test_long_sums_lose_nothing():
    """A hundred tokens are added to 2 ** 25, of which float32 alone would lose each."""
    metric, one, two = metrics.TokenAccuracy(), np.array([[1]]), np.array([[2]])
    metric.update_state(one, one, sample_weight=[2.0**25])
    for _ in range(100):
        metric.update_state(one, two)
    assert float(metric.sums[1]) + float(metric.lost[1]) == 2.0**25 + 100
    assert float(metric.sums[0]) == 2.0**25


@pytest.mark.thorough
def test_fit_masks_weighs_validates_and_saves(tmp_path):
    """The mask of an `Embedding` passes through an LSTM, under XLA and with unknown lengths."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input((None,), dtype="int32")
    outputs = keras.layers.Embedding(11, 4, mask_zero=True)(tokens)
    outputs = keras.layers.LSTM(4, return_sequences=True)(outputs)
    model = keras.Model(tokens, keras.layers.Dense(V)(outputs))
    model.compile(
        keras.optimizers.Adam(0.01),
        TokenCrossentropy(),
        metrics=[one() for one in METRICS],
        weighted_metrics=[one(name=f"weighted_{one().name}") for one in METRICS],
        jit_compile=True,
    )
    inputs = np.where(MASK, np.random.RandomState(2).randint(1, 11, (B, T)), 0)
    weight = WEIGHTS["batch"]
    data = (inputs, LABELS, weight)
    options = {"sample_weight": weight, "validation_data": data, "epochs": 2, "verbose": 0}
    log = model.fit(inputs, LABELS, **options).history
    assert log["perplexity"][1] < log["perplexity"][0]
    logits = np.array(model(inputs), "float64")
    expected = {}
    for prefix, one in (("", None), ("weighted_", weight)):
        values = _references(LABELS, logits, one, MASK)
        expected |= {f"{prefix}{m().name}": v for m, v in zip(METRICS, values, strict=True)}
    expected["loss"] = np.log(expected["weighted_perplexity"])
    for name, value in expected.items():
        np.testing.assert_allclose(log[f"val_{name}"][-1], value, rtol=1e-5, err_msg=name)

    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    values = loaded.evaluate(*data[:2], sample_weight=weight, verbose=0, return_dict=True)
    assert values == {name: pytest.approx(log[f"val_{name}"][-1], rel=1e-6) for name in values}
    assert values.keys() == expected.keys()


@pytest.mark.parametrize("metric", METRICS)
def test_configs_and_wrong_arguments(metric):
    config = metric(padding_id=-1, name="a", dtype="float64").get_config()
    assert config["padding_id"] == -1 and config["dtype"] == "float64"
    assert metric.from_config(config).get_config() == config
    with pytest.raises(ValueError, match=f"{metric.__name__} expects `padding_id` to be an int"):
        metric(padding_id=0.5)
    with pytest.raises(ValueError, match=f"{metric.__name__} expects `y_pred` of rank"):
        metric().update_state(LABELS, LOGITS[..., None])
    with pytest.raises(ValueError, match="the same size on axis 1"):
        metric().update_state(LABELS, LOGITS[:, 1:])


def test_an_unknown_id_is_never_right():
    labels = np.array([[1, V]])
    assert float(metrics.TokenAccuracy()(labels, np.eye(V)[[[1, 6]]])) == 0.5
    with pytest.raises(ValueError, match="Perplexity expects `y_true` between 0 and 6"):
        metrics.Perplexity()(labels, np.eye(V)[[[1, 6]]])
