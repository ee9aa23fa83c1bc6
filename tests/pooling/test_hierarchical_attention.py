"""Hierarchical attention: two levels by hand, padding of words and sentences, bad input."""

import keras
import numpy as np
import pytest
from keras import layers
from seeds import set_seed

from keras_attention import (
    AttentionPooling,
    GumbelSoftmaxNormalizer,
    HierarchicalAttention,
    Normalizer,
)

B, L, T, D = 2, 5, 7, 3
WORDS = np.random.RandomState(1).randn(B, L, T, D)
LENGTHS = np.array([[7, 3, 0, 2, 1], [4, 0, 0, 0, 0]])
MASK = np.arange(T) < LENGTHS[:, :, None]


def _bidirectional(units):
    cell = layers.GRUCell(units, dtype="float64")
    return layers.Bidirectional(layers.RNN(cell, return_sequences=True, dtype="float64"))


def _pool(pooling, rows):
    """Equations 5 to 7 for the rows that are there; zeros if there are none."""
    kernel, bias, vector = (np.array(w) for w in pooling.weights)
    scores = np.tanh(rows @ kernel + bias) @ vector[:, 0]
    weights = np.exp(scores) / np.exp(scores).sum()
    return weights @ rows, weights


def test_two_levels_of_pooling_by_hand():
    attention = HierarchicalAttention(11, dtype="float64")
    vector, word_weights, sentence_weights = map(
        np.array, attention(WORDS, mask=MASK, return_attention_scores=True)
    )
    assert [tuple(w.shape) for w in attention.weights] == [(D, 11), (11,), (11, 1)] * 2
    for row in range(B):
        sentences, there = [], [i for i in range(L) if LENGTHS[row, i]]
        for i in there:
            length = LENGTHS[row, i]
            summed, weights = _pool(attention.word_pooling, WORDS[row, i, :length])
            np.testing.assert_allclose(word_weights[row, i, :length], weights, atol=1e-12)
            sentences.append(summed)
        expected, weights = _pool(attention.sentence_pooling, np.array(sentences))
        np.testing.assert_allclose(vector[row], expected, atol=1e-12)
        np.testing.assert_allclose(sentence_weights[row, there], weights, atol=1e-12)
        padding = LENGTHS[row] == 0
        assert np.all(sentence_weights[row, padding] == 0)
        assert np.all(word_weights[row, padding] == 0)


def test_encoders_and_poolings_in_a_row_are_the_layer():
    set_seed(1)
    encoders = _bidirectional(2), _bidirectional(4)
    attention = HierarchicalAttention(11, *encoders, dtype="float64")
    vector = np.array(attention(WORDS[:1, :2]))
    sentences = [attention.word_pooling(encoders[0](WORDS[:1, i])) for i in range(2)]
    states = encoders[1](keras.ops.stack(sentences, axis=1))
    np.testing.assert_allclose(vector, np.array(attention.sentence_pooling(states)), atol=1e-12)


@pytest.mark.parametrize("make", [lambda: None, lambda: _bidirectional(2)], ids=["none", "gru"])
def test_appended_padding_changes_nothing(make):
    set_seed(1)
    attention = HierarchicalAttention(11, make(), make(), dtype="float64")
    expected = np.array(attention(WORDS, mask=MASK))
    padding = ((0, 0), (0, 2), (0, 4))
    longer = np.pad(WORDS, (*padding, (0, 0)), constant_values=np.nan)
    results = np.array(attention(longer, mask=np.pad(MASK, padding)))
    np.testing.assert_allclose(results, expected, atol=1e-12)


def test_an_encoder_without_a_mask_sees_padding_as_zeros():
    attention = HierarchicalAttention(11, layers.Conv1D(4, 3, padding="same"))
    junk = np.where(MASK[..., None], WORDS, 1e4)
    np.testing.assert_array_equal(
        np.array(attention(junk, mask=MASK)), np.array(attention(WORDS, mask=MASK))
    )


def test_the_mask_of_an_embedding_reaches_both_levels():
    ids = np.where(MASK, 1 + np.arange(B * L * T).reshape(B, L, T) % 9, 0)
    embedded = layers.Embedding(10, D, mask_zero=True)(ids)
    attention = HierarchicalAttention(11)
    _, word_weights, sentence_weights = attention(embedded, return_attention_scores=True)
    assert np.array_equal(np.array(word_weights) > 0, ids > 0)
    assert np.array_equal(np.array(sentence_weights) > 0, (ids > 0).any(-1))


