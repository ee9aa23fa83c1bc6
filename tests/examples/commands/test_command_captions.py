import contextlib
import io
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from examples.commands import train_options
from examples.commands.by_run import load_recipe
from examples.recipes.captions import write
from examples.training.history import read_history
from keras_attention.export import validate_export

pytestmark = pytest.mark.thorough

TINY = (
    "--grid 2 --digits 1:2 --units 16 --embedding-dim 8 --annotation-dim 16 --batch-size 16 "
    "--epoch-size 320 --validation-size 64 --epochs 2 --learning-rate 0.01 --no-xla --seed 1"
).split()
MODELS = ("show-attend-tell", "text-guided")


def idx(array):
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture(scope="session")
def mnist(tmp_path_factory):
    """A folder like MNIST's: digit d is a frame with a bar in row d."""
    folder = tmp_path_factory.mktemp("mnist")
    pictures = np.zeros((10, 28, 28), np.uint8)
    for digit in range(10):
        pictures[digit, 5 + 2 * digit - digit // 2 : 8 + 2 * digit - digit // 2, 5:23] = 255
        pictures[digit, 5:23, 5 + digit] = 255
    for part, count in (("train", 5100), ("t10k", 100)):
        labels = np.arange(count) % 10
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(pictures[labels]))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


def train_run(tmp_path_factory, mnist, name, *options):
    from command_line import answer

    directory = tmp_path_factory.mktemp(name) / "run"
    status, out, err = answer("train", name, "--mnist", mnist, *TINY, *options, "--run", directory)
    assert (status, err) == (0, ""), out
    assert "looks at 6 x 6 locations" in out
    assert "best perplexity" in out
    return directory


@pytest.fixture(scope="session")
def captions_run(tmp_path_factory, mnist):
    """Show, Attend and Tell after 40 updates. Tests copy it to change it."""
    return train_run(tmp_path_factory, mnist, "show-attend-tell")


@pytest.fixture(scope="session")
def text_guided_run(tmp_path_factory, mnist):
    """Text-guided attention after 40 updates."""
    return train_run(tmp_path_factory, mnist, "text-guided")


def test_a_run_says_what_its_scenes_were_and_measures_where_it_looks(captions_run, mnist):
    settings = json.loads((captions_run / "run.json").read_text())
    assert settings["training"]["mnist"] == str(mnist)
    assert (settings["training"]["grid"], settings["training"]["digits"]) == (2, "1:2")
    rows = read_history(captions_run / "history.csv")
    assert [row["epoch"] for row in rows] == [1, 2]
    assert rows[1]["val_perplexity"] < rows[0]["val_perplexity"]
    assert 0 < rows[1]["val_pointing_accuracy"] <= 1


def test_evaluate_measures_written_captions_and_looks(command, captions_run, tmp_path):
    status, out, err = command(
        "evaluate",
        captions_run,
        "--scenes",
        50,
        "--beam-width",
        2,
        "--json",
        tmp_path / "numbers.json",
    )
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["scenes"] == 64  # two batches
    assert 64 * 2 <= numbers["words_and_ends"] <= 64 * 3
    for name in (
        "token_accuracy",
        "exact_match",
        "pointing_accuracy",
        "next_token_accuracy",
        "next_pointing_accuracy",
    ):
        assert 0 <= numbers[name] <= 1
    assert f"token accuracy       {numbers['token_accuracy']:.4f}" in out


def test_scenes_of_other_numbers_of_digits_are_measured_too(command, captions_run, tmp_path):
    arguments = ("evaluate", captions_run, "--scenes", 32, "--json", tmp_path / "numbers.json")
    assert command(*arguments, "--digits", 1)[0] == 0
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["words_and_ends"] == 2 * numbers["scenes"], "one word and the end"
    status, _, err = command(*arguments, "--digits", "1:3")
    assert (status, "has learned scenes of at most 2 digits" in err) == (2, True)


def test_the_export_writes_text_and_shows_its_looks(command, captions_run, tmp_path):
    status, _, err = command("export", captions_run, tmp_path / "served")
    assert (status, err) == (0, "")
    validate_export(tmp_path / "served" / "1")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    recipe = load_recipe(captions_run)
    inputs, _ = recipe.make_scenes("test", 5, batch_size=5).arrays(0, 0)
    expected = write(recipe.make_captioner(), inputs)
    answers = {k: v.numpy() for k, v in served(image=tf.constant(inputs["image"])).items()}
    assert sorted(answers) == ["attention", "caption", "length", "score", "words"]
    said = recipe.get_words(expected["ids"])
    assert [text.decode() for text in answers["caption"]] == [" ".join(words) for words in said]
    np.testing.assert_array_equal(answers["length"], [len(words) for words in said])
    assert answers["words"][0, len(said[0])].decode() in ("", "</s>")
    np.testing.assert_allclose(answers["score"], expected["score"], rtol=1e-4)
    assert answers["attention"].shape == (5, 3, 6, 6)
    np.testing.assert_allclose(
        answers["attention"].reshape(5, 3, 36), expected["weights"], atol=1e-5
    )


