"""Classifiers of documents on the command line: train, resume, measure, draw, serve, refuse."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.commands.by_run import load_recipe
from examples.data.classification import Document
from examples.training.history import read_history

pytestmark = pytest.mark.thorough

TINY = (
    "--embedding-dim 5 --units 3 --attention-units 7 --no-xla --num-buckets 1 --batch-size 8"
    " --min-frequency 1 --dropout 0 --learning-rate 0.05"
).split()
WORDS = ("film", "plot", "cast", "scene", "it", "was", "the", "a")


def reviews(count):
    """Documents of up to three sentences, one word of each says what it is."""
    random = np.random.default_rng(1)
    for number in range(count):
        label, word = (("pos", "good"), ("neg", "bad"))[number % 2]
        sentences = [list(random.choice(WORDS, random.integers(1, 6))) for _ in range(3)]
        sentences[number % 3].append(word)
        texts = [" ".join(words) for words in sentences]
        yield {"id": f"d{number}", "fold": number // 2 % 5, "label": label, "sentences": texts}


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    path = tmp_path_factory.mktemp("reviews") / "reviews.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in reviews(80)))
    return path


@pytest.fixture(scope="module")
def han_run(tmp_path_factory, documents):
    """A run of six epochs on 48 documents. Tests copy it to change it."""
    from command_line import answer

    directory = tmp_path_factory.mktemp("han") / "run"
    data = ["--documents", documents, "--folds", "0-2", "--validation-folds", 3]
    limits = ["--max-words", 6, "--max-sentences", 3, "--epochs", 6]
    status, out, err = answer("train", "han", "--run", directory, *TINY, *data, *limits)
    assert (status, err) == (0, ""), out
    assert "0.0 % of them cut off" in out
    assert "best crossentropy" in out and "accuracy" in out
    return directory


def test_a_run_knows_its_classes_words_and_limits(han_run):
    recipe = load_recipe(han_run)
    assert recipe.classes == ["neg", "pos"]
    assert (recipe.max_sentences, recipe.max_words) == (3, 6)
    assert set(recipe.tokenizers["words"].vocabulary) == {*WORDS, "good", "bad"}
    rows = read_history(han_run / "history.csv")
    assert [row["steps"] for row in rows] == [6.0 * epoch for epoch in range(1, 7)]
    assert set(rows[0]) >= {"loss", "val_loss", "val_accuracy", "val_crossentropy"}
    assert rows[-1]["loss"] < rows[0]["loss"]
    model = keras.saving.load_model(han_run / "model.keras", compile=False)
    assert model.count_params() == recipe.model.count_params()


def test_evaluate_measures_by_fold_and_class_and_naive_bayes_beside(
    command, han_run, documents, tmp_path
):
    numbers_file = tmp_path / "numbers.json"
    line = ["evaluate", han_run, "--documents", documents, "--folds", "3,4", "--json", numbers_file]
    status, out, err = command(*line, "--naive-bayes-folds", "0-2")
    assert (status, err) == (0, "")
    numbers = json.loads(numbers_file.read_text())
    assert numbers["documents"] == 32
    assert numbers["naive_bayes"] == 100
    assert numbers["accuracy"] == pytest.approx(sum(numbers["by_fold"].values()) / 2)
    assert numbers["accuracy"] == pytest.approx(sum(numbers["by_class"].values()) / 2)
    assert "by fold" in out and "naive bayes" in out
    best = max(row["val_accuracy"] for row in read_history(han_run / "history.csv"))
    assert 100 * best >= numbers["by_fold"]["3"] > 60


def test_folds_that_were_learned_from_are_measured_only_where_they_are_named(
    command, han_run, documents, tmp_path
):
    link = tmp_path / "link.jsonl"
    link.symlink_to(documents)
    for path in (documents, link):
        status, _, err = command("evaluate", han_run, "--documents", path)
        assert (status, err.count("\n")) == (1, 1)
        assert "learned from fold 0, 1, 2 of this file" in err and "--folds" in err
    for folds, told in (("2-4", "learned from fold 2."), ("3,4", "")):
        line = ["evaluate", han_run, "--documents", documents, "--folds", folds]
        status, out, err = command(*line)
        assert (status, err) == (0, "")
        assert ("learned from" in out) == bool(told) and told in out
    copy = shutil.copy(documents, tmp_path / "copy.jsonl")  # another file, as far as one can see
    assert command("evaluate", han_run, "--documents", copy)[0] == 0
    run = shutil.copytree(han_run, tmp_path / "run")
    settings = json.loads((run / "run.json").read_text())
    settings["training"]["folds"] = None
    (run / "run.json").write_text(json.dumps(settings))
    status, _, err = command("evaluate", run, "--documents", documents)
    assert (status, "has learned from this file" in err) == (1, True)


def test_a_file_is_one_however_its_path_is_written(command, documents, tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to(documents)
    other = documents.parent / "." / ".." / documents.parent.name / documents.name
    for dev in (link, other):
        line = ["--documents", documents, "--validation-documents", dev, "--run", tmp_path / "run"]
        status, _, err = command("train", "han", *line)
        assert (status, "are one file" in err) == (2, True)


def test_a_batch_measures_as_documents_one_by_one(han_run):
    recipe = load_recipe(han_run)
    films = [
        Document("1", "pos", ("a good film", "it was")),
        Document("2", "neg", ("unseen words and more than there is room for", "bad", "the", "cut")),
    ]
    recipe.batch_size = 3
    together, _ = recipe.predict(films)
    readings = [recipe.read(film) for film in films]
    for row, reading in zip(together, readings, strict=True):
        np.testing.assert_allclose(reading.probabilities, row["probabilities"], atol=1e-6)
        assert reading.sentence_weights.sum() == pytest.approx(1, abs=1e-5)
        for words, weights in zip(reading.tokens, reading.word_weights, strict=True):
            assert len(words) == len(weights)
            assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert readings[1].tokens[0] == "unseen words and more than there".split()
    assert len(readings[1].tokens) == 3  # the fourth sentence is beyond the limit


def test_documents_and_texts_are_drawn(command, han_run, documents, tmp_path):
    line = ["plot", han_run, "--output-dir", tmp_path / "file", "--documents", documents]
    status, out, err = command(*line, "--folds", 4, "--count", 3)
    assert (status, err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "file").iterdir())
    assert names == sorted(f"document_{n}.{end}" for n in (1, 2, 3) for end in ("html", "png"))
    assert "labeled neg" in "".join(p.read_text() for p in (tmp_path / "file").glob("*.html"))
    line = ["plot", han_run, "--output-dir", tmp_path / "text", "a <b>good</b> film . it was bad"]
    status, out, err = command(*line)
    assert (status, err) == (0, "")
    page = (tmp_path / "text" / "document_1.html").read_text()
    assert "&lt;b&gt;good&lt;/b&gt;" in page and page.count("<p ") == 3
    for line in (["--documents", documents, "a text"], [], [" "]):
        assert command("plot", han_run, "--output-dir", tmp_path, *line)[0] == 2


def test_the_export_answers_texts_as_the_run_does(command, han_run, tmp_path):
    status, out, err = command("export", han_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    films = [("a good film", "it was the cast"), ("bad plot", ""), ("", "")]
    answers = {k: v.numpy() for k, v in served(sentences=tf.constant(films)).items()}
    assert set(answers) == {
        *("class", "class_id", "probabilities", "word_weights", "sentence_weights")
    }
    np.testing.assert_array_equal(answers["class_id"], answers["probabilities"].argmax(axis=1))
    names = [[b"neg", b"pos"][number] for number in answers["class_id"]]
    assert answers["class"].tolist() == names
    recipe = load_recipe(han_run)
    for row, film in enumerate(films[:2]):
        reading = recipe.read(Document("", "", tuple(text for text in film if text)))
        np.testing.assert_allclose(answers["probabilities"][row], reading.probabilities, atol=1e-6)
        count = len(reading.sentence_weights)
        np.testing.assert_allclose(
            answers["sentence_weights"][row, :count], reading.sentence_weights, atol=1e-6
        )
        for sentence, weights in enumerate(reading.word_weights):
            found = answers["word_weights"][row, sentence]
            np.testing.assert_allclose(found[: len(weights)], weights, atol=1e-6)
            assert not found[len(weights) :].any()
    assert not answers["sentence_weights"][2].any()  # a document of nothing
    card = (tmp_path / "served" / "1" / "assets.extra" / "model_card.md").read_text()
    assert "0 neg, 1 pos" in card
    assert "of which the first 3 are read" in card and "of which the first 6 are" in card
    assert command("export", han_run, tmp_path / "served", "--version", 1)[0] == 1


def test_the_export_reads_as_much_of_a_document_as_the_run(command, han_run, tmp_path):
    assert command("export", han_run, tmp_path / "served")[0] == 0
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    long = ("a good film it was the cast", "the plot", "it was good", "bad", "bad bad")
    answers = {k: v.numpy() for k, v in served(sentences=tf.constant([long])).items()}
    reading = load_recipe(han_run).read(Document("", "", long))
    assert len(reading.tokens) == 3 and len(reading.tokens[0]) == 6
    assert answers["sentence_weights"].shape == (1, 3) and answers["word_weights"].shape[2] == 6
    np.testing.assert_allclose(answers["probabilities"][0], reading.probabilities, atol=1e-6)
    np.testing.assert_allclose(answers["sentence_weights"][0], reading.sentence_weights, atol=1e-6)


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_numbers(command, han_run, documents, tmp_path):
    half = tmp_path / "half"
    data = ["--documents", documents, "--folds", "0-2", "--validation-folds", 3, "--max-words", 6]
    limits = ["--max-sentences", 3, "--epochs", 2]
    assert command("train", "han", "--run", half, *TINY, *data, *limits)[0] == 0
    status, out, err = command("train", "han", "--run", half, "--resume", "--epochs", 3)
    assert (status, err) == (0, ""), out
    whole = read_history(han_run / "history.csv")[:3]
    for one, other in zip(read_history(half / "history.csv"), whole, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        ("", 2, "--documents FILE is missing"),
        ("--documents {}", 2, "Name the validation documents"),
        ("--documents {} --folds 0-2 --validation-folds 2,3", 2, "Fold 2 is in both"),
        ("--documents {} --validation-folds 2", 2, "are one file"),
        ("--documents {0} --validation-documents {0}", 2, "are one file"),
        ("--documents {} --folds 3-1 --validation-folds 4", 2, "expected folds such as 7, 0-6"),
        ("--documents {} --folds 0-2 --validation-folds 9", 1, "no document of fold 9"),
        ("--documents {}.gone --folds 0 --validation-folds 1", 1, "does not exist"),
        ("--documents {} --folds 0 --validation-folds 1 --dropout 1", 2, "from 0 to below 1"),
        ("--documents {} --folds 0 --validation-folds 1 --min-frequency 999", 1, "min_frequency"),
    ],
)
def test_wrong_options_and_data_are_told_in_a_line(
    command, documents, tmp_path, line, status, told
):
    run = tmp_path / "run"
    found, _, err = command("train", "han", "--run", run, *line.format(documents).split())
    assert found == status
    assert told in err
    assert not run.exists()


def test_labels_that_do_not_fit_are_refused(command, han_run, tmp_path):
    other = tmp_path / "other.jsonl"
    lines = [{"label": label, "sentences": ["a"]} for label in ("neg", "pos", "meh")]
    other.write_text("\n".join(map(json.dumps, lines)))
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps(lines[0]))
    status, _, err = command("evaluate", han_run, "--documents", other)
    assert (status, f"{other}:3: no training document has the label 'meh'" in err) == (1, True)
    run = ["train", "han", "--run", tmp_path / "run"]
    status, _, err = command(*run, "--documents", one, "--validation-documents", other)
    assert (status, "at least two labels. Received: neg" in err) == (1, True)
    status, _, err = command(
        "evaluate", han_run, "--documents", other, "--folds", 1, "--naive-bayes-folds", "0-2"
    )
    assert (status, "must differ" in err) == (2, True)


def test_a_run_whose_parts_do_not_fit_is_refused(command, han_run, documents, tmp_path):
    run = shutil.copytree(han_run, tmp_path / "run")
    settings = json.loads((run / "run.json").read_text())
    for changed, told in (
        ({"classes": None}, "expected to name `classes`"),
        ({"classes": ["a", "b", "c"]}, "2 classes"),
    ):
        (run / "run.json").write_text(json.dumps({**settings, **changed}))
        status, _, err = command("evaluate", run, "--documents", documents)
        assert (status, told in err) == (1, True)
    shutil.rmtree(run / "words.tokenizer")
    (run / "run.json").write_text(json.dumps(settings))
    status, _, err = command("evaluate", run, "--documents", documents)
    assert (status, "no tokenizer file" in err) == (1, True)
