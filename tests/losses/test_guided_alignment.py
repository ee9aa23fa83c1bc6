"""The loss of alignments: formulas in float64, gradients, masks, weights, half precision, `fit`."""

import functools

import keras
import numpy as np
import pytest

from keras_attention import BahdanauDecoder, GuidedAlignmentLoss, TokenCrossentropy

B, T, S = 3, 5, 7
DRAW = np.random.RandomState(1)
SCORES = 2 * DRAW.randn(B, T, S)
LINKS = (DRAW.rand(B, T, S) < 0.3).astype("float32")
LINKS[0, 1] = LINKS[2, 3:] = 0  # without a link
LINKS[1, 2] *= 0.25  # soft
MASK = np.arange(T) < [[3], [4], [5]]
WEIGHTS = {"none": None, "batch": DRAW.rand(B) + 0.5, "targets": DRAW.rand(B, T)}
COSTS = pytest.mark.parametrize("cost", ["ce", "mse"])


def _softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _reference(links, attention, cost, weight=None, mask=None):
    """Returns the loss and its gradient, loops and all, in float64."""
    attention, gradient = attention.astype("float64"), np.zeros(attention.shape)
    total = count = 0.0
    for b, t in np.ndindex(*links.shape[:2]):
        if not links[b, t].any() or (mask is not None and not mask[b, t]):
            continue
        w = 1.0 if weight is None else weight[b] if weight.ndim == 1 else weight[b, t]
        count += w
        for s in range(links.shape[2]):
            a, alpha = links[b, t, s] / links[b, t].sum(), attention[b, t, s]
            if cost == "mse":
                total += w * (a - alpha) ** 2
                gradient[b, t, s] = -2 * w * (a - alpha)
            elif a:
                total -= w * a * np.log(alpha)
                gradient[b, t, s] = -w * a / alpha
    return total / count, gradient / count


class _Attention(keras.layers.Layer):
    """Returns its weight, so that a step of gradient descent shows the gradient of the weights."""

    def build(self, shape):
        self.attention = self.add_weight((B, T, S), "zeros")

    def call(self, inputs):
        return keras.ops.cast(self.attention, self.compute_dtype) + 0 * inputs


class _Attach(keras.layers.Layer):
    """Returns its input with a mask attached."""

    def call(self, inputs):
        return inputs * 1

    def compute_mask(self, inputs, previous_mask=None):
        return keras.ops.convert_to_tensor(MASK)


@functools.cache
def _compile(cost, dtype):
    model = keras.Sequential([keras.Input((1, 1), batch_size=B), _Attention(dtype=dtype)])
    model.compile(keras.optimizers.SGD(1.0), GuidedAlignmentLoss(cost), jit_compile=True)
    return model


def _descend(cost, attention, links=LINKS, weight=None, dtype=None):
    """Returns the loss of a compiled training step, and the gradient."""
    model = _compile(cost, dtype)
    model.reset_metrics()
    model.set_weights([attention])
    weight = np.ones((B, T)) if weight is None else weight
    value = model.train_on_batch(np.zeros((B, 1, 1)), links, sample_weight=weight)
    return float(value), attention.astype("float32") - model.get_weights()[0]


@COSTS
@pytest.mark.parametrize("weight", WEIGHTS)
def test_loss_and_gradient_equal_the_formula(cost, weight):
    attention, weight = _softmax(SCORES), WEIGHTS[weight]
    expected, gradient = _reference(LINKS, attention, cost, weight)
    value = GuidedAlignmentLoss(cost)(LINKS, attention, sample_weight=weight)
    np.testing.assert_allclose(float(value), expected, rtol=1e-6)
    if weight is None or weight.ndim == 2:
        value, computed = _descend(cost, attention, weight=weight)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        np.testing.assert_allclose(computed, gradient, rtol=1e-5, atol=1e-6)


@COSTS
def test_a_case_worked_by_hand(cost):
    links = np.array([[[2, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, -3], [0, 1, 0, 0]]])
    attention = np.array([[[0.5, 0.25, 0.25, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0.5, 0.5, 0]]])
    by_hand = {"ce": (1.5 + 1) * np.log(2) / 2, "mse": (0.125 + 0.5) / 2}
    value = GuidedAlignmentLoss(cost)(links, attention)
    np.testing.assert_allclose(float(value), by_hand[cost], rtol=1e-6)


@COSTS
@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_implicit_mask_counts_once(cost, weight):
    attention = _softmax(SCORES).astype("float32")
    value = GuidedAlignmentLoss(cost)(LINKS, _Attach()(attention), sample_weight=WEIGHTS[weight])
    expected, _ = _reference(LINKS, attention, cost, WEIGHTS[weight], MASK)
    np.testing.assert_allclose(float(value), expected, rtol=1e-5)


