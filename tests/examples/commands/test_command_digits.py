import json
import struct

import numpy as np
import pytest
import tensorflow as tf
from command_line import answer

from examples.commands.by_run import load_recipe
from examples.training.history import read_history

pytestmark = pytest.mark.thorough

SMALL = "--no-xla --max-examples 240 --batch-size 16 --seed 1".split()
LOOKING = "--glimpses 2 --units 24 --glimpse-units 12 --learning-rate 0.01 --epochs 8".split()
DRAWING = "--steps 2 --units 12 --latent-dim 3 --learning-rate 0.02 --epochs 3".split()


def write_idx(path, array):
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + shape + array.tobytes())


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    """Pictures of four "digits": which quarter is black."""
    folder = tmp_path_factory.mktemp("mnist")
    for name, count in (("train", 5240), ("t10k", 40)):
        digits = (np.arange(count) % 4).astype("uint8")
        images = np.zeros((count, 28, 28), "uint8")
        for row in range(2):
            for column in range(2):
                quarter = images[:, 14 * row : 14 + 14 * row, 14 * column : 14 + 14 * column]
                quarter[digits == 2 * row + column] = 255
        write_idx(folder / f"{name}-images-idx3-ubyte", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte", digits)
    return folder


def train_run(folder, name, mnist, options):
    status, out, err = answer("train", name, "--mnist", mnist, *SMALL, *options, "--run", folder)
    assert (status, err) == (0, ""), out
    return out


@pytest.fixture(scope="module")
def ram_run(tmp_path_factory, mnist):
    """A model that has learned to tell the quarters."""
    directory = tmp_path_factory.mktemp("looking") / "run"
    assert "best accuracy " in train_run(directory, "ram", mnist, LOOKING)
    return directory


@pytest.fixture(scope="module")
def draw_run(tmp_path_factory, mnist):
    """A model that has begun to draw."""
    directory = tmp_path_factory.mktemp("drawing") / "run"
    train_run(directory, "draw", mnist, DRAWING)
    return directory


def test_unseen_digits_are_recognized(command, ram_run, tmp_path):
    status, out, err = command("evaluate", ram_run, "--json", tmp_path / "numbers.json")
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert (numbers["part"], numbers["images"]) == ("test", 40)
    assert numbers["error"] < 10  # chance is 75
    assert "error" in out


def test_several_draws_train_a_model_that_is_measured_by_one(command, mnist, tmp_path):
    several = ["--draws", 3, "--bias-per-glimpse", "--decay-epochs", 2, "--ema-decay", 0.9]
    train_run(tmp_path / "run", "ram", mnist, [*LOOKING, *several])
    status, _, err = command("evaluate", tmp_path / "run", "--json", tmp_path / "numbers.json")
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["images"] == 40
    assert numbers["error"] < 30  # chance is 75


def test_pictures_show_each_glimpse(command, ram_run, tmp_path):
    status, _, err = command("plot", ram_run, "--output-dir", tmp_path, "--count", 2)
    assert (status, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["glimpses.gif", "glimpses.png"]


def test_the_export_tells_the_digit_and_where_it_looked(command, ram_run, tmp_path):
    status, _, err = command("export", ram_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    images = np.zeros((3, 28, 28), "uint8")
    images[0, :14, :14] = images[1, :14, 14:] = images[2, 14:, 14:] = 255
    answers = {
        k: v.numpy() for k, v in served(image=tf.constant(images / 255.0, "float32")).items()
    }
    assert answers["digit"].tolist() == [0, 1, 3]
    probabilities, locations = load_recipe(ram_run).predict(images)
    np.testing.assert_allclose(answers["probabilities"], probabilities, atol=1e-5)
    np.testing.assert_allclose(answers["locations"], locations, atol=1e-5)
    np.testing.assert_array_equal(locations[:, 0], 0.0)  # the first glimpse is of the middle


def test_the_bound_falls_and_is_the_sum_of_its_parts(command, draw_run, tmp_path):
    losses = [row["val_bound"] for row in read_history(draw_run / "history.csv")]
    # Three small epochs: by processor the third is a little better or worse than the second.
    assert len(losses) == 3 and max(losses[1:]) < 0.85 * losses[0]
    status, _, err = command("evaluate", draw_run, "--json", tmp_path / "numbers.json")
    assert (status, err) == (0, "")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["bound"] == pytest.approx(numbers["reconstruction"] + numbers["kl"])
    # Test pictures and validation pictures are of the same four kinds.
    assert numbers["bound"] == pytest.approx(min(losses), rel=0.05)  # the best epoch's weights


def test_samples_and_drawings_are_pictures_and_frames(command, draw_run, tmp_path):
    options = ["--count", 1, "--samples", 9, "--output-dir", tmp_path]
    status, _, err = command("plot", draw_run, *options)
    assert (status, err) == (0, "")
    names = {f"{name}.{kind}" for name in ("samples", "drawing") for kind in ("png", "gif")}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_the_export_draws_what_the_noise_says(command, draw_run, tmp_path):
    status, _, err = command("export", draw_run, tmp_path / "served")
    assert (status, err) == (0, "")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["serving_default"]
    noise = np.random.default_rng(7).standard_normal((3, 2, 3)).astype("float32")
    answers = served(noise=tf.constant(noise))
    expected = load_recipe(draw_run).sample(3, seed=7)
    for name in ("image", "canvases", "windows"):
        np.testing.assert_allclose(answers[name], expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [("ram", LOOKING), ("ram", [*LOOKING, "--draws", 2]), ("draw", DRAWING)],
    ids=["ram", "draws", "draw"],
)
def test_a_run_goes_on_to_the_same_numbers(command, mnist, tmp_path, name, options):
    whole, half = tmp_path / "whole", tmp_path / "half"
    train_run(whole, name, mnist, [*options, "--epochs", 3])
    train_run(half, name, mnist, [*options, "--epochs", 1])
    assert command("train", name, "--run", half, "--resume", "--epochs", 3)[0] == 0
    rows = [read_history(path / "history.csv") for path in (half, whole)]
    for one, other in zip(*rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize("name", ["ram", "draw"])
@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ([], 2, "--mnist DIR"),
        (["--mnist", "{none}"], 1, "expected train-images"),
        (["--mnist", "{mnist}", "--monitor", "bleu"], 2, "invalid choice"),
    ],
)
def test_wrong_options_and_files_are_told_in_a_line(
    command, mnist, tmp_path, name, given, status, told
):
    given = [option.format(mnist=mnist, none=tmp_path / "none") for option in given]
    found, _, err = command("train", name, "--run", tmp_path / "run", *given)
    assert found == status
    assert told in err
    assert not (tmp_path / "run").exists()
