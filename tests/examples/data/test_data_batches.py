"""Batches: few shapes, every pair once an epoch, an order that can be taken up again."""

import doctest

import numpy as np
import pytest
import tensorflow as tf
from data_folder import DATA

from examples.data import batches as batches_module
from examples.data.batches import Batches
from examples.data.buckets import split_into_buckets
from examples.data.encoding import EncodedPairs, Ragged, encode_pairs
from examples.data.parallel import read_pairs, read_parallel
from examples.data.report import DataError, Report

MULTI30K = DATA / "multi30k" / "tok"


class WordTokenizer:
    """The interface of `keras_attention.export.tokenizers`, for tests."""

    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.ids = {word: number + 4 for number, word in enumerate(words)}

    def encode(self, texts):
        assert texts.dtype == tf.string
        rows = [[self.ids.get(w, 1) for w in t.decode().split()] for t in texts.numpy()]
        table = np.zeros((len(rows), max(map(len, rows))), np.int32)
        for line, row in zip(table, rows, strict=True):
            line[: len(row)] = row
        return tf.constant(table), tf.constant([len(row) for row in rows], tf.int32)


def random_pairs(count=331, seed=5):
    random = np.random.RandomState(seed)
    sizes = 1 + random.poisson([6, 4], (count, 2))
    # Word n of pair p is unique, so that every row is recognized wherever it turns up.
    return [
        (" ".join(f"s{p}.{n}" for n in range(a)), " ".join(f"t{p}.{n}" for n in range(b)))
        for p, (a, b) in enumerate(sizes)
    ]


PAIRS = random_pairs()
SOURCE, TARGET = WordTokenizer(s for s, _ in PAIRS), WordTokenizer(t for _, t in PAIRS)


def make(**options):
    return Batches.from_pairs(PAIRS, SOURCE, TARGET, **{"batch_size": 13, **options})


def arrays(dataset):
    return [tf.nest.map_structure(lambda t: t.numpy(), batch) for batch in dataset]


def same(one, other):
    one, other = tf.nest.flatten(one), tf.nest.flatten(other)
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def test_rows_follow_the_conventions():
    pairs = [("a b c", "x"), ("b", "x y")]
    source, target = WordTokenizer(["a b c"]), WordTokenizer(["x y"])
    batches = Batches.from_pairs(pairs, source, target, batch_size=3, max_shapes=1)
    (inputs, labels, index), *rest = arrays(batches.evaluation())
    assert not rest
    assert inputs["source"].tolist() == [[4, 5, 6, 3], [5, 3, 0, 0], [0, 0, 0, 0]]
    assert inputs["target"].tolist() == [[2, 4, 0], [2, 4, 5], [0, 0, 0]]
    assert labels.tolist() == [[4, 3, 0], [4, 5, 3], [0, 0, 0]]
    assert index.tolist() == [0, 1, -1]
    assert {inputs["source"].dtype, inputs["target"].dtype, labels.dtype} == {np.dtype("int32")}


@pytest.mark.parametrize("options", [{}, {"batch_tokens": 97}, {"max_shapes": 3}, {"seed": 7}])
def test_every_pair_is_in_an_epoch_exactly_once(options):
    batches = make(**options)
    expected = sorted(
        (tuple(batches.encoded.source[n]), tuple(batches.encoded.target[n]))
        for n in range(len(PAIRS))
    )
    for epoch in (0, 3):
        seen = arrays(batches.epoch(epoch))
        assert len(seen) == batches.batches_per_epoch(epoch)
        rows, empty = [], 0
        for inputs, labels in seen:
            for source, shifted, label in zip(
                inputs["source"], inputs["target"], labels, strict=True
            ):
                if not source.any():
                    assert not label.any() and not shifted.any()
                    empty += 1
                    continue
                rows.append((tuple(source[source > 0]), tuple(label[label > 0])))
                count = len(rows[-1][1])
                assert shifted.tolist() == [2, *label[: count - 1]] + [0] * (len(label) - count)
        assert sorted(rows) == expected
        assert empty < sum(shape[0] for shape in batches.shapes())


