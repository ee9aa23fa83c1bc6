"""Pairs a second and memory of a corpus that is read from shards, without a training.

    python -m benchmarks.stream
    python -m benchmarks.stream --pairs 1000000 --shards 10

Writes shards of number words ("seven two one", "7 2 1"), plain text, into a temporary folder, then
reads a pass of them as `python -m examples train --shards` does: shuffled, tokenized and in batches
of a few shapes. Prints the resident memory of the process after each million pairs.
"""

import argparse
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf

from examples.data.batches import Batches
from examples.data.shards import ShardBatches, Shards
from keras_attention.export import tokenizers

MEGABYTE = 2**20
WORDS = "zero one two three four five six seven eight nine".split()


def write_shards(folder: pathlib.Path, num_shards: int, pairs_per_shard: int) -> None:
    """Writes pairs of two numbers of one to four digits, digit by digit in words and in figures."""
    generator = np.random.default_rng(1)
    figures = [" ".join(str(number)) for number in range(10_000)]
    words = [" ".join(WORDS[int(digit)] for digit in str(number)) for number in range(10_000)]
    for shard in range(num_shards):
        numbers = (10 ** generator.uniform(0, 4, (2, pairs_per_shard))).astype(int).tolist()
        with open(folder / f"{shard:05}.tsv", "w", encoding="utf-8") as file:
            for a, b in zip(*numbers, strict=True):
                file.write(f"{words[a]} {words[b]}\t{figures[a]} {figures[b]}\n")


def read_memory() -> float:
    """Returns the resident memory of this process in MB, as Linux reports it."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / MEGABYTE


def main() -> None:
    """Writes the shards, reads a pass and prints the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag, default in (("--pairs", 20_000_000), ("--shards", 100), ("--report-every", 10**6)):
        parser.add_argument(flag, type=int, default=default, metavar="N")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shards-") as name:
        folder = pathlib.Path(name)
        write_shards(folder, arguments.shards, arguments.pairs // arguments.shards)
        size = sum(path.stat().st_size for path in folder.iterdir()) / MEGABYTE
        print(f"{arguments.shards} shards, {size:,.0f} MB")
        shards = Shards([f"{folder}/*.tsv"])
        sample, _ = shards.sample(200_000)
        sides = [tokenizers.train("words", side) for side in zip(*sample, strict=True)]
        batches = ShardBatches(shards, *sides, Batches.from_pairs(sample, *sides), 1)
        del sample
        began, pairs, due, memory = time.monotonic(), 0, arguments.report_every, []
        chunks = batches.make_pass(tf.constant(1, tf.int64)).prefetch(tf.data.AUTOTUNE)
        for _, labels in batches.assemble(chunks.as_numpy_iterator()):
            pairs += int(np.count_nonzero(labels[:, 0]))
            if pairs >= due:
                memory.append(read_memory())
                seconds, due = time.monotonic() - began, due + arguments.report_every
                print(f"{pairs:,} pairs, {seconds:.0f} s, {memory[-1]:,.0f} MB", flush=True)
        seconds = time.monotonic() - began
        print(f"{pairs:,} pairs in {seconds:.0f} s, {pairs / seconds:,.0f} a second")
        if memory:
            print(f"most memory after the first report: {max(memory) - memory[0]:+,.1f} MB")


if __name__ == "__main__":
    main()
