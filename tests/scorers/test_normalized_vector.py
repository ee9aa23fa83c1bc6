"""The normalized scoring vector, that of TensorFlow Addons' `BahdanauAttention(normalize=True)`."""

import keras
import numpy as np
import pytest
from keras import ops
from tf_or_skip import tf

from keras_attention import AdditiveScorer, AttentionRNN, BahdanauAttention, BahdanauGRUCell


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def make_weights(layer):
    """Gives every weight of a layer drawn numbers and returns them by name."""
    drawn = {w.name: normal(seed, *w.shape) for seed, w in enumerate(layer.weights)}
    for weight in layer.weights:
        weight.assign(drawn[weight.name])
    return drawn


def test_scores_are_those_of_the_formula():
    scorer = AdditiveScorer(7, normalize_vector=True)
    query, key = normal(1, 2, 3, 5), normal(2, 2, 11, 4)
    scorer.build(query.shape, key.shape)
    w = make_weights(scorer)
    assert list(w) == ["query_kernel", "key_kernel", "vector", "bias", "gain"]
    hidden = np.tanh(
        (query @ w["query_kernel"])[:, :, None] + (key @ w["key_kernel"])[:, None] + w["bias"]
    )
    vector = w["vector"][:, 0]
    expected = hidden @ (w["gain"] * vector / np.sqrt(np.sum(vector**2)))
    np.testing.assert_allclose(scorer(query, key), expected, rtol=1e-5, atol=1e-6)
    blockwise = AdditiveScorer(7, normalize_vector=True, blockwise=True)
    blockwise.build(query.shape, key.shape)
    blockwise.set_weights(scorer.get_weights())
    np.testing.assert_allclose(blockwise(query, key), expected, rtol=1e-5, atol=1e-6)


def test_the_length_of_the_vector_is_the_gain_whatever_the_vector():
    scorer = AdditiveScorer(16, normalize_vector=True)
    scorer.build((2, 3, 5), (2, 7, 4))
    np.testing.assert_allclose(np.linalg.norm(scorer.scoring_vector()), 0.25, rtol=1e-6)
    scorer.vector.assign(100 * scorer.vector)
    np.testing.assert_allclose(np.linalg.norm(scorer.scoring_vector()), 0.25, rtol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_long_vector_does_not_overflow_in_half_precision(policy):
    scorer = AdditiveScorer(5, normalize_vector=True, dtype=policy)
    scorer.build((2, 3, 5), (2, 7, 4))
    scorer.vector.assign(np.full((5, 1), 1000.0))  # its square is beyond float16
    assert np.all(np.isfinite(ops.cast(scorer.scoring_vector(), "float32")))


def test_a_recurrence_with_its_own_gradient_equals_its_steps_and_trains_the_gain():
    layer = AttentionRNN(
        BahdanauGRUCell(6), BahdanauAttention(5, normalize_vector=True), order="bahdanau"
    )
    inputs, memory = normal(4, 2, 3, 4), normal(5, 2, 7, 5)
    layer.build(inputs.shape, memory.shape)
    make_weights(layer.attention.scorer)
    with tf.GradientTape() as tape:
        outputs = layer(inputs, memory)
        loss = tf.reduce_sum(outputs**2)
    gradient = tape.gradient(loss, layer.attention.scorer.gain)
    prepared = layer.prepare(ops.convert_to_tensor(memory))
    state, stepped = layer.start(prepared), []
    for time in range(3):
        output, _, _, state = layer.step(inputs[:, time], state, prepared)
        stepped.append(output)
    np.testing.assert_allclose(outputs, np.stack(stepped, axis=1), rtol=1e-5, atol=1e-6)

    def loss_at(gain):
        layer.attention.scorer.gain.assign(gain)
        return float(tf.reduce_sum(layer(inputs, memory) ** 2))

    gain = float(layer.attention.scorer.gain)
    difference = (loss_at(gain + 0.01) - loss_at(gain - 0.01)) / 0.02
    np.testing.assert_allclose(float(gradient), difference, rtol=2e-2)


def test_the_layer_survives_a_file(tmp_path):
    query, value = keras.Input((3, 5)), keras.Input((7, 4))
    model = keras.Model([query, value], BahdanauAttention(6, normalize_vector=True)(query, value))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    inputs = [normal(6, 2, 3, 5), normal(7, 2, 7, 4)]
    np.testing.assert_array_equal(model(inputs), again(inputs))