@pytest.mark.parametrize(
    "options", [{}, {"batch_tokens": 97}, {"max_shapes": 2}, {"max_shapes": 1}]
)
def test_shapes_are_few_and_all_batches_have_one(options):
    batches = make(**options)
    assert len(batches.shapes()) <= options.get("max_shapes", 8)
    taken = {
        (*inputs["source"].shape, inputs["target"].shape[1])
        for inputs, _ in arrays(batches.epoch(1))
    }
    assert taken == set(batches.shapes())
    if "batch_tokens" in options:
        for rows, source, target in batches.shapes():
            assert rows * max(source, target) <= 97 < (rows + 1) * max(source, target)


def test_order_is_a_function_of_seed_and_epoch():
    first = arrays(make(seed=3).epoch(5))
    assert same(first, arrays(make(seed=3).epoch(5)))
    assert not same(first, arrays(make(seed=4).epoch(5)))
    assert not same(first, arrays(make(seed=3).epoch(6)))
    # Not only the batches change places, also what is in them.
    batches = make(seed=3, max_shapes=1)
    contents = [
        {frozenset(inputs["source"].flatten()) for inputs, _ in arrays(batches.epoch(epoch))}
        for epoch in (0, 1)
    ]
    assert not contents[0] & contents[1]


def test_an_epoch_can_be_taken_up_at_any_batch():
    whole = arrays(make(seed=3).epoch(2))
    for start in (0, 1, 17, len(whole) - 1):
        assert same(whole[start:], arrays(make(seed=3).epoch(2, start=start)))
    assert arrays(make(seed=3).epoch(2, start=len(whole))) == []


def test_order_is_frozen():
    # A run begun with an earlier version resumes in this order.
    batches = make(seed=3, max_shapes=1, batch_size=61)
    first = [int(row[0]) for row in next(iter(batches.epoch(2)))[0]["source"]]
    pairs = [n for i in first[:6] for n in range(331) if batches.encoded.source[n][0] == i]
    assert pairs == [106, 40, 262, 244, 58, 98]


def test_evaluation_has_every_pair_once_by_index():
    batches = make()
    found = {}
    for inputs, labels, index in arrays(batches.evaluation()):
        for source, label, place in zip(inputs["source"], labels, index, strict=True):
            if place < 0:
                assert not source.any() and not label.any()
                continue
            assert place not in found
            found[place] = True
            assert source[source > 0].tolist() == batches.encoded.source[place].tolist()
            assert label[label > 0].tolist() == batches.encoded.target[place].tolist()
    assert sorted(found) == list(range(len(PAIRS)))


def test_padding_share_is_what_the_batches_hold():
    batches = make()
    padded = total = 0
    for inputs, labels in arrays(batches.epoch(0)):
        for ids in (inputs["source"], labels):
            padded += int((ids == 0).sum())
            total += ids.size
    assert batches.padding_share == pytest.approx(padded / total)
    assert f"{100 * padded / total:.1f} % padding" in str(batches)
    assert batches.padding_share < make(max_shapes=1).padding_share


