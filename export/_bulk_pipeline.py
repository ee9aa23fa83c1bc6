"""The Apache Beam pipeline of bulk translation: read, sort into batches, answer, write.

Workers import this module, so that all they run is found by name.
"""

import codecs
import dataclasses
import gzip
import json
import posixpath
import zlib
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from keras_attention.export import _bulk_records
from keras_attention.export.serving._loaded_version import LoadedVersion
from keras_attention.export.serving.errors import convert_tensorflow_error

try:
    import apache_beam as beam
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.ml.inference.base import ModelHandler, RunInference
except ImportError:  # of the extra `beam`; the command reports that it is missing
    beam, ModelHandler = None, object

MAX_BATCH_BYTES = 2**18  # of the texts in a batch
COUNTS_FILE = "counts.json"  # written with the other output files, in any order
CHUNK = 1024  # records that are read at a time


@dataclasses.dataclass(frozen=True)
class BulkJob:
    """One bulk translation.

    Attributes:
        version: Directory of the exported version, as the workers see it.
        signature: Name of the signature.
        columns: Name and dtype of each input.
        files: The input files.
        n_best: Number of hypotheses to write; None for all.
        batch_size: Largest number of lines in a batch.
        max_line_bytes: Longer texts fail.
        num_shards: Number of output files; 0 to let the runner choose.
        num_threads: Threads of TensorFlow in each process; 0 for as many as there are cores.
    """

    version: str
    signature: str
    columns: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    n_best: int | None = None
    batch_size: int = 64
    max_line_bytes: int = 2**16
    num_shards: int = 0
    num_threads: int = 0


class VersionHandler(ModelHandler):
    """Loads a version once in each worker process and answers batches of lines.

    Args:
        job: The `BulkJob`.
    """

    def __init__(self, job: BulkJob):
        super().__init__()
        self.job = job

    def load_model(self) -> LoadedVersion:
        """Returns the version, loaded as a server loads it."""
        threads = self.job.num_threads
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
        )
        return LoadedVersion(self.job.version, config=config)

    def run_inference(self, batch, model, inference_args=None) -> Iterable[tuple[bool, bytes]]:
        """Returns an answer or a failure for each line, see `run_lines`."""
        job = self.job
        return _bulk_records.run_lines(
            lambda inputs: model.run(job.signature, inputs), batch, job.columns, job.n_best
        )


def add_steps(pipeline, job: BulkJob, folder: str) -> None:
    """Adds the steps of `job` to a pipeline, which writes to `folder`.

    Raises:
        ValueError: While the pipeline runs, if a line is missing from the outputs or is in them
            twice.
    """
    lines, unread, counts = (
        pipeline
        | "files" >> beam.Create(job.files)
        | "read" >> beam.FlatMap(_read_lines, job).with_outputs("unread", "count", main="lines")
    )
    answered, failed = (
        lines
        | beam.Reshuffle()
        | beam.transforms.util.SortAndBatchElements(
            1, job.batch_size, MAX_BATCH_BYTES, element_size_fn=_count_bytes
        )
        | RunInference(VersionHandler(job).with_no_batching())
        | "split" >> beam.Partition(lambda result, _: 0 if result[0] else 1, 2)
    )
    answered = answered | "answers" >> beam.Values()
    failed = (failed | "failures" >> beam.Values(), unread) | "all failures" >> beam.Flatten()
    _write(answered, folder, "output", job.num_shards)
    _write(failed, folder, "failed", 1)
    answered, failed = (
        part | f"count {name}" >> beam.combiners.Count.Globally()
        for name, part in (("answered", answered), ("failed", failed))
    )
    counts = counts | "count lines" >> beam.CombineGlobally(sum)
    named = (
        part | f"name {name}" >> beam.Map(lambda count, name: (name, count), name)
        for name, part in (("lines", counts), ("answered", answered), ("failed", failed))
    )
    _ = (
        tuple(named)
        | "counts" >> beam.Flatten()
        | beam.combiners.ToDict()
        | "check counts" >> beam.Map(_format_counts)
        | "write counts"
        >> beam.io.WriteToText(
            posixpath.join(folder, COUNTS_FILE), num_shards=1, shard_name_template=""
        )
    )


def find_files(patterns: Sequence[str]) -> tuple[str, ...]:
    """Returns the files that match the patterns, sorted, each once.

    The name of an existing file stands for that file alone, even if it contains `*`, `?` or `[`.

    Raises:
        FileNotFoundError: If a pattern matches no file.
    """
    found = {path for path in patterns if not path.endswith("/") and FileSystems.exists(path)}
    patterns = [pattern for pattern in patterns if pattern not in found]
    for pattern, match in zip(patterns, FileSystems.match(patterns), strict=True):
        if not match.metadata_list:
            raise FileNotFoundError(f"No file matches {pattern}.")
        found.update(metadata.path for metadata in match.metadata_list)
    return tuple(sorted(found))


def _read_lines(path, job) -> Iterator:
    """Yields the lines of a file, its failures under "unread", and their number under "count"."""
    is_record = ".tfrecord" in posixpath.basename(path)
    parse = _bulk_records.parse_example if is_record else _bulk_records.parse_text
    number = 0
    for content in _read_records(path) if is_record else _read_text(path):
        number += 1
        try:
            values = parse(content, job.columns, job.max_line_bytes)
        except ValueError as error:
            failure = _bulk_records.format_failure(path, number, content, str(error))
            yield beam.pvalue.TaggedOutput("unread", failure)
        else:
            yield path, number, values
    yield beam.pvalue.TaggedOutput("count", number)


def _read_text(path):
    """Yields the lines of a text file, with their line endings, without a byte order mark."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        try:
            for number, line in enumerate(gzip.open(file) if path.endswith(".gz") else file):
                yield line if number else line.removeprefix(codecs.BOM_UTF8)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} is damaged: {error}") from error


def _read_records(path):
    """Yields the records of a TFRecord file."""
    dataset = tf.data.TFRecordDataset(path, "GZIP" if path.endswith(".gz") else "")
    try:
        for records in dataset.batch(CHUNK).as_numpy_iterator():
            yield from records
    except tf.errors.OpError as error:
        raise ValueError(f"{path} is damaged: {convert_tensorflow_error(error).message}") from error


def _count_bytes(line):
    return sum(len(value) for value in line[2] if isinstance(value, bytes))


def _write(records, folder, name, num_shards):
    records | f"write {name}" >> beam.io.WriteToText(
        posixpath.join(folder, name), file_name_suffix=".jsonl", num_shards=num_shards
    )


def _format_counts(counts):
    if counts["lines"] != counts["answered"] + counts["failed"]:
        raise ValueError(f"Lines were lost or repeated: {counts}")
    return json.dumps(counts)