def test_a_guided_export_reads_the_sentence_as_text(command, text_guided_run, tmp_path):
    status, _, err = command("export", text_guided_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    recipe = load_recipe(text_guided_run)
    stream = recipe.make_scenes("test", 3, batch_size=3)
    inputs, _ = stream.arrays(0, 0)
    guides = [f"  {scene.guide.upper()}" for scene in stream.scenes(0, 0)]
    answers = served(image=tf.constant(inputs["image"]), guide=tf.constant(guides))
    expected = write(recipe.make_captioner(), inputs)
    assert answers["attention"].shape == (3, 1, 6, 6)
    np.testing.assert_allclose(
        answers["attention"].numpy().reshape(3, 1, 36), expected["weights"], atol=1e-5
    )
    said = [" ".join(words) for words in recipe.get_words(expected["ids"])]
    assert [text.decode() for text in answers["caption"].numpy()] == said


def test_evaluate_and_plot_know_a_guided_run(command, text_guided_run, tmp_path):
    status, out, _ = command("evaluate", text_guided_run, "--scenes", 32, "--part", "validation")
    assert status == 0 and "next pointing accuracy" in out
    plots = tmp_path / "plots"
    status, _, err = command("plot", text_guided_run, "--output-dir", plots, "--count", 2)
    assert (status, err) == (0, "")
    assert sorted(path.name for path in plots.iterdir()) == ["scene_1.png", "scene_2.png"]


def test_pictures_show_each_word(command, captions_run, tmp_path):
    assert command("plot", captions_run, "--output-dir", tmp_path, "--count", 3)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"scene_{number}.png" for number in (1, 2, 3)
    ]


def test_a_caption_without_a_word_shows_the_look_at_its_end(captions_run):
    recipe = load_recipe(captions_run)
    (scene, *_) = recipe.make_scenes("test", 1, batch_size=1).scenes(0, 0)
    figure = recipe.draw(scene, [], np.full((3, 36), 1 / 36))
    texts = [axes.get_title() for axes in figure.axes]
    assert any("</s>" in text for text in texts), texts


@pytest.mark.slow
def test_a_hard_run_goes_on_to_the_same_numbers(command, mnist, tmp_path):
    options = ["--mnist", mnist, *TINY, "--attention", "hard", "--dropout", 0.1]
    rows = []
    for name, parts in (("whole", (2,)), ("parts", (1, 2))):
        run = tmp_path / name
        first = [*options, "--epochs", parts[0]]
        assert command("train", "show-attend-tell", "--run", run, *first)[0] == 0
        for epochs in parts[1:]:
            more = ["--resume", "--epochs", epochs]
            assert command("train", "show-attend-tell", "--run", run, *more)[0] == 0
        rows.append(read_history(run / "history.csv"))
    for one, other in zip(*rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ([], 2, "--mnist DIR is missing"),
        (["--mnist", "{mnist}/none"], 1, "expected train-images-idx3-ubyte.gz there"),
        (["--mnist", "{mnist}", "--digits", "4:2"], 2, "a range such as 2:4"),
        (["--mnist", "{mnist}", "--grid", "1"], 2, "holds at most 1 digits"),
        (["--mnist", "{mnist}", "--batch-size", "2000"], 2, "hold at least one batch"),
        (["--mnist", "{mnist}", "--backbone", "VGG"], 2, "one of .*VGG16"),
        (["--mnist", "{mnist}", "--backbone-weights", "w.h5"], 2, "Name it"),
        (["--mnist", "{mnist}", "--train-backbone"], 2, "Name it"),
        (["--mnist", "{mnist}", "--backbone-size", "32"], 2, "Name it"),
        (["--mnist", "{mnist}", "--backbone", "VGG16", "--convolutions", "6"], 2, "Leave one"),
        (["--mnist", "{mnist}", "--encoder-from", "{mnist}"], 1, "run.json"),
        (["--mnist", "{mnist}", "--expected-rate", "2"], 2, "from 0 to below 1"),
    ],
)
def test_wrong_options_and_files_are_told_in_a_line(
    command, mnist, tmp_path, options, status, told
):
    options = [option.format(mnist=mnist) for option in options]
    found, _, err = command("train", "show-attend-tell", "--run", tmp_path / "run", *options)
    assert (found, err.count("\n") == 1 or status == 2) == (status, True)
    assert all(part in err for part in told.split(".*"))
    assert not (tmp_path / "run").exists()


def test_a_guided_run_has_scenes_of_a_single_digit_unless_told_otherwise(command, mnist, tmp_path):
    # Where all scenes have several it learns to look anywhere but at the digit that is named.
    assert train_options.parse("text-guided", ["--run", "r"]).digits == "1:4"
    assert train_options.parse("show-attend-tell", ["--run", "r"]).digits == "2:4"
    with contextlib.redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit):
        train_options.parse("text-guided", ["--help"])
    first, second = (shown.getvalue().index(f"train {name} --mn") for name in MODELS)
    assert first < second
    assert "(default: 1:4)" in shown.getvalue()
    options = [*TINY, "--epochs", 1, "--epoch-size", 16, "--validation-size", 16, "--mnist", mnist]
    for digits, warned in (("2:2", True), ("1:2", False)):
        more = ["--digits", digits, "--run", tmp_path / digits]
        status, out, err = command("train", "text-guided", *options, *more)
        assert (status, err) == (0, "")
        assert ("No scene holds a single digit (--digits 2:2)" in out) == warned


def test_a_run_without_its_words_or_scenes_is_refused(command, captions_run, tmp_path):
    run = shutil.copytree(captions_run, tmp_path / "run")
    settings = json.loads((run / "run.json").read_text())
    damaged = {**settings, "training": {**settings["training"], "digits": 3}}
    (run / "run.json").write_text(json.dumps(damaged))
    status, _, err = command("evaluate", run)
    assert (status, "expected to hold digits" in err) == (1, True)
    (run / "run.json").write_text(json.dumps(settings))
    shutil.rmtree(run / "words.tokenizer")
    status, _, err = command("plot", run, "--output-dir", tmp_path / "plots")
    assert (status, "words.tokenizer" in err) == (1, True)
