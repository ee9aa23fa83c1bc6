import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from command_line import answer, sentences

from examples.commands.by_run import load_recipe
from examples.training.history import read_history

pytestmark = pytest.mark.thorough

TINY = (
    "--units 12 --embedding-dim 8 --dropout 0 --no-xla --num-buckets 1 --learning-rate 0.03".split()
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A training text, and a validation text of sentences that stand in it."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [pair[1] for pair in sentences(32)]
    (folder / "train").write_text("\n".join(lines * 2), encoding="utf-8")
    (folder / "dev").write_text("\n".join(lines[::3]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def options(texts):
    return [
        "--text",
        texts / "train",
        "--validation-text",
        texts / "dev",
        "--batch-size",
        16,
        *TINY,
    ]


@pytest.fixture(scope="module")
def language_run(tmp_path_factory, options):
    """An LSTMN that has learned 32 sentences by heart, as far as they can be known."""
    directory = tmp_path_factory.mktemp("language") / "run"
    status, out, err = answer("train", "lstmn", *options, "--epochs", 10, "--run", directory)
    assert (status, err) == (0, ""), out
    assert "perplexity" in out
    return directory


def test_evaluate_measures_every_token_and_the_end(command, language_run, texts, tmp_path):
    path = tmp_path / "numbers.json"
    status, out, err = command("evaluate", language_run, "--text", texts / "dev", "--json", path)
    assert (status, err) == (0, "")
    numbers = json.loads(path.read_text())
    assert (numbers["lines"], numbers["tokens"], numbers["unknown"]) == (11, 11 * 5, 0)
    # "a|no  dog|man|bird|tree  sleeps|runs|sings|falls  .  </s>": 32 lines, 5 bits a line.
    assert 2.0 <= numbers["perplexity"] < 2.5
    assert numbers["loss"] == pytest.approx(np.log(numbers["perplexity"]))
    best = min(row["val_perplexity"] for row in read_history(language_run / "history.csv"))
    assert numbers["perplexity"] == pytest.approx(best, rel=1e-4)
    assert "perplexity" in out


def test_pictures_are_of_texts_or_of_a_file(command, language_run, texts, tmp_path):
    status, out, err = command("plot", language_run, "--output-dir", tmp_path, "a dog sleeps .")
    assert (status, err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["text_1.png"]
    tokens, weights = load_recipe(language_run).get_weights("a dog sleeps .")
    assert tokens == ["<s>", "a", "dog", "sleeps", "."]
    assert weights.shape == (1, 5, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)
    found, _, err = command("plot", language_run, "--output-dir", tmp_path)
    assert found == 2
    assert "Name the texts to draw" in err


def test_unknown_words_are_drawn_as_they_were_written(language_run):
    tokens, weights = load_recipe(language_run).get_weights("a  zebra sleeps in Übersee .")
    assert tokens == ["<s>", "a", "zebra", "sleeps", "in", "Übersee", "."]
    assert weights.shape == (1, 7, 7)


def test_the_export_tells_what_a_text_costs(command, language_run, tmp_path):
    status, _, err = command("export", language_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    texts = ["a dog sleeps .", "sleeps dog ."]
    answers = {name: value.numpy() for name, value in served(text=tf.constant(texts)).items()}
    recipe = load_recipe(language_run)
    for row, text in enumerate(texts):
        numbers = recipe.measure([text])
        cost = numbers["loss"] * numbers["tokens"]
        assert answers["log_probability"][row] == pytest.approx(-cost, rel=1e-4)
    assert answers["log_probability"][0] > answers["log_probability"][1]
    assert answers["tokens"][1, 3:].tolist() == [3, 0]
    assert answers["length"].tolist() == [5, 4]
    assert answers["log_probabilities"][1, 4] == 0
    assert answers["attention"].shape == (2, 1, 5, 6)


def test_a_text_that_is_cut_off_has_no_end_and_is_told(command, language_run, tmp_path):
    run = shutil.copytree(language_run, tmp_path / "run")
    settings = json.loads((run / "run.json").read_text())
    settings["training"]["max_tokens"] = 3
    (run / "run.json").write_text(json.dumps(settings))
    lines = tmp_path / "lines"
    lines.write_text("a dog sleeps .\na dog .\n")
    status, out, err = command("evaluate", run, "--text", lines, "--json", tmp_path / "numbers")
    assert (status, err) == (0, "")
    assert "text: 2 lines of 7 tokens, 14.3 % of them cut off, from 1 lines" in out
    numbers = json.loads((tmp_path / "numbers").read_text())
    kept = {name: numbers[name] for name in ("lines", "cut_lines", "cut_tokens", "tokens")}
    assert kept == {"lines": 2, "cut_lines": 1, "cut_tokens": 1, "tokens": 3 + 4}
    assert command("export", run, tmp_path / "served")[0] == 0
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    texts = ["a dog sleeps .", "a dog sleeps . . . .", "a dog sleeps", ""]
    answers = {name: value.numpy() for name, value in served(text=tf.constant(texts)).items()}
    assert answers["is_cut"].tolist() == [1, 1, 0, 0]
    ends = [np.flatnonzero(row == 3).tolist() for row in answers["tokens"]]
    assert ends == [[], [], [3], [0]]
    np.testing.assert_array_equal(answers["tokens"][0, :3], answers["tokens"][2, :3])
    np.testing.assert_allclose(
        answers["log_probability"][:2], answers["log_probabilities"][2, :3].sum(), rtol=1e-5
    )
    card = (tmp_path / "served" / "1" / "assets.extra" / "model_card.md").read_text()
    assert "of which the first 3 are read" in card and "more than 3 tokens" in card
    assert command("plot", run, "--output-dir", tmp_path / "drawn", "a dog sleeps .")[0] == 0


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_numbers(command, language_run, options, tmp_path):
    half = tmp_path / "half"
    assert command("train", "lstmn", *options, "--epochs", 4, "--run", half)[0] == 0
    assert command("train", "lstmn", "--run", half, "--resume", "--epochs", 10)[0] == 0
    rows = [read_history(path / "history.csv") for path in (half, language_run)]
    for one, other in zip(*rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.slow
def test_the_control_trains_and_has_nothing_to_draw(command, options, tmp_path):
    run = tmp_path / "run"
    status, _, err = command("train", "lstm-language-model", *options, "--epochs", 1, "--run", run)
    assert (status, err) == (0, "")
    status, _, err = command("plot", run, "--output-dir", tmp_path / "drawn", "a dog .")
    assert status == 1
    assert "has no attention" in err
    assert not (tmp_path / "drawn").exists()
    assert command("export", run, tmp_path / "served")[0] == 0


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ([], 2, "--text FILE"),
        (["--text", "{dev}"], 2, "--validation-text FILE"),
        (["--text", "{dev}", "--validation-text", "{dev}.none"], 1, "does not exist"),
        (["--text", "{bad}", "--validation-text", "{dev}"], 1, "bad:2: expected UTF-8"),
        (
            [
                "--text",
                "{dev}",
                "--validation-text",
                "{dev}",
                *"--tokenizer sentencepiece --min-frequency 2".split(),
            ],
            2,
            "--min-frequency is for",
        ),
    ],
)
def test_wrong_options_and_files_are_told_in_a_line(command, texts, tmp_path, given, status, told):
    (tmp_path / "bad").write_bytes(b"a dog\n\xff\n")
    files = {"dev": texts / "dev", "bad": tmp_path / "bad"}
    given = [option.format(**files) for option in given]
    found, _, err = command("train", "lstmn", "--run", tmp_path / "run", *given)
    assert found == status
    assert told in err
    assert not (tmp_path / "run").exists()
