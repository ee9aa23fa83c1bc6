"""Shards: every pair once a pass, an order of seed and epoch alone, damage and bad lines told."""

import gzip
import re

import numpy as np
import pytest
import tensorflow as tf

from examples.data.batches import Batches
from examples.data.report import DataError
from examples.data.shards import ShardBatches, Shards
from keras_attention.export import tokenizers

random = np.random.RandomState(5)
PAIRS = [
    (" ".join(f"s{p % 7}.{n}" for n in range(a)), " ".join(f"t{p}" for n in range(b)))
    for p, (a, b) in enumerate(1 + random.poisson([5, 3], (211, 2)))
]
SIDES = [tokenizers.train("words", side) for side in zip(*PAIRS, strict=True)]


def write_lines(path, lines):
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_records(path, pairs):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for pair in pairs:
            features = {
                side: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
                for side, text in zip(("source", "target"), pair, strict=True)
                if text is not None
            }
            writer.write(
                tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pairs in a plain, a gzip and a TFRecord shard."""
    folder = tmp_path_factory.mktemp("shards")
    lines = ["\t".join(pair) for pair in PAIRS]
    write_lines(folder / "a.tsv", lines[:40])
    write_lines(folder / "b.tsv.gz", lines[40:120])
    write_records(folder / "c.tfrecord", PAIRS[120:])
    return folder


def make(folder, seed=3, epoch_batches=30, **options):
    shards = Shards([f"{folder}/*"], on_bad_line=options.pop("on_bad_line", "skip"))
    sample, _ = shards.sample(options.pop("sample_pairs", len(PAIRS)))
    batch_tokens = options.get("batch_tokens")
    options = {"batch_size": 13, "max_shapes": 3, **options}
    shuffle_buffer = options.pop("shuffle_buffer", 50)
    like = Batches.from_pairs(sample, *SIDES, seed=seed, decoder_start_id=3, **options)
    return ShardBatches(shards, *SIDES, like, epoch_batches, shuffle_buffer, batch_tokens)


def arrays(dataset):
    return [tf.nest.map_structure(lambda t: t.numpy(), batch) for batch in dataset]


def one_pass(batches):
    chunks = batches.make_pass(tf.constant(7, tf.int64))
    return list(batches.assemble(chunks.as_numpy_iterator()))


def same(one, other):
    one, other = tf.nest.flatten(one), tf.nest.flatten(other)
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def rows(batches):
    return sorted(
        (*source[source > 0], *shifted[label > 0], *label[label > 0])
        for inputs, labels in batches
        for source, shifted, label in zip(inputs["source"], inputs["target"], labels, strict=True)
        if source.any() or label.any()
    )


@pytest.mark.parametrize("options", [{}, {"batch_tokens": 97}, {"max_shapes": 1}])
def test_a_pass_has_the_pairs_that_batches_in_memory_have(folder, options):
    batches = make(folder, **options)
    options = {"batch_size": 13, "max_shapes": 3, **options}
    expected = Batches.from_pairs(PAIRS, *SIDES, decoder_start_id=3, **options)
    found = one_pass(batches)
    assert rows(found) == rows(arrays(expected.epoch(0)))
    assert len(rows(found)) == len(PAIRS)
    taken = {(*inputs["source"].shape, inputs["target"].shape[1]) for inputs, _ in found}
    assert taken <= set(batches.shapes())
    assert batches.shards.report.summary() == "211 pairs used, none left out"


@pytest.mark.thorough
def test_the_order_depends_on_seed_and_epoch_alone(folder):
    first = arrays(make(folder).epoch(5))
    assert len(first) == 30  # more than a pass
    tf.random.set_seed(17)
    assert same(first, arrays(make(folder).epoch(5)))
    assert not same(first, arrays(make(folder, seed=4).epoch(5)))
    assert not same(first, arrays(make(folder).epoch(6)))
    # Without a buffer the first pairs are those of the first shard: it is not always the same.
    batches = make(folder, shuffle_buffer=1, epoch_batches=1)
    begun = {rows(arrays(batches.epoch(epoch)))[0] for epoch in range(5)}
    assert len(begun) > 1


@pytest.mark.thorough
def test_an_epoch_can_be_taken_up_at_any_batch(folder):
    batches = make(folder)
    whole = arrays(batches.epoch(2))
    for start in (0, 1, 23, 29, 30):
        assert same(whole[start:], arrays(batches.epoch(2, start)))


@pytest.mark.parametrize("epoch_batches", [4, 17])
def test_a_rare_shape_is_trained_in_a_short_epoch(tmp_path, epoch_batches):
    pairs = [("s0.0", "t0")] * 500 + [("s0.0 s0.1 s0.2 s0.3", "t0 t1 t2 t3")] * 40
    write_lines(tmp_path / "a.tsv", map("\t".join, pairs))
    options = {"max_shapes": 2, "sample_pairs": 540, "shuffle_buffer": 600}
    for batch_size in (13, 100):
        batches = make(tmp_path, epoch_batches=epoch_batches, batch_size=batch_size, **options)
        assert len(batches.shapes()) == 2
        found = arrays(batches.epoch(0))
        assert len(found) == epoch_batches
        assert {labels.shape[1] for _, labels in found} == {2, 5}
        assert all(len(labels) == batch_size for _, labels in found)
        num_short = [(labels.any(axis=1)).sum() for _, labels in found if labels.shape[1] == 2]
        assert num_short == [batch_size] * len(num_short)  # the last one is filled before the end
        assert same(found[2:], arrays(batches.epoch(0, 2)))


def test_pairs_longer_than_the_sample_are_counted(folder):
    batches = make(folder, sample_pairs=40, on_bad_line="refuse")
    _, *longest = map(max, zip(*batches.shapes(), strict=True))
    kept = [
        pair
        for pair in PAIRS
        if all(len(text.split()) < limit for text, limit in zip(pair, longest, strict=True))
    ]
    assert len(kept) < len(PAIRS)
    found = rows(one_pass(batches))
    left_out = len(PAIRS) - len(found)
    assert len(found) == len(kept)
    assert str(batches.report) == (
        f"{len(kept)} pairs used, {left_out} left out: "
        f"{left_out} longer than the sample after tokenization"
    )


def test_bad_lines_are_counted_or_refused(tmp_path):
    write_lines(tmp_path / "a.tsv", ["s0.0\tt0", "s0.0", "", "s0.0\t" + "t" * 2001])
    write_records(tmp_path / "b.tfrecord", [("s0.0", "t0"), ("s0.0", None)])
    batches = make(tmp_path)
    assert len(rows(one_pass(batches))) == 2
    report = str(batches.shards.report)
    assert "2 pairs used, 4 left out" in report
    for told in ("a.tsv:2: without a partner (no tab)", "a.tsv:3: empty", "b.tfrecord:2: empty"):
        assert told in report
    with pytest.raises(DataError, match=r"bad line.*a.tsv:2: without .*--invalid-lines skip"):
        list(Shards([f"{tmp_path}/*"], on_bad_line="refuse"))
    write_lines(tmp_path / "a.tsv", ["s0.0\tt0", "s0.0"])  # the last line is told too
    with pytest.raises(DataError, match="1 bad line in .*a.tsv"):
        list(Shards([f"{tmp_path}/a.tsv"], on_bad_line="refuse"))
    write_lines(tmp_path / "a.tsv", ["s0.0"])
    with pytest.raises(DataError, match="No usable pair in 1 shards: 1 bad line in .*a.tsv"):
        Shards([f"{tmp_path}/a.tsv"]).sample(2)


@pytest.mark.parametrize("name", ["b.tsv.gz", "c.tfrecord"])
def test_a_truncated_shard_is_told(folder, tmp_path, name):
    whole = (folder / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
    (tmp_path / "a.tsv").write_bytes((folder / "a.tsv").read_bytes())
    with pytest.raises(DataError, match=f"{name} is damaged.*copy it again"):
        list(Shards([f"{tmp_path}/*"]))
    batches = make(tmp_path, sample_pairs=20)
    with pytest.raises(tf.errors.OpError, match=f"DataError: .*{name} is damaged"):
        arrays(batches.epoch(0))


def test_shards_that_are_no_files_are_refused(folder, tmp_path):
    with pytest.raises(DataError, match="No file matches .*nothing"):
        Shards([f"{folder}/a.tsv", f"{folder}/nothing*"])
    with pytest.raises(DataError, match=f"No file matches {re.escape(str(folder))}. Name"):
        Shards([str(folder)])
    (tmp_path / "empty.tfrecord").touch()
    with pytest.raises(DataError, match="empty.tfrecord is empty"):
        list(Shards([f"{tmp_path}/*"]))
    assert len(Shards([f"{folder}/*", f"{folder}/a.tsv"]).paths) == 3


@pytest.mark.parametrize("buffer", [1, 700, 5000])
def test_the_buffer_keeps_every_pair(tmp_path, buffer):
    pairs = [(f"s{n}", f"t{n}") for n in range(2500)]
    write_lines(tmp_path / "a.tsv", map("\t".join, pairs))
    chunks = list(Shards([f"{tmp_path}/a.tsv"]).read_shuffled(3, buffer))
    found = [pair for chunk in chunks for pair in zip(*chunk, strict=True)]
    assert sorted(found) == sorted(pairs)
    assert (found == pairs) == (buffer == 1)
