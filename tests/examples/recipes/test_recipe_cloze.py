import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.data.cloze import ClozeQuestion
from examples.data.cloze_encoding import (
    PointingTokenizer,
    encode_questions,
    load_words,
    shuffle_candidates,
)
from examples.recipes.cloze import AnswerCrossentropy, Cloze
from examples.training.fitting import evaluate


@pytest.fixture(scope="module")
def tokenizer():
    return PointingTokenizer(["XXXXX", "ran", ".", "Ann"], symbols=["XXXXX"])


def test_unknown_words_keep_an_identity_wherever_they_stand(tokenizer, tmp_path):
    questions = [
        ClozeQuestion(
            ("Ann ran .", "Ratty ran ."), "XXXXX ran .", ("Ann", "Ratty", "Mole"), "Ratty"
        ),
        ClozeQuestion(("Mole .",), "XXXXX", ("Mole", "Ann"), "Mole"),
    ]
    tokenizer.save(tmp_path / "words")
    for one in (tokenizer, load_words(tmp_path / "words")):
        ((inputs, labels, weights),), (places,) = encode_questions(
            questions, one, 5, 1, batch_size=2
        )
        assert places.tolist() == [0, 1]
        (first, second), ratty = inputs["document"].tolist(), inputs["candidates"][0, 1]
        assert first == [7, 5, 6, ratty, 5]  # five words are read
        mole = second[0]
        assert min(ratty, mole) >= one.vocabulary_size == 8
        assert ratty != mole
        assert inputs["candidates"].tolist() == [[7, ratty, mole], [mole, 7, 0]]
        assert inputs["query"].tolist() == [[4, 5, 6], [4, 0, 0]]
        assert labels["probabilities"].tolist() == [1, 0]
        assert weights.tolist() == [1.0, 1.0]


def test_shuffled_candidates_keep_their_answer_and_their_padding_behind():
    draw = np.random.default_rng(1)
    candidates = np.array([[11, 12, 13, 14, 15], [21, 22, 23, 0, 0], [0, 0, 0, 0, 0]], np.int32)
    inputs = {"candidates": candidates}
    labels = {"probabilities": np.array([3, 0, 0], np.int32)}
    seen = set()
    for _ in range(40):
        others, answers = shuffle_candidates(inputs, labels, draw)
        assert np.sort(others["candidates"][0]).tolist() == [11, 12, 13, 14, 15]
        assert others["candidates"][1, 3:].tolist() == [0, 0]
        first, second, _ = answers["probabilities"]
        assert others["candidates"][0, first] == 14
        assert others["candidates"][1, second] == 21
        seen.add(int(first))
    assert seen == {0, 1, 2, 3, 4}
    assert candidates[0].tolist() == [11, 12, 13, 14, 15]  # what was given is as it was


def test_an_answer_out_of_reach_has_no_gradient_and_an_empty_row_counts_for_nothing():
    probabilities = tf.constant([[0.2, 0.5, 0.1], [0.6, 0.0, 0.4], [0.9, 0.1, 0.0]])
    answers, weights = tf.constant([1, 1, 0]), tf.constant([1.0, 1.0, 0.0])
    with tf.GradientTape() as tape:
        tape.watch(probabilities)
        loss = AnswerCrossentropy()(answers, probabilities, sample_weight=weights)
    expected = (-np.log(0.5) - np.log(1e-12)) / 2
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    gradient = tf.convert_to_tensor(tape.gradient(loss, probabilities)).numpy()
    np.testing.assert_allclose(gradient, [[0, -1, 0], [0, 0, 0], [0, 0, 0]])
    inputs = {"probabilities": keras.Input([3], name="probabilities")}
    model = keras.Model(inputs, {**inputs, "weights": 2 * inputs["probabilities"]})
    batch = {"probabilities": probabilities}, {"probabilities": answers}, weights
    recipe = Cloze(questions=pathlib.Path("x"), validation_questions=pathlib.Path("x"))
    data = tf.data.Dataset.from_tensors(batch)
    numbers = evaluate(model, data, recipe.make_loss(), recipe.make_metrics())
    assert numbers["accuracy"] == 0.5
    np.testing.assert_allclose([numbers["loss"], numbers["crossentropy"]], expected, rtol=1e-5)


def test_further_questions_are_asked_in_training_alone(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text("1 Ann saw Bob .\n2 XXXXX and Bob ran .\tAnn\t\tAnn|Bob\n")
    files = {"questions": path, "validation_questions": path}
    counts = [
        [len(part) for part in Cloze(**files, every_candidate=every).read_data().values()]
        for every in (False, True)
    ]
    assert counts == [[1, 1], [2, 1]]
