"""Optimizers and schedules by the names of the command line."""

import keras
import pytest
from translation_commands import read_options

from examples.commands.arguments import UsageError


class Batches:
    """Stands in for training data of ten batches."""

    def batches_per_epoch(self):
        return 10


def make_optimizer(line=""):
    return read_options(line).make_optimizer(None, Batches())


def rates(line, steps):
    optimizer = make_optimizer(line)
    schedule = optimizer.get_config()["learning_rate"]
    if not isinstance(schedule, dict):
        return [float(schedule)] * len(steps)
    return [float(optimizer._learning_rate(step)) for step in steps]


@pytest.mark.parametrize(
    ("line", "kind", "config"),
    [
        ("", keras.optimizers.Adam, {"learning_rate": 1e-3, "beta_2": 0.999}),
        ("--beta-2 0.98", keras.optimizers.Adam, {"beta_2": 0.98}),
        ("--schedule inverse-sqrt", keras.optimizers.Adam, {"beta_2": 0.98, "epsilon": 1e-9}),
        ("--schedule inverse-sqrt --beta-2 0.9", keras.optimizers.Adam, {"beta_2": 0.9}),
        ("--optimizer sgd", keras.optimizers.SGD, {"learning_rate": 1.0, "momentum": 0.0}),
        (
            "--optimizer nesterov",
            keras.optimizers.SGD,
            {"learning_rate": 0.25, "momentum": 0.99, "nesterov": True},
        ),
        (
            "--optimizer adadelta",
            keras.optimizers.Adadelta,
            {"learning_rate": 1.0, "rho": 0.95, "epsilon": 1e-6},
        ),
        ("--optimizer rmsprop --learning-rate 0.3", keras.optimizers.RMSprop, {"rho": 0.9}),
    ],
)
def test_optimizers_have_the_papers_parameters(line, kind, config):
    optimizer = make_optimizer(line)
    assert type(optimizer) is kind
    found = optimizer.get_config()
    assert {name: found[name] for name in config} == pytest.approx(config)
    assert (found["clipnorm"], found["global_clipnorm"], found["clipvalue"]) == (None, 1.0, None)
    assert not found["use_ema"]


def test_the_optimizer_clips_and_averages_as_asked():
    found = make_optimizer("--clip-norm 0.3 --ema-decay 0.9").get_config()
    assert (found["global_clipnorm"], found["use_ema"], found["ema_momentum"]) == (0.3, True, 0.9)


def test_the_rate_given_is_the_rate():
    assert rates("--optimizer rmsprop --learning-rate 0.3", [0, 99]) == pytest.approx([0.3, 0.3])


def test_inverse_sqrt_is_the_papers_curve_for_the_width_of_the_model():
    found = rates("--schedule inverse-sqrt --warmup 40 --units 64", [0, 39, 159])
    assert found == pytest.approx([40**-1.5 / 8, 40**-0.5 / 8, 160**-0.5 / 8])
    doubled = rates(
        "--schedule inverse-sqrt --warmup 40 --units 64 --learning-rate 2", [0, 39, 159]
    )
    assert doubled == pytest.approx([2 * rate for rate in found])


def test_halving_counts_in_epochs():
    line = "--optimizer sgd --schedule halving --learning-rate 0.7"
    steps = [0, 49, 50, 59, 60]
    assert rates(line, steps) == pytest.approx([0.7, 0.7, 0.35, 0.35, 0.175])
    line += " --lr-decay-start 2 --lr-decay-every 0.5"
    assert rates(line, [19, 20, 24, 25]) == pytest.approx([0.7, 0.35, 0.35, 0.175])


def test_the_rate_cools_down_at_the_end_of_the_epochs():
    line = "--epochs 9 --decay-epochs 2.5 --learning-rate 0.4"
    steps = [0, 64, 65, 70, 89, 90, 99]
    expected = [0.4, 0.4, 0.4, 0.32, 0.016, 0, 0]
    assert rates(line, steps) == pytest.approx(expected)
    plain_line = "--epochs 9 --schedule inverse-sqrt --warmup 40 --units 64"
    cooled, plain = rates(f"{plain_line} --decay-epochs 9", steps), rates(plain_line, steps)
    left = [max(0, 90 - step) / 90 for step in steps]
    assert cooled == pytest.approx([rate * part for rate, part in zip(plain, left, strict=True)])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", (0.5, 2)),
        ("--plateau-factor 0.1 --plateau-patience 1", (0.1, 1)),
    ],
)
def test_a_plateau_lowers_the_rate_as_asked(tmp_path, line, expected):
    (plateau,) = read_options(f"--schedule plateau {line}").make_callbacks(tmp_path)
    assert (plateau.factor, plateau.patience) == expected
    assert plateau.monitor == "perplexity"
    assert read_options().make_callbacks(tmp_path) == ()
    assert rates("--schedule plateau", [0, 9]) == pytest.approx([1e-3, 1e-3])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--beta-2 0.9 --optimizer sgd", "--beta-2 is for --optimizer adam. Leave it out"),
        (
            "--warmup 9",
            "--warmup is for --schedule inverse-sqrt. .* --warmup 9 --schedule constant",
        ),
        ("--lr-decay-start 2 --schedule plateau", "--lr-decay-start is for --schedule halving"),
        ("--lr-decay-every 2", "--lr-decay-every is for --schedule halving"),
        ("--plateau-factor 0.1", "--plateau-factor is for --schedule plateau"),
        (
            "--plateau-patience 1 --schedule inverse-sqrt",
            "--plateau-patience is for --schedule plateau",
        ),
        ("--decay-epochs 2 --schedule plateau", "not for --schedule plateau. .* --decay-epochs 2"),
        ("--decay-epochs 3 --epochs 2", "from the end of --epochs, .* --decay-epochs 3 --epochs 2"),
    ],
)
def test_options_without_what_they_belong_to_are_refused(line, told):
    with pytest.raises(UsageError, match=told):
        read_options(line)


def test_inverse_sqrt_needs_a_width():
    recipe = read_options("--schedule inverse-sqrt")
    recipe.model_options = {}
    with pytest.raises(UsageError, match="inverse-sqrt needs the width of the model"):
        recipe.check()
