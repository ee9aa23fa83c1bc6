"""Every layer made under `keras.RematScope`: the gradients are those of the layer without it."""

import keras
import numpy as np
import pytest
from backends import compile_call, gradients, tensorflow_only
from layer_rows import arrays
from layer_table import TABLE
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.kernels.matmul_precision import Dense

#: Rows that call a layer of Keras with keywords, which Keras' own layers cannot under
#: `RematScope` in a graph; `test_keras_refuses_its_own_layers` tells when this has changed.
KERAS_LAYERS = (
    "HierarchicalAttention",
    "AttentionRNN",
    "NTM-gru",
    "NTMCell",
    "SkipFirstUpdate",
    "ContextAddCell",
    "AttentionalVectorCell",
    "ContextInputCell",
    "LuongDecoder",
    "ScheduledSampling",
    "Seq2SeqDecoder",
    "ShowAttendTellDecoder",
    "ShowTellDecoder",
)
#: Compiling is dear. FAST run in `make test`, the others with a gradient of their own in
#: `make test-thorough`; the rest, whose recomputation is that of Keras, in `make test-slow`.
FAST = ("BahdanauAttention", "BahdanauGRU")
CUSTOM = (*FAST, "BahdanauDecoder", "EntmaxNormalizer", "LSTMN", "NTM", "ReverseTokens")


def _marks(row, xla):
    if str(row) not in CUSTOM:
        return [pytest.mark.slow] if xla else [tensorflow_only, pytest.mark.slow]
    if xla:
        return [pytest.mark.thorough]
    return [tensorflow_only, *([] if str(row) in FAST else [pytest.mark.thorough])]


ROWS = [row for row in TABLE if str(row) not in KERAS_LAYERS]
CASES = [
    pytest.param(row, xla, id=f"{row}-{'xla' if xla else 'graph'}", marks=_marks(row, xla))
    for row in ROWS
    for xla in (False, True)
]


@pytest.mark.thorough
@pytest.mark.parametrize(("row", "xla"), CASES)
def test_gradients_are_those_without_recomputation(row, xla):
    plain, data = row.built(), row.data(masks=True)
    with keras.RematScope(mode="full"):
        layer = row.build_new()
    layer.set_weights(plain.get_weights())
    results = []
    for one in (plain, layer):
        run = compile_call(row, one, lambda data, one=one: gradients(row, one, data), xla)
        results.append(arrays(run(data)))
    for one, other in zip(*results, strict=True):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


def _thorough(*values):
    return [pytest.param(value, marks=pytest.mark.thorough) for value in values]


def _draw(layer):
    """Returns the gradients of a call in training, and the states of the seeds after it."""
    queries = tf.constant(np.random.RandomState(1).randn(3, 5, 8), "float32")
    with tf.GradientTape() as tape:
        tape.watch(queries)
        inputs = [queries] * (1 if isinstance(layer, ka.CounterDropout) else 2)
        loss = tf.reduce_sum(layer(*inputs, training=True) ** 2)
    gradients = tape.gradient(loss, [queries, *(w.value for w in layer.trainable_weights)])
    return [*gradients, *(v.value for v in layer.variables if v.dtype == "int64")]


@tensorflow_only
@pytest.mark.parametrize("mode", ["eager", *_thorough("graph", "xla")])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ka.CounterDropout(0.5, seed=1),
        lambda: ka.HardAttention(7, seed=1),
        *_thorough(
            lambda: ka.MultiHeadAttention(2, 4, dropout=0.5, seed=1),
            lambda: ka.Attention("general", ka.GumbelSoftmaxNormalizer(seed=1)),
        ),
    ],
    ids=["dropout", "hard", "heads", "gumbel"],
)
def test_a_recomputation_draws_the_same_numbers(make, mode):
    plain = make()
    with keras.RematScope(mode="full"):
        layer = make()
    results = []
    for one in (plain, layer):
        one(*[np.ones((3, 5, 8))] * (1 if one.built else 2))
        one.set_weights(plain.get_weights())

        def draw(one=one):
            return _draw(one)

        draw = draw if mode == "eager" else tf.function(draw, jit_compile=mode == "xla")
        results.append([np.array(result) for _ in range(2) for result in draw()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


LOGITS, TARGETS = np.ones((2, 5, 3), "float32"), np.ones((2, 5), "int32")


@tensorflow_only
@pytest.mark.parametrize(
    ("make", "call"),
    [
        (ka.CoverageLoss, lambda layer, weights: layer(LOGITS, weights)),
        (ka.DoublyStochasticLoss, lambda layer, weights: layer(LOGITS, weights)),
        (
            ka.ReinforceLoss,
            lambda layer, weights: layer(
                LOGITS, TARGETS, weights[..., 0], weights[..., 1], training=True
            ),
        ),
        (
            lambda: ka.SoftAttention(3, doubly_stochastic=1.0),
            lambda layer, values: layer(LOGITS, values),
        ),
        (
            lambda: ka.TextGuidedAttention(3, entropy_bonus=1.0),
            lambda layer, values: layer(LOGITS, values, training=True),
        ),
    ],
    ids=["coverage", "doubly-stochastic", "reinforce", "soft", "text-guided"],
)
def test_a_loss_that_a_layer_adds_has_a_gradient(make, call):
    with keras.RematScope(mode="full"):
        layer = make()
    inputs = tf.constant(np.random.RandomState(1).rand(2, 5, 7), "float32")
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        call(layer, inputs)
        (loss,) = layer.losses
    assert np.any(tape.gradient(loss, inputs))


@tensorflow_only
def test_a_recomputation_counts_no_minibatch():
    with keras.RematScope(mode="full"):
        layer = ka.ScheduledSampling(ka.LuongDecoder(7, 2, 3), 0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.ones((1, 2)), np.ones((1, 3, 3)), training=True))
    tape.gradient(loss, layer.trainable_weights[0].value)
    assert int(layer.minibatches) == 1


@tensorflow_only
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_the_dense_layers_of_decoders_are_recomputed_in_training(policy):
    plain = Dense(3, "tanh", dtype=policy)
    with keras.RematScope(mode="full"):
        layer = Dense(3, "tanh", dtype=policy)
    inputs, results = tf.constant(np.random.RandomState(1).randn(2, 5), "float32"), []
    for one in (plain, layer):
        one.build(inputs.shape)
        one.set_weights(plain.get_weights())

        @tf.function
        def differentiate(one=one):
            with tf.GradientTape() as tape:
                outputs = one(inputs, training=True)
            return tape.gradient(outputs, [weight.value for weight in one.weights])

        results.append([np.array(gradient) for gradient in differentiate()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@tensorflow_only
def test_keras_refuses_its_own_layers():
    with keras.RematScope(mode="full"):
        layer = keras.layers.Dropout(0.5)
    layer(keras.ops.ones((2, 3)))
    with pytest.raises(ValueError, match="supports keywords arguments only when eager"):
        tf.function(layer)(keras.ops.ones((2, 3)), training=True)
