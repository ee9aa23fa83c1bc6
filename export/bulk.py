"""Translates or scores files: `python -m keras_attention.export.bulk EXPORT INPUT... OUTPUT`."""

import argparse
import contextlib
import json
import pathlib
import posixpath
import signal
import sys
import threading
from collections.abc import Iterator

from keras_attention import validation
from keras_attention.data.atomic_files import create_directory
from keras_attention.export import _bulk_pipeline, _saved_model_file, versions
from keras_attention.export._argparse_types import positive_int, positive_int_up_to
from keras_attention.export._bulk_records import has_n_best, list_columns
from keras_attention.export._digest_manifest import find_manifest_problems
from keras_attention.export._exception_summary import summarize_error
from keras_attention.export.serving._loaded_version import INITIALIZATION_SIGNATURE

SUMMARY = "summary.json"
MAX_PROCESSES = 1024
DESCRIPTION = """\
Answers every line of text or TFRecord files (also .gz) with an exported version, on one machine or,
with the options of Apache Beam, on Flink, Spark or Dataflow. OUTPUT is a new folder with

  output-*.jsonl   a JSON object for each line that was answered, with its file and line number
  failed-*.jsonl   the others, with the reason
  summary.json     the counts of both; it is written once all lines are done

Answers are in no particular order. A line is a text; for a signature with several inputs it has a
column for each, separated by tabs: text<TAB>target for score. A TFRecord file, whose name contains
".tfrecord", holds tf.train.Examples with a feature for each input."""
EPILOG = """\
examples:
  python -m keras_attention.export.bulk served/de-en 'texts/*.gz' answers --processes 4
  python -m keras_attention.export.bulk served/de-en pairs.tsv scores --signature score
  python -m keras_attention.export.bulk /shared/de-en /shared/in.txt /shared/out -- \\
    --runner FlinkRunner --flink_master host:8081 --environment_type EXTERNAL ..."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 1 on failure; exits with status 2 on wrong usage."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    place = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _make_parser()
    options = parser.parse_args(arguments[:place])
    beam_options = arguments[place + 1 :]
    try:
        import apache_beam  # noqa: F401
    except ImportError:
        error = validation.missing_package_error("Bulk translation", "apache-beam", "beam")
        parser.error(str(error))
    try:
        job = make_job(options)
        with create_output(options.output) as folder:
            counts = _run(job, folder, options.processes, beam_options)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"error: {summarize_error(error)}", file=sys.stderr)
        return 1
    failures = f"; see {posixpath.join(options.output, 'failed-*.jsonl')}" * bool(counts["failed"])
    print(
        f"{counts['lines']:,} lines of {len(job.files):,} files: {counts['answered']:,} answered, "
        f"{counts['failed']:,} failed{failures}."
    )
    return 0


def make_job(options: argparse.Namespace) -> _bulk_pipeline.BulkJob:
    """Returns the job of the command line, after checking the version and the inputs.

    Raises:
        FileNotFoundError: If there is no exported version, or a pattern matches no file.
        ValueError: If the version is damaged, has no signature of this name for lines, or `n_best`
            is given and the signature returns no n-best.
    """
    version = _find_version(options.export)
    _saved_model_file.read_bytes(version)
    if problems := find_manifest_problems(version):
        raise ValueError(f"{version} is damaged: {'; '.join(problems)}")
    signatures = dict(_saved_model_file.read_meta_graph(version).signature_def)
    signatures.pop(INITIALIZATION_SIGNATURE, None)
    name = options.signature
    if name not in signatures:
        known = ", ".join(sorted(signatures))
        raise ValueError(f"{version} has no signature {name}. It has: {known}")
    try:
        columns = list_columns(signatures[name])
    except ValueError as error:
        raise ValueError(f"{version}: signature {name} does not take lines: {error}.") from None
    shapes = {
        key: [dim.size for dim in info.tensor_shape.dim[1:]]
        for key, info in signatures[name].outputs.items()
    }
    if options.n_best is not None and not has_n_best(shapes):
        raise ValueError(
            f"--n-best is for signatures that return an n-best. Received: {name}, which returns "
            f"{', '.join(sorted(shapes))}"
        )
    return _bulk_pipeline.BulkJob(
        str(version),
        name,
        tuple(columns),
        _bulk_pipeline.find_files(options.inputs),
        options.n_best,
        options.batch_size,
        options.max_line_bytes,
        options.shards or 0,
        options.threads or 0,
    )


def _find_version(path):
    """Returns the version in `path`, or the highest one if it is the directory of a model."""
    existing = versions.find_versions(path)
    if existing and not (path / "saved_model.pb").exists():
        return existing[max(existing)].resolve()
    return path.resolve()


@contextlib.contextmanager
def create_output(path: str) -> Iterator[str]:
    """Yields the folder to write to; `path` exists afterwards, unless there was an exception.

    A folder of a remote file system, such as `gs://bucket/folder`, is written to directly: there
    `summary.json` alone says that it is complete.

    Raises:
        FileExistsError: If `path` exists, or there are files in it.
    """
    if "://" in path:
        from apache_beam.io.filesystems import FileSystems

        if FileSystems.match([posixpath.join(path, "*")])[0].metadata_list:
            raise FileExistsError(f"{path} exists already. Choose another folder.")
        yield path
        return
    path = pathlib.Path(path).absolute()
    if path.exists():
        raise FileExistsError(f"{path} exists already. Choose another folder.")
    with create_directory(path) as folder:
        yield str(folder)


def _run(job, folder, processes, beam_options):
    """Runs the pipeline and returns the numbers of lines.

    Raises:
        RuntimeError: If the pipeline fails, for example because a worker process was killed.
    """
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    flags = ["--runner=FnApiRunner", "--default_sdk_harness_log_level=WARNING"]
    if processes > 1:
        flags += [f"--direct_num_workers={processes}", "--direct_running_mode=multi_processing"]
    try:
        with (
            _end_with_workers(),
            beam.Pipeline(options=PipelineOptions([*flags, *beam_options])) as pipeline,
        ):
            _bulk_pipeline.add_steps(pipeline, job, folder)
    except Exception as error:  # a runner raises errors of any kind
        raise RuntimeError(
            f"The pipeline failed and the output is not complete: {summarize_error(error)}"
        ) from error
    summary = posixpath.join(folder, SUMMARY)
    FileSystems.rename([posixpath.join(folder, _bulk_pipeline.COUNTS_FILE)], [summary])
    with FileSystems.open(summary) as file:
        return json.load(file)


@contextlib.contextmanager
def _end_with_workers():
    """Raises the error of the thread that waits for a worker process, once that has ended.

    Beam only notices the end of a worker that had connected. It would wait forever for any other.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can be interrupted
        return
    errors, has_ended, hook_before = [], threading.Event(), threading.excepthook

    def hook(arguments):
        hook_before(arguments)
        if "Worker subprocess exited" in str(arguments.exc_value):
            errors.append(arguments.exc_value)
            while not has_ended.wait(1):  # Beam's own cleaning up may wait for the worker too
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def interrupt(number, frame):
        raise RuntimeError(str(errors[0])) from errors[0]

    handler_before = signal.signal(signal.SIGUSR1, interrupt)
    threading.excepthook = hook
    try:
        yield
    finally:
        has_ended.set()
        threading.excepthook = hook_before
        signal.signal(signal.SIGUSR1, handler_before)


