"""Corpora larger than memory: shards of pairs, read as a stream.

A shard is a text file, plain or gzip, whose lines are `source<TAB>target`, or a TFRecord file,
`*.tfrecord`, of `tf.train.Example`s with the bytes features `source` and `target`.
"""

import glob
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from examples.data import parallel
from examples.data.batches import Batches
from examples.data.encoding import END_ID
from examples.data.order import frozen_draw
from examples.data.report import DataError, Report
from keras_attention import validation
from keras_attention.data import ResumableDataset

#: Pairs that are read and tokenized at a time.
CHUNK = 1024
MAX_CHUNKS = 2**62  # there is no limit
#: Texts with more characters are left out.
MAX_CHARACTERS = 2000


class Shards:
    """The pairs of several files, which are not kept.

    Args:
        patterns: Names of files, or patterns such as `"data/*.tsv.gz"`. The shards are sorted by
            name; a file that several patterns match is read once.
        form: The form of the lines of text, one of `parallel.FORMATS`.
        on_bad_line: `"skip"` leaves bad lines out, `"refuse"` raises where one is read.

    Attributes:
        paths: The files.
        report: The `Report` of what was read.

    Raises:
        DataError: If a pattern matches no file. Those who read: if a shard cannot be read, is
            damaged or empty, or if a line is bad and `on_bad_line` is `"refuse"`.
    """

    def __init__(
        self, patterns: Iterable[str], form: str = "tsv", on_bad_line: str = "skip"
    ) -> None:
        self.paths = sorted({path for pattern in patterns for path in _find(pattern)})
        self.form, self.on_bad_line, self.report = form, on_bad_line, Report()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return itertools.chain.from_iterable(map(self.read, self.paths))

    def read(self, path: str) -> Iterator[tuple[str, str]]:
        """Yields the texts of each pair of a shard."""
        is_text = not path.endswith(".tfrecord")
        rows = parallel.rows_of(path, self.form) if is_text else _records(path)
        missing = parallel.no_pair(self.form)
        pairs = parallel.usable_pairs(rows, (path, path), MAX_CHARACTERS, missing, self.report)
        for _, pair in itertools.chain(pairs, [(0, None)]):  # the last line may be bad too
            if self.on_bad_line == "refuse":
                self.report.refuse(path)
            if pair is not None:
                yield pair

    def read_shuffled(self, seed: int, buffer: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields arrays of sources and targets: all pairs once, in an order of `seed` alone.

        The shards come in a random order. Each pair is drawn from a buffer, where the next one of
        the shards takes its place. `tf.data.Dataset.shuffle` does the same, but depends on the
        global seed of TensorFlow too.
        """
        draw = frozen_draw(int(seed))
        paths = [self.paths[place] for place in draw.permutation(len(self.paths))]
        pairs = itertools.chain.from_iterable(map(self.read, paths))
        waiting = list(itertools.islice(pairs, buffer))
        while chunk := list(itertools.islice(pairs, CHUNK)):
            places = draw.randint(0, len(waiting), len(chunk))
            for number, place in enumerate(places.tolist()):
                waiting[place], chunk[number] = chunk[number], waiting[place]
            yield _columns(chunk)
        waiting = [waiting[place] for place in draw.permutation(len(waiting))]
        for start in range(0, len(waiting), CHUNK):
            yield _columns(waiting[start : start + CHUNK])

    def digest(self) -> str:
        """Returns a string that changes with the number and the sizes of the shards."""
        sizes = [os.path.getsize(path) for path in self.paths]
        return hashlib.sha256(str(sizes).encode()).hexdigest()

    def sample(self, count: int) -> tuple[list[tuple[str, str]], Report]:
        """Returns the first pairs and their report, which the report of the shards leaves out."""
        pairs = list(itertools.islice(self, count))
        report, self.report = self.report, Report()
        if not pairs:
            told = report.describe(self.paths[0])
            raise DataError(f"No usable pair in {len(self.paths):,} shards: {told}.")
        return pairs, report


class ShardBatches:
    """Batches of shards, a pass after another; see `examples.training.batches`.

    Shards and pairs of an epoch come in an order that depends on the seed and the epoch alone.
    Pairs are shuffled within a buffer. A pass makes every pair once, as `Batches` does, and fills
    its last batch of each shape with empty rows, and so does an epoch: no pair waits in vain. An
    epoch that is longer than a pass goes on with another one, in a different order.

    Args:
        shards: The `Shards`.
        source_tokenizer, target_tokenizer: Tokenizers with `encode(texts) -> ids, lengths`.
        sample: `Batches` of the first pairs, whose shapes, seed and `decoder_start_id` these have.
            The largest shape holds the longest source and the longest target of the sample. Longer
            pairs are left out and counted.
        epoch_batches: Positive int, batches in an epoch.
        shuffle_buffer: Positive int, pairs among which the next one is drawn.
        batch_tokens: That of `sample`.

    Attributes:
        report: The `Report` of the pairs left out after tokenization.
    """

    def __init__(
        self,
        shards: Shards,
        source_tokenizer,
        target_tokenizer,
        sample: Batches,
        epoch_batches: int,
        shuffle_buffer: int = 20_000,
        batch_tokens: int | None = None,
    ) -> None:
        owner = "ShardBatches"
        self._epoch_batches = validation.check_positive_int(owner, "epoch_batches", epoch_batches)
        self._shuffle_buffer = validation.check_positive_int(
            owner, "shuffle_buffer", shuffle_buffer
        )
        self.shards, self.seed, self._first_id = shards, sample.seed, sample.decoder_start_id
        self._sample_digest = sample.digest()
        self._tokenizers, self.report = (source_tokenizer, target_tokenizer), Report()
        *shapes, (rows, *_) = sorted(sample.shapes(), key=lambda shape: sum(shape[1:]))
        longest = [max(lengths) for lengths in list(zip(*sample.shapes(), strict=True))[1:]]
        rows = rows if batch_tokens is None else batch_tokens // max(longest)
        self._shapes = [*shapes, (rows, *longest)]
        self._chunks = ResumableDataset(self._make_epoch, MAX_CHUNKS, self.seed)

    def shapes(self) -> list[tuple[int, int, int]]:
        """Returns the `(rows, source, target)` shapes that an epoch may take."""
        return list(self._shapes)

    def batches_per_epoch(self, epoch: int = 0) -> int:
        """Returns the number of batches, the same in every epoch."""
        return self._epoch_batches

    def epoch(self, number: int, start: int = 0) -> tf.data.Dataset:
        """Returns the batches of an epoch, as `Batches.epoch` does, from batch `start` on.

        One epoch is read at a time. The batches before `start` are made and skipped.
        """

        def read():
            self._chunks.seek(number, 0)
            chunks = self._chunks.dataset.as_numpy_iterator()
            return itertools.islice(self.assemble(chunks, self._epoch_batches), start, None)

        ids = tf.TensorSpec([None, None], tf.int32)
        signature = ({"source": ids, "target": ids}, ids)
        with tf.device("CPU"):  # the pipeline runs there, whatever the model runs on
            return tf.data.Dataset.from_generator(read, output_signature=signature)

    def digest(self) -> str:
        """Returns a string that changes with the sample, and with the sizes of the shards."""
        return f"{self._sample_digest} {self.shards.digest()}"

    def __str__(self) -> str:
        return (
            f"{len(self.shards.paths):,} shards, epochs of {self.batches_per_epoch():,} batches of "
            f"{len(self._shapes)} shapes"
        )

    def _make_epoch(self, seed):
        seed = seed // 2  # a sum with it is no larger than an int64
        return tf.data.Dataset.counter().flat_map(lambda number: self.make_pass(seed + number))

    def make_pass(self, seed: tf.Tensor) -> tf.data.Dataset:
        """Returns all pairs in the order of an int64 scalar, in chunks.

        Returns:
            Dataset of `(source, target, shapes)`: ids `(pairs, length)` that end with the end id,
            and the place of each pair's shape in `shapes()`.
        """
        texts = (tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string))
        chunks = tf.data.Dataset.from_generator(
            self.shards.read_shuffled, output_signature=texts, args=(seed, self._shuffle_buffer)
        )
        return chunks.map(self._encode, tf.data.AUTOTUNE, deterministic=True)

    def assemble(
        self, chunks: Iterable[tuple[np.ndarray, ...]], limit: int | None = None
    ) -> Iterator[tuple]:
        """Yields a batch whenever there are enough pairs of its shape, at the end the rest.

        `tf.data.Dataset.bucket_by_sequence_length` does the same at several times the cost, see
        docs/performance.md.

        Args:
            chunks: What `make_pass` returns, as NumPy arrays.
            limit: Number of batches, with the rests; None for a batch of every pair.
        """
        waiting = [
            [np.zeros([0, length], np.int32) for length in lengths] for _, *lengths in self._shapes
        ]
        num_batches = 0  # with those that wait for more pairs
        fewest = min(rows for rows, *_ in self._shapes)
        for chunk in chunks:
            size = len(chunk[-1])
            most = num_batches + size // fewest + len(self._shapes)
            step = 1 if limit is not None and most > limit else size  # near the limit one by one
            for start in range(0, size, max(step, 1)):
                *sides, numbers = (part[start : start + step] for part in chunk)
                for number in np.unique(numbers):
                    is_new = not len(waiting[number][0])
                    if is_new and num_batches == limit:
                        yield from self._fill(waiting)
                        return
                    new = [ids[numbers == number] for ids in sides]
                    new = [_join(*pair) for pair in zip(waiting[number], new, strict=True)]
                    rows = self._shapes[number][0]
                    num_batches += is_new + (len(new[0]) - 1) // rows
                    while len(new[0]) >= rows:
                        yield self._make_batch([ids[:rows] for ids in new])
                        new = [ids[rows:] for ids in new]
                    waiting[number] = new
        yield from self._fill(waiting)

    def _fill(self, waiting):
        """Yields the pairs that wait, filled up with empty rows."""
        for (rows, *_), rest in zip(self._shapes, waiting, strict=True):
            if len(rest[0]):
                empty = [[0, rows - len(rest[0])], [0, 0]]
                yield self._make_batch([np.pad(ids, empty) for ids in rest])

    def _make_batch(self, sides):
        source, labels = sides
        first = np.full_like(labels[:, :1], self._first_id)
        shifted = np.concatenate([first, labels[:, :-1]], axis=1)  # the end id is no input
        return {"source": source, "target": np.where(labels > 0, shifted, 0)}, labels

    def _encode(self, *texts):
        """Returns ids that end with the end id, and the shape of each pair that has one."""
        (source, source_lengths), (target, target_lengths) = (
            _close(*tokenizer.encode(side))
            for tokenizer, side in zip(self._tokenizers, texts, strict=True)
        )
        is_empty = (source_lengths == 1) | (target_lengths == 1)
        _, longest_sources, longest_targets = zip(*self._shapes, strict=True)
        fits = (source_lengths[:, None] <= tf.constant(longest_sources)) & (
            target_lengths[:, None] <= tf.constant(longest_targets)
        )
        is_kept = ~is_empty & tf.reduce_any(fits, axis=1)
        numbers = tf.argmax(tf.cast(fits, tf.int32), axis=1, output_type=tf.int32)
        counts = [is_kept, is_empty, ~is_empty & ~is_kept]
        counts = [tf.reduce_sum(tf.cast(flags, tf.int32)) for flags in counts]
        counted = tf.numpy_function(self._count, counts, [])
        with tf.control_dependencies([counted]):
            return tuple(tf.boolean_mask(rows, is_kept) for rows in (source, target, numbers))

    def _count(self, num_kept, num_empty, num_long):
        self.report.used += int(num_kept)
        self.report.count("empty after tokenization", int(num_empty))
        self.report.count("longer than the sample after tokenization", int(num_long))


def _close(ids, lengths):
    """Returns ids with the end id behind each text, and their lengths with it."""
    ids = tf.pad(ids, [[0, 0], [0, 1]])
    ends = tf.one_hot(lengths, tf.shape(ids)[1], END_ID, dtype=ids.dtype)
    return ids + ends, lengths + 1


def _columns(pairs):
    return tuple(np.array(side, object) for side in zip(*pairs, strict=True))


def _join(waiting, new):
    """Returns rows behind others, as long as these; what is cut off is padding."""
    new = new[:, : waiting.shape[1]]
    missing = waiting.shape[1] - new.shape[1]
    return np.concatenate([waiting, np.pad(new, [[0, 0], [0, missing]])])


def _find(pattern):
    paths = [pattern] if os.path.isfile(pattern) else glob.glob(pattern)
    paths = [path for path in paths if os.path.isfile(path)]
    if not paths:
        raise DataError(
            f"No file matches {pattern}. Name the shards, or give a pattern in quotes such as "
            "'data/*.tsv.gz'."
        )
    return paths


def _records(path):
    """Yields the pair of each record of a TFRecord file; a feature that is missing is empty."""
    features = {side: tf.io.FixedLenFeature([], tf.string, "") for side in ("source", "target")}
    number = 0
    try:
        for records in tf.data.TFRecordDataset(path).batch(CHUNK):
            parsed = tf.io.parse_example(records, features)
            columns = (parsed[side].numpy() for side in features)
            for pair in zip(*columns, strict=True):
                number += 1
                yield [pair]
    except tf.errors.OpError as error:
        reason = error.message.split("}} ")[-1].split(" [Op:")[0]  # without the name of the op
        raise DataError(
            f"{path} is damaged, or holds no tf.train.Example with the bytes features source and "
            f"target ({reason}). Write or copy it again."
        ) from error
    if not number:
        raise DataError(f"{path} is empty. Give a file that holds something.")