# Keras says this of every model, and then passes the mask on to the model's layers.
@pytest.mark.filterwarnings("ignore:Layer 'sequential' .* does not support masking:UserWarning")
def test_a_model_may_be_an_encoder_and_is_found_in_a_file(tmp_path):
    """Sequential models take a mask too; the file brings the encoders back."""
    encoder = keras.Sequential(
        [layers.Dense(4), layers.RNN(layers.GRUCell(2), return_sequences=True)]
    )
    inputs, mask = keras.Input((None, None, D)), keras.Input((None, None), dtype="bool")
    model = keras.Model([inputs, mask], HierarchicalAttention(11, encoder)(inputs, mask=mask))
    expected = np.array(model([WORDS, MASK]))
    junk = np.where(MASK[..., None], WORDS, np.nan)
    np.testing.assert_array_equal(np.array(model([junk, MASK])), expected)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.array(again([WORDS, MASK])), expected)


def test_a_normalizer_need_not_be_registered():
    class Uniform(Normalizer):
        def normalize(self, scores, *args, **kwargs):
            return keras.ops.ones_like(scores) / scores.shape[-1]

    vector = HierarchicalAttention(11, normalizer=Uniform(), dtype="float64")(WORDS)
    np.testing.assert_allclose(vector, WORDS.mean(axis=(1, 2)), atol=1e-12)


def test_the_levels_draw_from_seeds_of_their_own():
    layer = HierarchicalAttention(11, normalizer=GumbelSoftmaxNormalizer(seed=1))
    assert layer.word_pooling.normalizer.seed != layer.sentence_pooling.normalizer.seed


def test_one_sentence_is_attention_pooling():
    attention, pooling = HierarchicalAttention(11), AttentionPooling(11)
    pooling.build((B, T, D))
    words = WORDS[:, :1].astype("float32")
    vector = attention(words)
    pooling.set_weights(attention.word_pooling.get_weights())
    np.testing.assert_allclose(np.array(vector), np.array(pooling(words[:, 0])), atol=1e-6)


@pytest.mark.thorough
def test_a_keyword_in_one_sentence_is_found():
    """The label is the sign of the one keyword; weight must gather on it at both levels."""
    keras.utils.set_random_seed(3)
    random = np.random.RandomState(3)
    ids, labels = random.randint(3, 30, size=(512, 4, 6)), random.randint(0, 2, size=512)
    where = np.arange(512), random.randint(0, 4, size=512), random.randint(0, 6, size=512)
    ids[where] = 1 + labels
    inputs = keras.Input((None, None), dtype="int32")
    embedded = layers.Embedding(30, 8)(inputs)
    attention = HierarchicalAttention(8)
    vector = attention(embedded)
    model = keras.Model(inputs, layers.Dense(2, activation="softmax")(vector))
    model.compile(
        keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    model.fit(ids[:384], labels[:384], batch_size=32, epochs=12, verbose=0)
    assert model.evaluate(ids[384:], labels[384:], verbose=0)[1] >= 0.99
    _, word_weights, sentence_weights = attention(
        model.layers[1](ids[384:]), return_attention_scores=True
    )
    rows = np.arange(128), where[1][384:], where[2][384:]
    assert np.array(sentence_weights)[rows[:2]].mean() > 0.9
    assert np.array(word_weights)[rows].mean() > 0.9


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: HierarchicalAttention(0), "HierarchicalAttention.*`units`.*units=0"),
        (lambda: HierarchicalAttention(3, "gru"), "`word_encoder` to be a layer.*'gru'"),
        (lambda: HierarchicalAttention(3, None, 5), "`sentence_encoder` to be a layer"),
        (lambda: HierarchicalAttention(3)(WORDS[0]), r"Embed the words first.*\(5, 7, 3\)"),
        (
            lambda: HierarchicalAttention(3, layers.RNN(layers.GRUCell(2)))(WORDS),
            "`return_sequences=True`",
        ),
        (
            lambda: HierarchicalAttention(3)(WORDS, mask=MASK.any(-1)),
            r"`mask` of shape \(batch, sentences, words\)",
        ),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
