import json
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from examples.commands.by_run import load_recipe
from examples.training.history import read_history

pytestmark = pytest.mark.thorough

TINY = "--units 13 --num-hops 2 --epochs 12 --linear-epochs 5 --batch-size 8 --seed 1".split()
PEOPLE, PLACES = ("Ann", "Bob", "Cy"), ("park", "hall", "shed", "pond")


def stories(count, seed):
    """Where somebody went last: stories of two to four sentences, two questions each."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        where, support = {}, {}
        for number in range(1, 1 + draw.randint(2, 4)):
            who, place = draw.choice(PEOPLE), draw.choice(PLACES)
            where[who], support[who] = place, number
            lines.append(f"{number} {who} went to the {place}.")
        for asked in range(2):
            who = draw.choice(sorted(where))
            line = f"{number + 1 + asked} Where is {who}?\t{where[who]}\t{support[who]}"
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def tasks(tmp_path_factory):
    """A folder of two tasks, alike, in the form of the bAbI tasks."""
    folder = tmp_path_factory.mktemp("tasks")
    for task in (1, 4):
        for part, count in (("train", 200), ("test", 20)):
            text = stories(count, f"{task} {part}")
            (folder / f"qa{task}_where_{part}.txt").write_text(text)
    return folder


@pytest.fixture(scope="session")
def stories_run(tmp_path_factory, tasks):
    """A memory network that has learned both tasks. Tests copy it to change it."""
    from command_line import answer

    directory = tmp_path_factory.mktemp("stories") / "run"
    status, out, err = answer(
        "train", "memory-network", "--stories", tasks, *TINY, "--run", directory
    )
    assert (status, err) == (0, ""), out
    assert "2 tasks; questions: training 720, validation 80" in out
    assert "best choice" in out
    return directory


def test_a_run_says_what_it_was_trained_on_and_went_through_its_linear_start(stories_run, tasks):
    settings = json.loads((stories_run / "run.json").read_text())
    assert settings["training"]["task"] == "joint"
    assert settings["training"]["stories"] == [str(tasks)]
    rows = read_history(stories_run / "history.csv")
    assert [row["val_choice"] > 2 for row in rows] == [True] * 5 + [False] * 7
    rates = [row["learning_rate"] for row in rows]
    assert rates == pytest.approx([0.005] * 5 + [0.01] * 7)
    recipe = load_recipe(stories_run)
    assert settings["vocabulary"] == recipe.vocabulary
    assert (recipe.max_words, recipe.max_memories) == (5, 50)
    assert not recipe.reader.is_linear()


def test_evaluate_measures_each_task_on_unseen_questions(command, stories_run, tmp_path):
    status, out, err = command("evaluate", stories_run, "--json", tmp_path / "numbers.json")
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["questions"] == 80
    assert set(numbers["tasks"]) == {"1", "4"}
    assert numbers["error"] == pytest.approx(sum(numbers["tasks"].values()) / 2)
    assert numbers["error"] < 25  # chance is 75
    assert "tasks 4" in out


def test_of_several_seeds_the_dev_error_chooses(command, stories_run, tasks, tmp_path):
    untrained = tmp_path / "untrained"
    options = [*TINY, "--task", 1, "--epochs", 1, "--no-linear-start", "--learning-rate", 1e-9]
    options += ["--no-xla", "--stories", tasks]
    assert command("train", "memory-network", *options, "--run", untrained)[0] == 0
    status, out, err = command(
        *("evaluate", untrained, "--others", stories_run, "--json", tmp_path / "numbers.json"),
        *("--stories", tasks / "qa1_where_test.txt"),
    )
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["run"] == str(stories_run)
    assert [one["run"] for one in numbers["runs"]] == [str(untrained), str(stories_run)]
    first, second = (one["validation_error"] for one in numbers["runs"])
    assert second < 25 < first
    assert f"best by validation error: {stories_run}" in out


def test_a_file_that_was_learned_from_is_no_test(command, stories_run, tasks, tmp_path):
    run = shutil.copytree(stories_run, tmp_path / "run")
    mine = str(tasks / "qa1_where_train.txt")
    settings = json.loads((run / "run.json").read_text())
    settings["training"]["stories"] = [mine]
    (run / "run.json").write_text(json.dumps(settings))
    status, _, err = command("evaluate", run)
    assert status == 1 and "has no test part" in err and mine in err
    assert command("evaluate", run, "--part", "validation")[0] == 0
    assert command("evaluate", run, "--stories", tasks / "qa1_where_test.txt")[0] == 0


def test_pictures_show_the_sentences_of_a_question(command, stories_run, tmp_path):
    status, out, err = command("plot", stories_run, "--output-dir", tmp_path, "--count", 3)
    assert (status, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"story_{number}.png" for number in (1, 2, 3)
    ]
    own = ["--sentences", "Ann went to the pond.", "--question", "Where is Ann?"]
    assert command("plot", stories_run, "--output-dir", tmp_path / "own", *own)[0] == 0
    status, _, err = command("plot", stories_run, "--output-dir", tmp_path, *own[:2])
    assert (status, "needs both --sentences and --question" in err) == (2, True)


def test_weights_of_the_linear_start_are_told_and_neither_drawn_nor_served(
    command, tasks, tmp_path
):
    run, text = tmp_path / "run", "are of the linear start, in which sentences have scores"
    options = [*TINY, "--epochs", 1, "--no-xla", "--stories", tasks, "--run", run]
    status, out, err = command("train", "memory-network", *options)
    assert (status, err) == (0, "")
    assert "may last for all of --epochs 1, as --linear-epochs is 5" in out
    assert out.count(text) == 1 and out.index("Done in") < out.index(text)
    status, out, err = command("evaluate", run)
    assert (status, err, text in out) == (0, "", True)
    status, _, err = command("export", run, tmp_path / "served")
    assert (status, text in err, err.count("\n")) == (1, True, 1)
    assert not (tmp_path / "served").exists()
    status, _, err = command("plot", run, "--output-dir", tmp_path / "plots")
    assert (status, text in err) == (1, True)
    assert command("train", "memory-network", "--run", run, "--resume", "--epochs", 6)[0] == 0
    status, out, err = command("evaluate", run)
    assert (status, err, text in out) == (0, "", False)


def test_what_is_not_read_is_told(command, stories_run, tmp_path):
    status, out, _ = command("evaluate", stories_run, "--json", tmp_path / "numbers.json")
    assert f"{stories_run}: 80 questions about 2" in out and "0.0 % of them too old" in out
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    cut = ("cut_stories", "cut_sentences", "cut_texts", "cut_words")
    assert [numbers[name] for name in cut] == [0, 0, 0, 0]
    long = tmp_path / "long.txt"
    lines = [f"{n} Ann went to the very park." for n in range(1, 54)]
    long.write_text("\n".join([*lines, "54 Where is Ann?\tpark\t53", ""]))
    status, out, err = command(
        *("evaluate", stories_run, "--stories", long, "--json", tmp_path / "numbers.json")
    )
    assert (status, err) == (0, "")
    told = "1 questions about 53 sentences, 5.7 % of them too old to be read, of 1 stories; of 303 "
    told += "words 16.5 % cut off, from 50 sentences and questions"
    assert f"{stories_run}: {told}" in out
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert [numbers[name] for name in cut] == [1, 3, 50, 50]
    line = ("plot", stories_run, "--output-dir", tmp_path / "drawn")
    status, out, _ = command(*line, "--stories", long)
    assert (status, out.splitlines()[0]) == (0, told)
    status, out, _ = command(*line, "--count", 1)
    assert (status, out) == (0, f"{tmp_path / 'drawn' / 'story_1.png'}\n")


def test_the_export_answers_as_the_model_does(command, stories_run, tmp_path):
    status, out, err = command("export", stories_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    recipe = load_recipe(stories_run)
    told = [
        ["Ann went to the pond.", "Bob went to the hall.", "Ann went to the shed."],
        ["Cy went to the park", "", ""],
    ]
    answers = served(
        story=tf.constant(told), question=tf.constant(["Where is Ann?", "where is cy"])
    )
    assert answers["answer"].numpy().tolist() == [b"shed", b"park"]
    assert [recipe.vocabulary[number] for number in answers["answer_id"]] == ["shed", "park"]
    assert answers["attention"].shape == (2, 2, 3)
    attention = answers["attention"].numpy()
    np.testing.assert_array_equal(attention[1, :, 1:], 0)  # there is one sentence
    assert attention[1, :, 0].max() > 0.9  # and one of the hops reads it, the other may read none
    assert attention.sum(axis=2).max() < 1 + 1e-5
    card = (tmp_path / "served" / "1" / "assets.extra" / "model_card.md").read_text()
    assert "the last 50 are read, and of each the first 5 words" in card
    assert "of which the first 5 words are read" in card
    probabilities = answers["probabilities"].numpy()
    np.testing.assert_allclose(answers["probability"], probabilities.max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_numbers_within_and_after_its_linear_start(
    command, stories_run, tmp_path
):
    settings = json.loads((stories_run / "run.json").read_text())
    half = tmp_path / "half"
    begin = ["--stories", *settings["training"]["stories"], *TINY, "--epochs", 3]
    assert command("train", "memory-network", "--run", half, *begin)[0] == 0
    for epochs in (7, 12):
        resumed = command("train", "memory-network", "--run", half, "--resume", "--epochs", epochs)
        assert resumed[0] == 0, resumed
    rows = [read_history(path / "history.csv") for path in (half, stories_run)]
    for one, other in zip(*rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ([], 2, "--stories STORIES is missing"),
        (["--stories", "{tasks}", "--task", "3"], 1, "found those of 1, 4"),
        (["--stories", "{tasks}", "--task", "one"], 2, "the number of a task, or joint"),
        (["--stories", "{tasks}/none"], 1, "No such file"),
        (["--stories", "{bad}"], 1, "bad.txt:2: expected the number 2"),
        (["--stories", "{short}"], 1, "expected at least ten stories"),
        (["--stories", "{tasks}", "--monitor", "error"], 2, "--no-linear-start"),
        (["--stories", "{tasks}", "--empty-memory-rate", "1"], 2, "from 0 to below 1"),
    ],
)
def test_wrong_options_and_files_are_told_in_a_line(
    command, tasks, tmp_path, options, status, told
):
    files = {"tasks": tasks, "bad": tmp_path / "bad.txt", "short": tmp_path / "short.txt"}
    files["bad"].write_text("1 Ann is out.\n3 Bob is out.\n")
    files["short"].write_text(stories(3, "short"))
    options = [option.format(**files) for option in options]
    found, _, err = command("train", "memory-network", "--run", tmp_path / "run", *options)
    assert (found, err.count("\n") == 1 or status == 2) == (status, True)
    assert told in err
    assert not (tmp_path / "run").exists()


def test_a_run_without_its_words_is_refused(command, stories_run, tmp_path):
    run = shutil.copytree(stories_run, tmp_path / "run")
    shutil.rmtree(run / "words.tokenizer")
    status, _, err = command("evaluate", run)
    assert status == 1
    assert "words.tokenizer" in err
