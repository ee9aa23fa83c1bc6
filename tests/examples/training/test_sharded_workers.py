"""Shards on several workers: each takes its own rows, none is read twice, all train as one."""

import json

import numpy as np
import pytest
from worker_processes import TRANSLATOR, Started, read_history, start_workers

WORDS = "zero one two three four five six seven eight nine".split()
# Digits in words and in figures: targets are equally long, so that workers weigh the same.
PAIRS = [
    (" ".join(WORDS[int(digit)] for digit in f"{n:03}"), " ".join(f"{n:03}")) for n in range(100)
]
# Every worker writes the texts of its own rows, batch by batch.
PROGRAM = """
import json, sys
from examples.training.workers import Workers, make_strategy
strategy = make_strategy("multi-worker")
import tensorflow as tf
from examples.data.batches import Batches
from examples.data.shards import ShardBatches, Shards
from examples.training.distribution import distribute
from keras_attention.export import tokenizers

shards = Shards([sys.argv[1]])
sample, _ = shards.sample(100)
sides = [tokenizers.train("words", side) for side in zip(*sample)]
like = Batches.from_pairs(sample, *sides, batch_size=12, max_shapes=1, seed=3, decoder_start_id=3)
batches = ShardBatches(shards, *sides, like, epoch_batches=8, shuffle_buffer=30)

def read(rows):
    return [text.decode() for text in sides[0].decode(tf.constant(rows)).numpy()]

whole = [read(inputs["source"]) for inputs, _ in batches.epoch(1)]
own = []
for inputs, _ in distribute(strategy, batches.epoch(1)):
    (rows,) = strategy.experimental_local_results(inputs["source"])
    own.append(read(rows))
Workers(strategy).wait()
print(json.dumps([whole, own]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pairs in four shards, and some of them as validation data."""
    folder = tmp_path_factory.mktemp("shards")
    for number in range(4):
        lines = ["\t".join(pair) + "\n" for pair in PAIRS[number::4]]
        (folder / f"{number}.tsv").write_text("".join(lines))
    (folder / "validation.txt").write_text("".join("\t".join(pair) + "\n" for pair in PAIRS[:24]))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_each_worker_takes_its_own_rows_and_none_twice(folder, tmp_path, count):
    outputs = [tmp_path / f"{index}.txt" for index in range(count)]
    processes = start_workers(["-c", PROGRAM, f"{folder}/*.tsv"], outputs)
    assert [process.wait(200) for process in processes] == [0] * count, outputs[0].read_text()
    told = [json.loads(output.read_text().splitlines()[-1]) for output in outputs]
    (whole, _), (last, _) = told[0], told[-1]
    assert whole == last, "all make the same batches"
    joined = [
        [row for rows in zip(*parts, strict=True) for row in rows]
        for parts in zip(*(own for _, own in told), strict=True)
    ]
    assert joined == whole
    read = sum(whole, [])
    assert len(read) == len(set(read)) == 8 * 12
    assert set(read) < {source for source, _ in PAIRS}


@pytest.mark.slow
def test_two_workers_on_shards_equal_one_process(folder, tmp_path):
    options = (*TRANSLATOR, "--shards", f"{folder}/*.tsv", "--batch-size", "12")
    options = (*options, "--validation-pairs", str(folder / "validation.txt"), "--epochs", "2")
    options = (*options, "--epoch-batches", "8", "--dropout", "0", "--tokenizer", "words")
    for name, count in (("one", 1), ("two", 2)):
        statuses, told = Started(tmp_path / name, options, count).ends()
        assert statuses == [0] * count, told
    alone, together = (read_history(tmp_path / name) for name in ("one", "two"))
    assert len(alone) == 2
    for one, two in zip(alone, together, strict=True):
        for name in one:
            np.testing.assert_allclose(two[name], one[name], rtol=1e-4, err_msg=name)
