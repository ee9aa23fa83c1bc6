"""Exports a run for TensorFlow Serving: `python -m keras_attention.export RUN_DIR BASE_DIR`.

`python -m keras_attention.export --validate PATH` reports the problems of a version.
"""

import argparse
import pathlib
import sys

import tensorflow as tf

from keras_attention.export import runs
from keras_attention.export._digest_manifest import MANIFEST_FILE, write_manifest
from keras_attention.export._exception_summary import summarize_error
from keras_attention.export.export_flags import (
    add_version_flags,
    add_xla_flags,
    make_xla_buckets,
)
from keras_attention.export.functional_model_export import export_model
from keras_attention.export.search_flags import add_search_flags, make_search_options
from keras_attention.export.translator_export import export_translator
from keras_attention.export.validate import validate_export

ANY_MODEL_OPTIONS = ("--version", "--name", "--dtype", "--quantization")  # of every kind of model
DESCRIPTION = """\
Exports a trained run as a SavedModel version for TensorFlow Serving, BASE_DIR/<version>.
A translator takes text and returns n-best text with scores and alignments; any other model
keeps its inputs and outputs. The version appears after it is complete and its warm-up requests have
run, so a server may be watching BASE_DIR. With --validate PATH the command checks a version's
compatibility with TensorFlow Serving, prints the problems, and exits with 1 if there are any."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 1 on failure; exits with status 2 on wrong usage."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    given = _list_given_options(parser, arguments, options)
    alone = [name for name in ("--validate", "--write-manifest") if name in given]
    if not alone and options.base is None:
        parser.error("the following arguments are required: RUN_DIR, BASE_DIR")
    if alone and (options.run is not None or given != alone[:1]):
        parser.error(f"argument {alone[0]}: not allowed with other arguments")
    try:
        if options.validate is not None:
            return _validate(options.validate)
        if options.write_manifest is not None:
            return _write_manifest(options.write_manifest)
        path = _export(options, given)
    except argparse.ArgumentError as error:
        parser.error(str(error))
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
    xla = make_xla_buckets(options)
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
        xla=xla,
        **shared,
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
    add_version_flags(parser)
    add_search_flags(parser)
    add_xla_flags(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
