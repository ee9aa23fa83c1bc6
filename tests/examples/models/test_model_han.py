"""The hierarchical attention network assembled: padding, dropout, files, and where it looks."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples.models import han
from examples.recipes.classification import Classification
from examples.training.fitting import evaluate, make_trainer

RECIPE = Classification(documents=pathlib.Path("x"))
SIZES = {"embedding_dim": 5, "units": 3, "attention_units": 7}
VOCABULARY, CLASSES = 23, 2


def documents(rows=2, sentences=5, words=7, seed=1):
    """Ids with padding words, and padding sentences at the end of every document but one."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, VOCABULARY, (rows, sentences, words)).astype("int32")
    lengths = random.integers(1, words + 1, (rows, sentences, 1))
    lengths[1:, sentences - 2 :] = 0
    return np.where(np.arange(words) < lengths, ids, 0)


@pytest.fixture(scope="module")
def model():
    set_seed(3)
    model = han.build(VOCABULARY, CLASSES, **SIZES, seed=1)
    model.get_layer("words").set_weights([5 * model.get_layer("words").get_weights()[0]])
    return model


def answers(model, ids, **options):
    return {name: np.array(value) for name, value in model({"sentences": ids}, **options).items()}


def test_weights_sum_to_one_over_what_is_there(model):
    ids = documents()
    found = answers(model, ids)
    assert found["logits"].shape == (2, CLASSES)
    there = (ids > 0).any(axis=2)
    np.testing.assert_allclose(found["word_weights"].sum(axis=2), there, atol=1e-6)
    np.testing.assert_allclose(found["sentence_weights"].sum(axis=1), 1, atol=1e-6)
    assert not found["word_weights"][ids == 0].any()
    assert not found["sentence_weights"][~there].any()


def test_padding_words_and_sentences_change_nothing(model):
    ids = documents()
    wide = np.pad(ids, ((0, 0), (0, 3), (0, 4)))
    before, after = answers(model, ids), answers(model, wide)
    np.testing.assert_allclose(after["logits"], before["logits"], atol=1e-6)
    np.testing.assert_allclose(after["word_weights"][:, :5, :7], before["word_weights"], atol=1e-6)


def test_dropout_drops_whole_words_in_training_only(model):
    ids = documents()
    np.testing.assert_array_equal(answers(model, ids)["logits"], answers(model, ids)["logits"])
    set_seed(3)
    bare = han.build(VOCABULARY, CLASSES, **SIZES, dropout=0.0, word_dropout=0.5, seed=1)
    vectors = keras.Model(bare.input, bare.get_layer("read_words").output)
    ids = np.full((2, 5, 7), 9, "int32")
    found = np.array(vectors({"sentences": ids}, training=True))
    word = np.array(bare.get_layer("words").embeddings)[9]
    dropped = (found == 0).all(axis=-1)
    assert 0 < dropped.mean() < 1
    np.testing.assert_allclose(found[~dropped], np.tile(2 * word, ((~dropped).sum(), 1)), rtol=1e-6)


def test_it_comes_back_from_a_file_without_the_examples(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    ids = documents(rows=3, sentences=2)
    np.testing.assert_allclose(
        answers(loaded, ids)["logits"], answers(model, ids)["logits"], atol=1e-6
    )


def test_mixed_precision_gives_finite_numbers():
    model = han.build(VOCABULARY, CLASSES, **SIZES, dtype="mixed_bfloat16")
    found = model({"sentences": documents()}, training=True)
    assert found["logits"].dtype == tf.bfloat16
    assert np.isfinite(np.array(tf.cast(found["logits"], tf.float32))).all()


def test_an_empty_row_counts_for_nothing():
    logits = tf.constant([[2.0, 0.0], [0.0, 5.0], [7.0, 7.0]])
    inputs = {"logits": keras.Input([2], name="logits")}
    model = keras.Model(inputs, {**inputs, "sentence_weights": 2 * inputs["logits"]})
    batch = {"logits": logits}, {"logits": tf.constant([0, 0, 0])}, tf.constant([1.0, 1.0, 0.0])
    data = tf.data.Dataset.from_tensors(batch)
    numbers = evaluate(model, data, RECIPE.make_loss(), RECIPE.make_metrics())
    assert numbers["accuracy"] == 0.5
    expected = (np.log1p(np.exp(-2.0)) + np.log1p(np.exp(5.0))) / 2
    np.testing.assert_allclose(numbers["loss"], expected, rtol=1e-6)
    np.testing.assert_allclose(numbers["crossentropy"], expected, rtol=1e-6)


@pytest.mark.slow
def test_it_finds_the_one_word_that_sets_the_label():
    # One of the ids 5 to 21 stands once in a document of other words and says its class. Of two
    # classes one would be told by nothing being found; of 17 that is one document in 17.
    random, classes, vocabulary = np.random.default_rng(1), 17, 37

    def draw(rows):
        ids = random.integers(5 + classes, vocabulary, (rows, 5, 7)).astype("int32")
        labels = random.integers(0, classes, rows).astype("int32")
        places = random.integers(0, 5, rows), random.integers(0, 7, rows)
        ids[np.arange(rows), *places] = 5 + labels
        return ids, labels, places

    set_seed(1)
    sizes = {"embedding_dim": 29, "units": 19, "attention_units": 13}
    model = han.build(vocabulary, classes, **sizes, dropout=0.0, word_dropout=0.0, seed=1)
    optimizer = keras.optimizers.Adam(0.005, global_clipnorm=1.0)
    trainer = make_trainer(model, RECIPE.make_loss(), None, optimizer)
    for _ in range(800):
        ids, labels, _ = draw(32)
        trainer.train_on_batch({"sentences": ids}, {"logits": labels})
    ids, labels, (sentence, word) = draw(500)
    found, rows = answers(model, ids), np.arange(len(ids))
    right = found["logits"].argmax(axis=1) == labels
    assert right.mean() >= 0.99
    assert found["sentence_weights"][rows, sentence].mean() > 0.9
    assert found["word_weights"][rows, sentence, word].mean() > 0.9