def test_long_pairs_are_told_and_never_cut(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a b\tx\n\na b c d\tx\na\tx y z\na\tx\n")
    corpus = read_pairs(str(path))
    tokenizers = WordTokenizer(["a b c d"]), WordTokenizer(["x y z"])
    encoded = encode_pairs(corpus, *tokenizers, max_source_length=4, max_target_length=3)
    assert encoded.index.tolist() == [0, 3]  # of the pairs read
    assert [list(encoded.source[n]) for n in range(2)] == [[4, 5, 3], [4, 3]]
    assert [bad.line for bad in encoded.report.examples()] == [3, 4]  # of the file
    assert encoded.report.summary() == "2 pairs used, 2 left out: 2 too long after tokenization"
    assert (
        "a.tsv:3: too long after tokenization (5 source tokens with the EOS token, the limit is 4)"
        in str(encoded.report)
    )
    with pytest.raises(DataError, match="No pair is left after tokenization. 0 pairs used, 4 left"):
        encode_pairs(corpus, *tokenizers, max_source_length=1)


def test_pairs_that_encode_to_nothing_are_told():
    pairs = [("a", "x"), (" ", "x"), ("a", " ")]
    encoded = encode_pairs(pairs, WordTokenizer(["a"]), WordTokenizer(["x"]))
    assert len(encoded) == 1
    assert [str(bad) for bad in encoded.report.examples()] == [
        "pair:2: empty after tokenization (source)",
        "pair:3: empty after tokenization (target)",
    ]


def test_chunks_do_not_change_what_is_encoded():
    whole = encode_pairs(PAIRS, SOURCE, TARGET)
    chunked = encode_pairs(iter(PAIRS), SOURCE, TARGET, chunk=7)
    assert np.array_equal(whole.source.values, chunked.source.values)
    assert np.array_equal(whole.target.starts, chunked.target.starts)


def test_buckets_beat_one_shape_and_hold_every_row_once():
    random = np.random.RandomState(2)
    source = 3 + random.poisson(12, 2003)
    target = np.maximum(2, source + random.randint(-3, 4, 2003))
    whole = 2003 * (source.max() + target.max())
    buckets = split_into_buckets(source, target, lambda s, t: 1 + 0 * s, max_shapes=5)
    assert len(buckets) == 5
    assert sorted(np.concatenate(buckets)) == list(range(2003))
    cost = sum(len(b) * (source[b].max() + target[b].max()) for b in buckets)
    assert cost < 0.75 * whole


def test_first_split_is_the_best_of_all():
    random = np.random.RandomState(4)
    lengths = 1 + random.poisson(7, (2, 97))

    def cost(rows):
        return -(-len(rows) // 5) * 5 * int(lengths[:, rows].max(axis=1).sum())

    tried = []
    for axis in (0, 1):
        for limit in range(1, lengths[axis].max()):
            parts = np.flatnonzero(lengths[axis] <= limit), np.flatnonzero(lengths[axis] > limit)
            if all(map(len, parts)):
                tried.append(sum(map(cost, parts)))
    buckets = split_into_buckets(*lengths, lambda s, t: 5 + 0 * s, max_shapes=2)
    assert sum(map(cost, buckets)) == min(tried)


def test_equal_lengths_take_one_shape():
    ids = Ragged.from_rows([[5, 6, 3]] * 11)
    batches = Batches(EncodedPairs(ids, ids, np.arange(11), Report()), batch_size=5)
    assert batches.shapes() == [(5, 3, 3)]
    assert batches.batches_per_epoch() == 3


def test_wrong_arguments_are_refused():
    for name, value in {"batch_size": 0, "max_shapes": 2.0, "seed": -1, "batch_tokens": 0}.items():
        with pytest.raises(ValueError, match=f"Received: {name}={value}"):
            make(**{name: value})
    with pytest.raises(ValueError, match=r"longest row, \d+ tokens.*Received: batch_tokens=5"):
        make(batch_tokens=5)
    with pytest.raises(ValueError, match="Received: epoch=-1"):
        make().epoch(-1)
    with pytest.raises(ValueError, match="Received: start=-1"):
        make().epoch(0, start=-1)


@pytest.mark.thorough
def test_multi30k_in_eight_shapes_with_little_padding():
    if not MULTI30K.is_dir():
        pytest.skip(f"Multi30k is not at {MULTI30K}: the padding of real data is not checked")
    files = [str(MULTI30K / f"train.lc.norm.tok.{language}.gz") for language in ("de", "en")]
    corpus = read_parallel(*files, on_bad_line="refuse")
    assert len(corpus) == 29_000
    tokenizers = [WordTokenizer(pair[side] for pair in corpus) for side in (0, 1)]
    batches = Batches.from_pairs(corpus, *tokenizers, batch_size=96)
    assert len(batches.shapes()) <= 8
    assert batches.padding_share < 0.20
    assert sum(int((labels == 3).sum()) for _, labels in arrays(batches.epoch(0))) == 29_000


def test_examples_in_docstrings_run():
    results = doctest.testmod(batches_module)
    assert results.attempted and not results.failed
