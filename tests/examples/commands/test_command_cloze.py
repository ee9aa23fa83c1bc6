import json
import random

import numpy as np
import pytest
import tensorflow as tf

from examples.commands.by_run import load_recipe
from examples.training.history import read_history

pytestmark = pytest.mark.thorough

TINY = (
    "--units 12 --embedding-dim 12 --dropout 0 --no-xla --num-buckets 1 --min-frequency 1".split()
)
TRAINING = "--epochs 20 --batch-size 8 --learning-rate 0.02 --embedding-l2 0 --seed 1".split()
THINGS = ("ball", "book", "hat", "key")


def cloze(count, seed, names):
    """Who has what: three sentences, one of which is asked for."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        people, things = draw.sample(names, 3), draw.sample(THINGS, 3)
        told = list(zip(people, things, strict=True))
        lines += [f"{n} {who} has a {thing} ." for n, (who, thing) in enumerate(told, 1)]
        who, thing = draw.choice(told)
        candidates = "|".join(draw.sample([*people, draw.choice(("Eve", "Flo"))], 4))
        lines += [f"4 the {thing} is with XXXXX .\t{who}\t\t{candidates}", ""]
    return "\n".join(lines)


@pytest.fixture(scope="session")
def questions(tmp_path_factory):
    """Training questions about some people, validation questions about others."""
    folder = tmp_path_factory.mktemp("cloze")
    (folder / "train.txt").write_text(cloze(160, 1, ("Ann", "Bob", "Cy", "Dan")))
    (folder / "dev.txt").write_text(cloze(24, 2, ("Mole", "Ratty", "Toad", "Otter")))
    return folder


@pytest.fixture(scope="session")
def cloze_run(tmp_path_factory, questions):
    """A reader that has learned to find who has what. Tests copy it to change it."""
    from command_line import answer

    directory = tmp_path_factory.mktemp("reader") / "run"
    files = [
        "--questions",
        questions / "train.txt",
        "--validation-questions",
        questions / "dev.txt",
    ]
    status, out, err = answer(
        "train", "attention-over-attention", *files, *TINY, *TRAINING, "--run", directory
    )
    assert (status, err) == (0, ""), out
    assert "best accuracy" in out
    return directory


def test_people_it_never_met_are_found(command, cloze_run, questions, tmp_path):
    files = ["--questions", questions / "dev.txt", "--json", tmp_path / "numbers.json"]
    status, out, err = command("evaluate", cloze_run, *files)
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["questions"] == 24
    assert numbers["accuracy"] > 90  # chance is 33
    assert numbers["most_frequent"] < 60  # everyone is named once
    assert numbers["out_of_reach"] == 0
    assert "most frequent" in out
    best = max(row["val_accuracy"] for row in read_history(cloze_run / "history.csv"))
    assert numbers["accuracy"] == pytest.approx(100 * best)


def test_pictures_show_the_text_and_the_query(command, cloze_run, questions, tmp_path):
    files = ["--questions", questions / "dev.txt", "--output-dir", tmp_path, "--count", 2]
    status, _, err = command("plot", cloze_run, *files)
    assert (status, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}_{number}.{kind}"
        for name, kinds in (("query", ("png",)), ("question", ("html", "png")))
        for number, kind in ((n, k) for n in (1, 2) for k in kinds)
    ]
    page = (tmp_path / "question_1.html").read_text()
    assert "XXXXX" in page


def test_the_export_answers_as_the_model_does(command, cloze_run, tmp_path):
    status, _, err = command("export", cloze_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    answers = served(
        document=tf.constant(["Mole has a hat . Toad has a key .", "Ann has a hat ."]),
        query=tf.constant(["the key is with XXXXX .", "the hat is with XXXXX ."]),
        candidates=tf.constant([["Mole", "Ratty", "Toad"], ["Bob", "Ann", ""]]),
    )
    probabilities, attention = answers["probabilities"].numpy(), answers["attention"].numpy()
    assert answers["best"].numpy().tolist() == [2, 1]
    np.testing.assert_allclose(probabilities[0, [0, 2]], attention[0, [0, 5]], rtol=1e-5)
    assert probabilities[0, 1] == probabilities[1, 2] == 0.0
    np.testing.assert_allclose(attention.sum(axis=1), 1.0, rtol=1e-5)
    recipe = load_recipe(cloze_run)
    assert recipe.model.name == "attention_over_attention"
    assert (recipe.num_buckets, recipe.max_words) == (1, 1000)


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_numbers(command, cloze_run, questions, tmp_path):
    half = tmp_path / "half"
    files = [
        "--questions",
        questions / "train.txt",
        "--validation-questions",
        questions / "dev.txt",
    ]
    options = [*files, *TINY, *TRAINING, "--epochs", 3, "--run", half]
    assert command("train", "attention-over-attention", *options)[0] == 0
    options = ["--run", half, "--resume", "--epochs", 20]
    assert command("train", "attention-over-attention", *options)[0] == 0
    rows = [read_history(path / "history.csv") for path in (half, cloze_run)]
    for one, other in zip(*rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.slow
def test_the_attention_sum_reader_trains_and_has_no_weights_of_the_query(
    command, questions, tmp_path
):
    run = tmp_path / "run"
    files = [
        "--questions",
        questions / "train.txt",
        "--validation-questions",
        questions / "dev.txt",
    ]
    options = [*TINY, *TRAINING, "--names", "words", "--epochs", 1, "--run", run]
    assert command("train", "attention-sum", *files, *options)[0] == 0
    assert (
        command("plot", run, *files[:2], "--output-dir", tmp_path / "drawn", "--count", 1)[0] == 0
    )
    names = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert names == ["question_1.html", "question_1.png"]


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ([], 2, "--questions FILE is missing"),
        (["--questions", "{dev}"], 2, "--validation-questions FILE is missing"),
        (["--questions", "{dev}", "--validation-questions", "{dev}.none"], 1, "does not exist"),
        (["--questions", "{bad}", "--validation-questions", "{dev}"], 1, "bad.txt:2: expected"),
        (
            ["--questions", "{dev}", "--validation-questions", "{dev}", "--names", "all"],
            2,
            "invalid",
        ),
    ],
)
def test_wrong_options_and_files_are_told_in_a_line(
    command, questions, tmp_path, options, status, told
):
    files = {"dev": questions / "dev.txt", "bad": tmp_path / "bad.txt"}
    files["bad"].write_text("1 Ann ran .\n3 XXXXX .\tAnn\t\tAnn|Bob\n")
    options = [option.format(**files) for option in options]
    found, _, err = command("train", "attention-sum", "--run", tmp_path / "run", *options)
    assert found == status
    assert told in err
    assert not (tmp_path / "run").exists()
