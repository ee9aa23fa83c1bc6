"""The table of experiments: options that exist, test parts that only the evaluation reads."""

import argparse

import pytest

from examples import registry
from examples.commands import evaluate, train_options
from examples.commands.by_run import RunCommand
from examples.commands.train import make_recipe
from examples.reproduce import experiments


def test_what_an_experiment_reads_or_is_measured_beside_stands_before_it():
    names = list(experiments.EXPERIMENTS)
    found = {}
    for number, (name, one) in enumerate(experiments.EXPERIMENTS.items()):
        assert {*one.needs, *one.beside} <= set(names[:number])
        found |= {name: (one.needs, one.beside)} if one.needs or one.beside else {}
    assert found == {
        "cmudict-ensemble": (
            ("cmudict-luong-512", "cmudict-luong-bidirectional", "cmudict-rnnsearch"),
            (),
        ),
        "cmudict-local-p": (("cmudict-luong",), ("cmudict-luong",)),
        "scenes-guided": (("scenes-soft",), ()),
        "language-lstmn": ((), ("language-lstm",)),
    }


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_every_experiment_has_options_that_its_commands_know(name, tmp_path):
    experiment = experiments.EXPERIMENTS[name]
    part = next(iter(experiment.parts), "")
    for quick in (False, True):
        for line in experiment.train(tmp_path, tmp_path, part, quick):
            told = train_options.make_parser(line[1]).parse_args(line[2:])
            make_recipe(line[1], told)
            runs = len(experiment.parts or ("",)) * len(experiment.seeds)
            assert told.max_minutes == pytest.approx(experiment.minutes / runs)
        parser = argparse.ArgumentParser(exit_on_error=False)
        RunCommand(evaluate, registry.find(experiment.model).recipe).add_arguments(parser)
        parser.parse_args(experiment.evaluate(tmp_path, tmp_path, part, quick)[1:])


# Where no file is called a test: fold 8, and what `evaluate` reads of bAbI and MNIST.
HELD_OUT = {
    "reviews-han": "--folds 8 ",
    **{name: "" for name in experiments.EXPERIMENTS if name.startswith("memory-network")},
    **{name: "" for name in experiments.EXPERIMENTS if name.startswith(("scenes-", "digits-"))},
}


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_no_experiment_is_tuned_on_its_test_part(name):
    experiment = experiments.EXPERIMENTS[name]
    held_out = HELD_OUT.get(name, "test")
    assert "test" not in experiment.training
    assert held_out in experiment.evaluation
    assert not held_out or held_out not in experiment.training
    assert "dev" not in experiment.evaluation
    assert "validation" not in experiment.evaluation
