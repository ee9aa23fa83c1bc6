"""Which pairs are held out, and which references a text has."""

import pytest

from examples.data.pair_files import References, hold_out
from examples.data.parallel import Corpus
from examples.data.report import DataError, Report

PAIRS = [(f"word {n}", f"{n} {k}") for n in range(30) for k in range(1 + n % 3)]


@pytest.mark.parametrize(
    ("fraction", "count"), [(0.1, 3), (0.3, 9), (0.4, 12), (0.5, 15), (0.6, 18), (0.9, 27)]
)
def test_sources_are_held_out_whole_and_as_many_as_asked_for(fraction, count):
    training, dev = hold_out(PAIRS, fraction)
    sources = [{source for source, _ in part} for part in (training, dev)]
    assert not sources[0] & sources[1]
    assert len(sources[1]) == count and len(sources[0]) == 30 - count
    assert sorted(training + dev) == sorted(PAIRS)


def test_of_distinct_sources_every_so_manieth_is_hold_out():
    _, dev = hold_out([(str(n), "x") for n in range(1, 101)], 0.02)
    assert dev == [("50", "x"), ("100", "x")]


@pytest.mark.parametrize("fraction", [0.01, 1.0])
def test_too_few_sources_are_refused(fraction):
    with pytest.raises(DataError, match="3 different sources are too few.*--validation-fraction"):
        hold_out([("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")], fraction)


def test_lines_of_one_source_are_joined_and_taken_apart():
    pairs = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "1")]
    corpus = Corpus(pairs, [1, 2, 4, 5], "file", Report())
    joined = References.of(corpus, is_joined=True)
    assert (joined.texts, joined.references) == (["a", "b"], [["1", "3"], ["2"]])
    assert (joined.lines, joined.names) == ([1, 2], ["file:1", "file:2"])
    assert joined.pairs.pairs == [("a", "1"), ("a", "3"), ("b", "2")]
    assert joined.pairs.lines == [1, 1, 2]
    first = References.of(corpus, is_joined=False, max_examples=3)
    assert (first.texts, first.references) == (["a", "b", "a"], [["1"], ["2"], ["3"]])
    assert first.pairs.pairs == pairs[:3] and first.lines == [1, 2, 4]
