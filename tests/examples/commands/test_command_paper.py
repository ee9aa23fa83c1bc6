"""`train --paper`: the sizes of the paper, where no others are given."""

import argparse

import pytest

from examples import registry
from examples.commands import resuming, train, train_options

PAPERS = [name for name, one in registry.MODELS.items() if hasattr(one.module, "PAPER")]


@pytest.mark.parametrize("name", PAPERS)
def test_sizes_that_are_not_given_are_the_papers(name):
    sizes = registry.find(name).module.PAPER
    plain, paper = (train_options.parse(name, ["--run", "x", *more]) for more in ([], ["--paper"]))
    assert {size: getattr(paper, size) for size in sizes} == sizes
    same = set(vars(plain)) - {*sizes, "paper"}
    assert all(getattr(plain, one) == getattr(paper, one) for one in same)
    given = plain.units  # what the laptop's would be counts too where it is given
    for line in (["--paper", "--units", str(given)], ["--units", str(given), "--paper"]):
        mixed = train_options.parse(name, ["--run", "x", *line])
        assert (mixed.units, mixed.paper) == (given, True)


def test_the_record_of_a_run_has_the_sizes_and_they_stay(tmp_path):
    words = ["--run", str(tmp_path), "--paper", "--embedding-dim", "7"]
    text = ["train", "rnnsearch", *words]

    def complete_arguments(more):
        parser = argparse.ArgumentParser()
        train.add_arguments(parser)
        return train.complete_arguments([*text, *more], parser.parse_args([*text[1:], *more]))

    record = resuming.plain(complete_arguments([]))
    assert (record["units"], record["embedding_dim"], record["maxout_units"]) == (1000, 7, 500)
    resuming.write_record(tmp_path, record)
    text = ["train", "rnnsearch", "--run", str(tmp_path), "--resume"]
    for more in ([], ["--paper"]):
        given = resuming.plain(complete_arguments(more))
        assert given == record
        resuming.check_arguments(tmp_path, record, given)


def test_a_run_from_before_the_first_weights_could_be_chosen_goes_on(tmp_path):
    line = ["--run", str(tmp_path), "--paper"]
    record = {"model": "rnnsearch", **resuming.plain(train_options.parse("rnnsearch", line))}
    assert record.pop("init_stddev") == 0.01
    for more in ([], ["--paper"]):
        given = train_options.parse("rnnsearch", ["--run", "x", "--resume", *more], record)
        resuming.check_arguments(tmp_path, record, resuming.plain(given))
        assert (given.units, given.init_stddev) == (1000, None)


def test_a_system_without_has_no_such_option(command, tmp_path):
    status, _, err = command("train", "ntm", "--run", tmp_path / "x", "--paper")
    assert (status, "unrecognized arguments: --paper" in err) == (2, True)
    lines = command("list")[1].splitlines()
    assert sorted(line.split()[0] for line in lines if "[--paper]" in line) == sorted(PAPERS)
