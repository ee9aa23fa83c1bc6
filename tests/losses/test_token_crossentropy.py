"""The loss of tokens: formulas in float64, Keras' own loss, padding, weights, unknown ids.

`tests/metrics/test_token_metrics.py` trains with it by `fit` and loads the model.
"""

import functools

import keras
import numpy as np
import pytest

from keras_attention import TokenCrossentropy

B, T, V = 3, 5, 7
DRAW = np.random.RandomState(1)
LOGITS = 3 * DRAW.randn(B, T, V)
LABELS = np.where(np.arange(T) < [[5], [2], [3]], DRAW.randint(1, V, (B, T)), 0)
MASK = np.arange(T) < [[3], [4], [5]]
WEIGHTS = {"none": None, "batch": DRAW.rand(B) + 0.5, "tokens": DRAW.rand(B, T)}


def _softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _reference(labels, logits, smoothing=0.0, weight=None, mask=None, padding_id=0):
    """Returns the loss and its gradient, loops and all, in float64."""
    probabilities, total, gradient = _softmax(logits.astype("float64")), 0.0, np.zeros(logits.shape)
    weights = np.zeros(labels.shape)
    for b, t in np.ndindex(*labels.shape):
        if labels[b, t] == padding_id or (mask is not None and not mask[b, t]):
            continue
        weights[b, t] = 1.0 if weight is None else weight[b] if weight.ndim == 1 else weight[b, t]
        target = np.full(logits.shape[-1], smoothing / logits.shape[-1])
        target[labels[b, t]] += 1 - smoothing
        total -= weights[b, t] * (target * np.log(probabilities[b, t])).sum()
        gradient[b, t] = weights[b, t] * (probabilities[b, t] - target)
    return total / weights.sum(), gradient / weights.sum()


class _Attach(keras.layers.Layer):
    """Returns its input with a mask attached."""

    def call(self, inputs, mask_to_attach):
        return inputs * 1

    def compute_mask(self, inputs, previous_mask):
        return keras.ops.convert_to_tensor(MASK)


class _Logits(keras.layers.Layer):
    """Returns its weight, so that a step of gradient descent shows the gradient of the logits."""

    def build(self, shape):
        self.logits = self.add_weight(LOGITS.shape, "zeros")

    def call(self, inputs):
        return self.logits + 0 * inputs


@functools.cache
def _compile(smoothing, jit_compile):
    model = keras.Sequential([keras.Input((1, 1), batch_size=B), _Logits()])
    loss = TokenCrossentropy(label_smoothing=smoothing)
    model.compile(keras.optimizers.SGD(1.0), loss, jit_compile=jit_compile)
    return model


def _descend(smoothing, logits=LOGITS, labels=LABELS, weight=None, jit_compile=True):
    """Returns the loss of a compiled training step, and the gradient."""
    model = _compile(smoothing, jit_compile)
    model.reset_metrics()
    model.set_weights([logits])
    weight = np.ones(labels.shape) if weight is None else weight
    value = model.train_on_batch(np.zeros((B, 1, 1)), labels, sample_weight=weight)
    return float(value), logits.astype("float32") - model.get_weights()[0]


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradient_equal_the_formula(smoothing, weight):
    loss = TokenCrossentropy(label_smoothing=smoothing)
    expected, gradient = _reference(LABELS, LOGITS, smoothing, WEIGHTS[weight])
    value = loss(LABELS, LOGITS, sample_weight=WEIGHTS[weight])
    np.testing.assert_allclose(float(value), expected, rtol=1e-6)
    if weight != "batch":  # a compiled step takes weights of one rank
        value, computed = _descend(smoothing, weight=WEIGHTS[weight])
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        np.testing.assert_allclose(computed, gradient, atol=1e-6)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_implicit_mask_counts_once(weight):
    logits = _Attach()(LOGITS, LOGITS)
    value = TokenCrossentropy()(LABELS, logits, sample_weight=WEIGHTS[weight])
    expected, _ = _reference(LABELS, LOGITS, 0.0, WEIGHTS[weight], MASK)
    np.testing.assert_allclose(float(value), expected, rtol=1e-6)
    if weight == "none":
        of_keras = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
        np.testing.assert_allclose(float(value), float(of_keras(LABELS, logits)), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype):
    logits = keras.ops.cast(LOGITS, dtype)
    value = TokenCrossentropy(label_smoothing=0.1, dtype=dtype)(LABELS, logits)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    rounded = np.array(keras.ops.cast(logits, "float32"))
    np.testing.assert_allclose(float(value), _reference(LABELS, rounded, 0.1)[0], rtol=1e-6)


