"""The encoder layer: the paper's equations, masks, windows, gradients, bad input."""

import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf
from transformer_reference import encoder_layer

from keras_attention import RelativePositionEmbedding, RotaryEmbedding, TransformerEncoderLayer

B, T, D, H, F = 3, 7, 10, 5, 11
MASK = np.arange(T) < np.array([[7], [3], [0]])
KINDS = pytest.mark.parametrize("normalization", ["post", "pre"])


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


INPUTS = _random(B, T, D)


def _make_layer(*arguments, seed=1, dtype="float64", **options):
    set_seed(seed)
    layer = TransformerEncoderLayer(H, F, *arguments, dtype=dtype, **options)
    layer.build((None, None, D))
    for weight in layer.weights:  # gammas of one and betas of zero would hide mistakes
        weight.assign(weight + 0.3 * np.random.randn(*weight.shape))
    return layer


@KINDS
@pytest.mark.parametrize("window", [None, 3])
def test_it_is_the_layer_of_the_paper(normalization, window):
    layer = _make_layer(0.0, normalization, window=window)
    outputs = layer(INPUTS, mask=MASK)
    expected = [encoder_layer(layer, *row) for row in zip(INPUTS, MASK, strict=True)]
    np.testing.assert_allclose(outputs, expected, atol=1e-10)


@KINDS
def test_a_wide_window_reads_all_and_a_narrow_one_its_neighborhood(normalization):
    whole = np.array(_make_layer(0.0, normalization)(INPUTS, mask=MASK))
    wide = _make_layer(0.0, normalization, window=2 * T - 1)
    np.testing.assert_array_equal(wide(INPUTS, mask=MASK), whole)
    radius = 2
    narrow = _make_layer(0.0, normalization, window=2 * radius + 1)
    before = np.array(narrow(INPUTS))
    changed = INPUTS.copy()
    changed[:, 5] += 1.0
    moved = np.any(np.array(narrow(changed)) != before, axis=-1)
    assert np.array_equal(moved[0], np.abs(np.arange(T) - 5) <= radius)


@pytest.mark.thorough
@KINDS
@pytest.mark.parametrize("options", [{}, {"use_bias": True, "window": 3}])
def test_gradients_equal_finite_differences(normalization, options):
    layer = _make_layer(0.0, normalization, "gelu", **options)
    inputs = tf.Variable(INPUTS)
    call = lambda: layer(inputs, mask=tf.constant(MASK))  # noqa: E731
    assert_gradients_are_right(call, [inputs, *layer.trainable_weights], samples=3)


@KINDS
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "bfloat16"])
def test_a_constant_vector_and_a_row_of_padding_have_finite_gradients(normalization, policy):
    # The variance of a constant vector is 0, and so is that of padding.
    layer = TransformerEncoderLayer(H, F, 0.0, normalization, dtype=policy)
    inputs = tf.Variable(np.ones((B, T, D)) * 3, dtype="float32")
    with tf.GradientTape() as tape:
        outputs = layer(inputs, mask=MASK)
        loss = tf.reduce_sum(tf.cast(outputs, "float32") ** 2)
    gradients = tape.gradient(loss, [inputs, *(w.value for w in layer.trainable_weights)])
    for gradient in gradients:
        assert np.isfinite(np.array(tf.cast(gradient, "float32"))).all()
    assert np.all(np.array(tf.cast(outputs, "float32"))[~MASK] == 0)


def test_parameters_are_those_of_the_paper():
    # 4 d^2 of attention, 2 d d_ff + d_ff + d of the net, two normalizations of 2 d.
    layer = TransformerEncoderLayer(H, F)
    layer.build((None, None, D))
    assert layer.count_params() == 4 * D * D + 2 * D * F + F + D + 2 * 2 * D


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("rotary", RotaryEmbedding),
        ("relative_keys", RelativePositionEmbedding),
        ("relative_values", RelativePositionEmbedding),
    ],
)
def test_positions_distinguish_a_sequence_from_its_reverse(name, piece):
    plain, positioned = _make_layer(0.0), _make_layer(0.0, **{name: piece(dtype="float64")})
    backwards = INPUTS[:, ::-1]
    np.testing.assert_allclose(plain(backwards), plain(INPUTS)[:, ::-1], atol=1e-10)
    difference = np.array(positioned(backwards)) - np.array(positioned(INPUTS))[:, ::-1]
    assert np.abs(difference).max() > 1e-3


def test_dropout_acts_on_what_each_sublayer_adds_in_training_only():
    layer = _make_layer(0.5, seed=3)
    np.testing.assert_array_equal(layer(INPUTS), layer(INPUTS, training=False))
    assert np.abs(np.array(layer(INPUTS, training=True)) - np.array(layer(INPUTS))).max() > 1e-3


def test_the_weights_are_those_of_the_attention():
    layer = _make_layer(0.0)
    outputs, weights = layer(INPUTS, mask=MASK, return_attention_scores=True)
    np.testing.assert_array_equal(outputs, layer(INPUTS, mask=MASK))
    sums = np.sum(weights, axis=-1)
    np.testing.assert_allclose(sums, np.broadcast_to(MASK[:, None], sums.shape), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 0}, "positive int. Received: num_heads=0"),
        ({"num_heads": 3}, "`num_heads` to divide the width of `inputs`. Received: num_heads=3"),
        ({"dropout": 1.0}, "Received: dropout=1.0"),
        ({"normalization": "middle"}, "one of 'post', 'pre'. Received: normalization='middle'"),
        ({"window": 4}, "`window` to be odd"),
        ({"relative_keys": 16}, "`relative_keys` to be a `RelativePositionEmbedding` object"),
        ({"rotary": "yes"}, "`rotary` to be a `RotaryEmbedding` object or None"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    arguments = {"num_heads": 2, "feed_forward_dim": 3, **options}
    with pytest.raises(ValueError, match=message):
        TransformerEncoderLayer(**arguments)(INPUTS)