def _make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export.bulk",
        usage="%(prog)s EXPORT INPUT... OUTPUT [options] [-- options of Apache Beam]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "exported version, or the base directory of a model for its highest version"
    parser.add_argument("export", metavar="EXPORT", type=pathlib.Path, help=text)
    text = "file, or a pattern in quotes such as 'texts/*.gz'"
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help=text)
    parser.add_argument("output", metavar="OUTPUT", help="folder to write; it must not exist")

    def option(name, kind, metavar, default, text):
        parser.add_argument(name, type=kind, metavar=metavar, default=default, help=text)

    text = "signature, such as greedy, translate_with_alignment or score (default: %(default)s)"
    option("--signature", str, "NAME", "serving_default", text)
    option("--n-best", positive_int, "N", None, "hypotheses of an n-best to write (default: all)")
    text = "worker processes on this machine, each with a model of its own (default: %(default)s)"
    option("--processes", positive_int_up_to(MAX_PROCESSES), "N", 1, text)
    text = "threads of TensorFlow in each process (default: number of CPU cores)"
    option("--threads", positive_int_up_to(MAX_PROCESSES), "N", None, text)
    option("--batch-size", positive_int, "N", 64, "lines in a batch (default: %(default)s)")
    text = "longer lines, and longer texts of a TFRecord, fail (default: %(default)s)"
    option("--max-line-bytes", positive_int, "N", 2**16, text)
    option("--shards", positive_int, "N", None, "output files (default: the runner chooses)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
