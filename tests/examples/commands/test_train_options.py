"""The options of `train`, those of a run that goes on included."""

from examples.commands.train_options import parse


def test_a_list_that_is_given_again_replaces_that_of_the_run():
    words = ["--run", "runs/a", "--stories", "a", "b", "--stories", "c"]
    began = vars(parse("memory-network", words))
    assert began["stories"] == ["a", "b", "c"]
    assert parse("memory-network", [*words, "--resume"], began).stories == ["a", "b", "c"]
    assert (
        parse("memory-network", ["--run", "runs/a", "--resume"], began).stories == began["stories"]
    )
    other = ["--run", "runs/a", "--resume", "--stories", "d"]
    assert parse("memory-network", other, began).stories == ["d"]