@COSTS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(cost, dtype):
    attention = keras.ops.cast(_softmax(SCORES), dtype)
    value = GuidedAlignmentLoss(cost, dtype=dtype)(LINKS, attention)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    rounded = np.array(keras.ops.cast(attention, "float32"))
    np.testing.assert_allclose(float(value), _reference(LINKS, rounded, cost)[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_weight_of_0_has_a_finite_loss_and_gradient(dtype):
    attention = np.where(LINKS > 0, 0, 1).astype("float32")
    value, gradient = _descend("ce", attention, dtype=dtype)
    np.testing.assert_allclose(value, -np.log(2.0**-14 if dtype == "float16" else 1e-30), rtol=1e-5)
    assert np.all(np.isfinite(gradient))
    attention[LINKS > 0] = 2.0**-13
    _, gradient = _descend("ce", attention, dtype=dtype)
    expected = _reference(LINKS, attention, "ce")[1]
    np.testing.assert_allclose(gradient, expected, rtol=2e-2)


@COSTS
def test_what_does_not_count_may_be_any_number(cost):
    attention, weight = _softmax(SCORES), np.ones((B, T))
    weight[1, 2] = 0
    expected, gradient = _reference(LINKS, attention, cost, weight)
    junk = attention.copy()
    junk[(weight == 0) | ~LINKS.any(-1)] = np.nan
    value, computed = _descend(cost, junk, weight=weight)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    is_real = ~np.isnan(junk)
    np.testing.assert_allclose(computed[is_real], gradient[is_real], rtol=1e-5, atol=1e-6)


@COSTS
@pytest.mark.parametrize("links", [0 * LINKS, LINKS[:0], LINKS[:, :0]], ids=lambda x: str(x.shape))
def test_without_a_link_the_loss_is_0(cost, links):
    assert float(GuidedAlignmentLoss(cost)(links, np.ones(links.shape))) == 0


@COSTS
def test_without_a_link_the_gradient_is_0(cost):
    value, gradient = _descend(cost, _softmax(SCORES), links=0 * LINKS)
    assert value == 0 and np.all(gradient == 0)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_fit_trains_logits_and_weights_of_a_decoder(policy):
    """Target word t is to attend to source word S - 1 - t, which the tokens do not need."""
    keras.utils.set_random_seed(1)
    source, target = keras.Input([S], dtype="int32"), keras.Input([T], dtype="int32")
    memory = keras.layers.Embedding(11, 8, dtype=policy)(source)
    memory = keras.layers.GRU(16, return_sequences=True, dtype=policy)(memory)
    decoder = BahdanauDecoder(11, 8, 16, dtype=policy)
    logits, weights = decoder(target, memory, return_attention_scores=True)
    model = keras.Model([source, target], {"logits": logits, "alignment": weights})
    model.compile(
        keras.optimizers.Adam(0.02),
        {"logits": TokenCrossentropy(), "alignment": GuidedAlignmentLoss()},
        loss_weights={"logits": 1.0, "alignment": 0.5},
        jit_compile=False,
    )
    x = [DRAW.randint(1, 11, (64, S)), DRAW.randint(1, 11, (64, T))]
    links = np.tile(np.eye(S)[::-1][:T], (64, 1, 1))
    y = {"logits": x[1], "alignment": links}
    losses = model.fit(x, y, batch_size=32, epochs=30, verbose=0).history
    total = np.array(losses["logits_loss"]) + 0.5 * np.array(losses["alignment_loss"])
    np.testing.assert_allclose(losses["loss"], total, rtol=1e-3)
    assert losses["alignment_loss"][-1] < 0.5 * losses["alignment_loss"][0]


def test_config_and_wrong_arguments():
    config = {"cost": "mse", "name": "alignment", "dtype": "float64"}
    assert GuidedAlignmentLoss.from_config(config).get_config() == config
    with pytest.raises(ValueError, match="expects `cost` to be one of 'ce', 'mse'"):
        GuidedAlignmentLoss("crossentropy")
    loss = GuidedAlignmentLoss()
    for arguments, message in [
        ((LINKS[0], SCORES), r"`y_true` of rank 3, \(batch, target, source\)"),
        ((LINKS, SCORES[0]), r"`y_pred` of rank 3, \(batch, target, source\)"),
        ((LINKS[:, 1:], SCORES), r"the same size on axis 1.*\(3, 4, 7\)"),
        ((LINKS[..., 1:], SCORES), r"the same size on axis 2.*\(3, 5, 6\)"),
        ((LINKS, SCORES, SCORES), r"`sample_weight` of rank 1 or 2, \(batch,\) or"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(*arguments)
