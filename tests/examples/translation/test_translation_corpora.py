"""Which pairs are held out, and how long outputs may be."""

import pytest

from examples.commands.arguments import UsageError
from examples.commands.train_options import make_parser
from examples.data.report import DataError
from examples.models import convs2s, rnnsearch, transformer
from examples.translation import train
from examples.translation.corpora import held_out
from keras_attention.export.length_limits import DEFAULT_MAX_LENGTH, choose_max_length

PAIRS = [(f"word {n}", f"{n} {k}") for n in range(30) for k in range(1 + n % 3)]


@pytest.mark.parametrize(
    ("share", "count"), [(0.1, 3), (0.3, 9), (0.4, 12), (0.5, 15), (0.6, 18), (0.9, 27)]
)
def test_sources_are_held_out_whole_and_as_many_as_asked_for(share, count):
    training, dev = held_out(PAIRS, share)
    sources = [{source for source, _ in part} for part in (training, dev)]
    assert not sources[0] & sources[1]
    assert len(sources[1]) == count and len(sources[0]) == 30 - count
    assert sorted(training + dev) == sorted(PAIRS)


def test_of_distinct_sources_every_so_manieth_is_held_out():
    _, dev = held_out([(str(n), "x") for n in range(1, 101)], 0.02)
    assert dev == [("50", "x"), ("100", "x")]


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_too_few_sources_are_refused(share):
    with pytest.raises(DataError, match="3 different sources are too few.*--validation-fraction"):
        held_out([("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")], share)


def test_outputs_are_no_longer_than_the_positions_that_were_learned():
    sizes = {"units": 8, "layers": 1, "heads": 2}
    learned = transformer.build(11, 13, positions="learned", max_length=40, **sizes)
    assert choose_max_length(learned, 12) == 24
    assert choose_max_length(learned, 21) == 40
    assert choose_max_length(learned, None) == 40
    free = transformer.build(11, 13, max_length=40, **sizes)
    assert choose_max_length(free, 300) == 600
    convolutional = convs2s.build(11, 13, units=8, embedding_dim=8, max_length=31)
    assert choose_max_length(convolutional, 20) == 31
    assert choose_max_length(rnnsearch.build(11, 13, units=6), None) == DEFAULT_MAX_LENGTH


def test_shared_embeddings_need_a_joint_vocabulary():
    line = ["--run", "x", "--pairs", "y", "--share-embeddings"]
    with pytest.raises(UsageError, match="--share-embeddings needs one.*--joint-vocabulary"):
        train.check(make_parser("transformer").parse_args(line))
    train.check(make_parser("transformer").parse_args([*line, "--joint-vocabulary"]))
