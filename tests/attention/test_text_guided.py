"""Text-guided attention: the paper's scores by hand, the offset, the entropy bonus."""

import keras
import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import AttentionRNN, Normalizer, TextGuidedAttention

B, L, G, D, UNITS = 3, 7, 5, 2, 11
RANDOM = np.random.RandomState(1)
GUIDANCE, IMAGE = RANDOM.randn(B, G), RANDOM.randn(B, L, D)
MASK = np.arange(L) < np.array([[7], [3], [0]])


def _attention(**options):
    set_seed(1)
    attention = TextGuidedAttention(UNITS, dtype="float64", **options)
    attention.build(GUIDANCE.shape, IMAGE.shape)
    random = np.random.RandomState(2)
    attention.set_weights([np.asarray(random.randn(*w.shape)) for w in attention.weights])
    return attention


class Raw(Normalizer):
    """Leaves scores as they are, to look at them."""

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return scores


def test_scores_are_the_papers_with_their_offset():
    attention = _attention(normalizer=Raw(dtype="float64"))
    _, scores = attention(GUIDANCE, IMAGE, return_attention_scores=True)
    weights = {w.name: np.array(w) for w in attention.weights}
    for row in range(B):
        for i in range(L):
            hidden = weights["key_kernel"].T @ IMAGE[row, i] + weights["bias"]
            hidden = np.tanh(hidden + weights["query_kernel"].T @ GUIDANCE[row])
            expected = weights["vector"][:, 0] @ hidden + weights["offset"]
            np.testing.assert_allclose(float(scores[row, i]), expected, atol=1e-12)


def test_the_context_is_the_weighted_sum_of_locations_and_the_offset_cancels():
    attention = _attention()
    context, weights = attention(GUIDANCE, IMAGE, value_mask=MASK, return_attention_scores=True)
    expected = np.einsum("bl,bld->bd", np.array(weights), IMAGE)
    np.testing.assert_allclose(np.array(context), expected, atol=1e-12)
    np.testing.assert_allclose(np.array(weights).sum(-1), [1, 1, 0], atol=1e-12)
    attention.scorer.offset.assign(9.0)
    moved = attention(GUIDANCE, IMAGE, value_mask=MASK)
    np.testing.assert_allclose(np.array(moved), np.array(context), atol=1e-12)


def test_the_bonus_is_the_mean_entropy_while_training():
    attention = _attention(entropy_bonus=0.002)
    _, weights = attention(
        GUIDANCE, IMAGE, value_mask=MASK, training=True, return_attention_scores=True
    )
    weights = np.array(weights)
    entropies = [-sum(a * np.log(a) for a in row if a > 0) for row in weights]
    (loss,) = attention.losses
    np.testing.assert_allclose(float(loss), -0.002 * np.mean(entropies), rtol=1e-10)
    attention(GUIDANCE, IMAGE, training=False)
    assert attention.losses == []


def test_masked_queries_do_not_thin_the_bonus():
    attention = _attention(entropy_bonus=1.0)
    queries, kept = np.stack([GUIDANCE] * 3, axis=1), np.zeros((len(GUIDANCE), 3), "bool")
    kept[:, 1] = True
    attention(queries, IMAGE, value_mask=MASK, query_mask=kept, training=True)
    (loss,) = attention.losses
    attention(GUIDANCE, IMAGE, value_mask=MASK, training=True)
    np.testing.assert_allclose(float(loss), float(attention.losses[-1]), rtol=1e-10)


def test_a_loop_trains_and_adds_no_bonus():
    cell, guided = keras.layers.GRUCell(3), TextGuidedAttention(UNITS, entropy_bonus=0.1)
    steps, memory = keras.Input((None, 2)), keras.Input((None, 5))
    model = keras.Model(
        [steps, memory], AttentionRNN(cell, guided, order="bahdanau")(steps, memory)
    )
    model.compile("sgd", "mse")
    inputs = [np.ones((2, 4, 2), "float32"), np.ones((2, 3, 5), "float32")]
    assert np.isfinite(model.fit(inputs, np.ones((2, 4, 3)), verbose=0).history["loss"][0])
    assert guided.losses == []


def test_gradients_of_context_and_bonus_agree_with_differences():
    attention, image = _attention(entropy_bonus=0.5), tf.Variable(IMAGE)

    def call():
        context = attention(GUIDANCE, tf.convert_to_tensor(image), value_mask=MASK, training=True)
        return context + attention.losses[0]

    kernels = [attention.scorer.query_kernel, attention.scorer.key_kernel]
    assert_gradients_are_right(call, [*kernels, image])


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_the_bonus_of_weights_that_are_exactly_one_has_a_finite_gradient(dtype):
    attention = TextGuidedAttention(UNITS, entropy_bonus=1.0, dtype=dtype)
    attention.build(GUIDANCE.shape, IMAGE.shape)
    attention.scorer.vector.assign(np.full((UNITS, 1), 1e3))
    image = tf.constant(1e3 * IMAGE, "float32")
    with tf.GradientTape() as tape:
        _, weights = attention(GUIDANCE, image, training=True, return_attention_scores=True)
        loss = attention.losses[0]
    assert np.any(np.array(weights) == 0)
    assert np.isfinite(float(loss))
    for gradient in tape.gradient(loss, attention.trainable_variables):
        assert np.all(np.isfinite(np.array(tf.convert_to_tensor(gradient))))


@pytest.mark.thorough
def test_the_bonus_reaches_the_loss_of_fit():
    guidance, image = keras.Input((G,)), keras.Input((None, D))
    bonuses = []
    for bonus in (0.0, 10.0):
        set_seed(1)
        context = TextGuidedAttention(UNITS, entropy_bonus=bonus)(guidance, image)
        model = keras.Model([guidance, image], context)
        model.compile("sgd", "mse", jit_compile=True)
        data = [GUIDANCE.astype("float32"), IMAGE.astype("float32")]
        bonuses.append(model.fit(data, np.zeros((B, D)), verbose=0).history["loss"][0])
    entropy = (bonuses[0] - bonuses[1]) / 10
    assert 0.1 < entropy <= np.log(L) + 1e-6


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: TextGuidedAttention(0), "TextGuidedAttention.*`units`.*units=0"),
        (lambda: TextGuidedAttention(3, -1.0), "`entropy_bonus`.*entropy_bonus=-1.0"),
        (lambda: TextGuidedAttention(3)(GUIDANCE, IMAGE[:, None]), "`value` of shape"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
