"""Exports a run for TensorFlow Serving: `python -m keras_attention.export RUN_DIR BASE_DIR`.

`python -m keras_attention.export --validate PATH` reports the problems of a version.
"""

import argparse
import pathlib
import sys

import tensorflow as tf

from keras_attention.export import runs
from keras_attention.export._argument_types import positive_int
from keras_attention.export._exception_summary import summarize_error
from keras_attention.export._manifest import MANIFEST_FILE, write_manifest
from keras_attention.export.compilation import XLABuckets
from keras_attention.export.model_export import export_model
from keras_attention.export.search_arguments import add_search_arguments, make_search_options
from keras_attention.export.translator_export import export_translator
from keras_attention.export.validate import validate_export
from keras_attention.kernels.products import PRECISIONS

XLA_OPTIONS = {"--xla-batch-sizes", "--xla-source-lengths", "--xla-precision", "--parallel-splits"}
ANY_MODEL_OPTIONS = ("--version", "--name", "--dtype", "--quantization")  # not of translators alone
DESCRIPTION = """\
Exports a trained run as a SavedModel version for TensorFlow Serving, BASE_DIR/<version>.
A translator takes text and returns n-best text with scores and alignments; another model keeps
its inputs and outputs. The version appears after it is complete and its warm-up requests have
run, so a server may be watching BASE_DIR. With --validate PATH the command checks a version's
compatibility with TensorFlow Serving, prints the problems, and exits with 1 if there are any."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 0, 1 on failure, 2 on wrong usage."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    given = _list_given_options(parser, arguments, options)
    alone = [name for name in ("--validate", "--write-manifest") if name in given]
    if not alone and options.base is None:
        parser.error("the following arguments are required: RUN_DIR, BASE_DIR")
    if alone and (options.run is not None or given != alone[:1]):
        parser.error(f"argument {alone[0]}: not allowed with other arguments")
    if not options.xla:
        for name in XLA_OPTIONS.intersection(given):
            parser.error(f"argument {name}: requires --xla")
    try:
        if options.validate is not None:
            return _validate(options.validate)
        if options.write_manifest is not None:
            return _write_manifest(options.write_manifest)
        path = _export(options, given)
    except (OSError, ValueError, tf.errors.OpError) as error:
        print(f"error: {summarize_error(error)}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Exported {options.run} to {path} ({size / 1e6:.1f} MB).")
    print(f"Model card: {path / 'assets.extra' / 'model_card.md'}")
    return 0


def _list_given_options(parser, arguments, options):
    """Returns the names of the options in `arguments`, those with default values included."""
    absent = object()
    parsed = argparse.Namespace(**dict.fromkeys(vars(options), absent))
    parser.parse_args(arguments, parsed)
    names = [name for name, value in vars(parsed).items() if value is not absent]
    return [f"--{name.replace('_', '-')}" for name in names if name not in ("run", "base")]


def _validate(path):
    problems = validate_export(path)
    print("\n".join(problems) if problems else f"{path} is fine.")
    return 1 if problems else 0


def _write_manifest(path):
    if not (path / "saved_model.pb").is_file():
        raise FileNotFoundError(f"{path} is not an exported version: it has no saved_model.pb.")
    write_manifest(path)
    print(f"Wrote {path / MANIFEST_FILE}.")
    return 0


def _export(options, given):
    run = runs.read_run(options.run, options.dtype)
    if options.quantization is not None:
        runs.quantize_model(run.model, options.quantization)
    shared = {"version": options.version, "name": options.name, "run": run.settings}
    if run.source_tokenizer is None:
        translator_options = [name for name in given if name not in ANY_MODEL_OPTIONS]
        if translator_options:
            raise ValueError(
                f"The run in {options.run} is a {run.settings['model']}, not a translator: it "
                f"has no search and no length limits. Received: {', '.join(translator_options)}"
            )
        return export_model(run.model, options.base, **shared)
    return export_translator(
        run.model,
        options.base,
        source=run.source_tokenizer,
        target=run.target_tokenizer,
        search=make_search_options(options, run),
        xla=_make_xla_buckets(options),
        **shared,
    )


def _make_xla_buckets(options):
    if not options.xla:
        return None
    return XLABuckets(
        tuple(options.xla_batch_sizes),
        tuple(options.xla_source_lengths),
        options.xla_precision,
        options.parallel_splits,
    )


def _make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, metavar, text in (
        ("run", "RUN_DIR", "directory of a trained run"),
        ("base", "BASE_DIR", "the model's base directory; created if it does not exist"),
    ):
        parser.add_argument(name, metavar=metavar, type=pathlib.Path, nargs="?", help=text)
    parser.add_argument(
        "--validate", metavar="PATH", type=pathlib.Path, help="check this version; write nothing"
    )
    parser.add_argument(
        "--write-manifest",
        metavar="PATH",
        type=pathlib.Path,
        help="write the manifest of a version without one, or with files changed on purpose",
    )

    parser.add_argument(
        "--dtype",
        choices=("float32",),
        help="compute in this dtype instead of the dtype of the training (faster with --xla)",
    )

    parser.add_argument(
        "--quantization",
        choices=runs.QUANTIZATIONS,
        help="store kernels and embeddings in this dtype: files of about a quarter of the size",
    )
    text = "version to write (default: the next one)"
    parser.add_argument("--version", type=positive_int, metavar="N", help=text)
    text = "name in the server (default: the name of BASE_DIR)"
    parser.add_argument("--name", metavar="NAME", help=text)
    add_search_arguments(parser)
    parser.add_argument(
        "--xla",
        action="store_true",
        help="compile the searches with XLA: faster, but the server needs "
        "--xla_cpu_compilation_enabled",
    )
    defaults = XLABuckets()
    for name, sizes, text in (
        ("--xla-batch-sizes", defaults.batch_sizes, "batch sizes"),
        ("--xla-source-lengths", defaults.source_lengths, "source lengths, EOS included,"),
    ):
        parser.add_argument(
            name,
            type=positive_int,
            metavar="N",
            nargs="+",
            default=sizes,
            help=f"{text} to compile for (default: {' '.join(map(str, sizes))})",
        )
    parser.add_argument(
        "--xla-precision",
        choices=PRECISIONS,
        default=defaults.precision,
        help="precision of products with kernels; bfloat16 is faster on processors that have it, "
        "and its scores are accurate to about three digits (default: %(default)s)",
    )
    parser.add_argument(
        "--parallel-splits",
        type=positive_int,
        metavar="N",
        default=defaults.split,
        help="parts of a batch to search in parallel, of at least 16 examples each; 2 is faster on "
        "two cores (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