def test_probabilities_and_another_padding_id():
    labels = np.where(LABELS == 0, -1, LABELS - 1)
    loss = TokenCrossentropy(padding_id=-1, label_smoothing=0.1, from_logits=False)
    expected = _reference(labels, LOGITS, 0.1, padding_id=-1)[0]
    np.testing.assert_allclose(float(loss(labels, _softmax(LOGITS))), expected, rtol=1e-5)
    assert np.isfinite(float(loss(labels, np.eye(V)[np.zeros((B, T), int)]))), "log 0"


@pytest.mark.parametrize("labels", [0 * LABELS, LABELS[:0], LABELS[:, :0]], ids=str)
def test_without_a_real_token_the_loss_is_0(labels):
    assert float(TokenCrossentropy(label_smoothing=0.1)(labels, np.zeros((*labels.shape, V)))) == 0


def test_without_a_real_token_the_gradient_is_0():
    value, gradient = _descend(0.1, labels=0 * LABELS)
    assert value == 0 and np.all(gradient == 0)


@pytest.mark.parametrize("junk", [np.nan, 1e30])
def test_predictions_at_padding_do_not_matter(junk):
    logits = np.where(LABELS[..., None] == 0, junk, LOGITS)
    value, _ = _descend(0.0, logits)
    np.testing.assert_allclose(value, _reference(LABELS, LOGITS)[0], rtol=1e-6)


@pytest.mark.parametrize("wrong", [V, -1])
def test_an_id_outside_the_vocabulary_raises_eagerly_and_compiled_is_nan(wrong):
    labels = LABELS.copy()
    labels[1, 1] = wrong
    loss = TokenCrossentropy(label_smoothing=0.1)
    with pytest.raises(
        ValueError, match=rf"`y_true` between 0 and 6.*Received: y_true with {wrong}"
    ):
        loss(labels, LOGITS)
    # Without `jit_compile`, JAX trains eagerly.
    for jit_compile in (True, False) if keras.backend.backend() == "tensorflow" else (True,):
        value, gradient = _descend(0.1, labels=labels, jit_compile=jit_compile)
        assert np.isnan(value)
        assert np.all(gradient[1, 1] == 0) and np.all(np.isfinite(gradient))
    weight = np.ones((B, T))
    weight[1, 1] = 0
    value, _ = _descend(0.1, labels=labels, weight=weight)
    np.testing.assert_allclose(value, _reference(LABELS, LOGITS, 0.1, weight)[0], rtol=1e-6)


def test_config_and_wrong_arguments():
    config = {"padding_id": 3, "label_smoothing": 0.2, "from_logits": False}
    config |= {"name": "loss", "dtype": "float64"}
    assert TokenCrossentropy.from_config(config).get_config() == config
    with pytest.raises(ValueError, match=r"`label_smoothing` to be a number in \[0, 1\)"):
        TokenCrossentropy(label_smoothing=1)
    with pytest.raises(ValueError, match="`padding_id` to be an int"):
        TokenCrossentropy(padding_id=None)
    loss = TokenCrossentropy()
    for arguments, message in [
        ((LABELS[..., None], LOGITS), r"`y_true` of rank 2, \(batch, time\)"),
        ((LABELS, LABELS), r"`y_pred` of rank 3, \(batch, time, vocabulary\)"),
        ((LABELS[:, 1:], LOGITS), r"the same size on axis 1.*\(3, 4\)"),
        ((LABELS, LOGITS, LOGITS), r"`sample_weight` of rank 1 or 2, \(batch,\) or"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(*arguments)
