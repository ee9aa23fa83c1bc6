"""Exports a run for TensorFlow Serving: `python -m keras_attention.export RUN_DIR BASE_DIR`."""

import argparse
import pathlib
import sys

import tensorflow as tf

from keras_attention.export import runs
from keras_attention.export.translator import export_translator

DESCRIPTION = """\
Writes a trained run as a SavedModel version, BASE_DIR/<version>, that a TensorFlow model
server loads: text in, ranked text with scores and alignments out. The directory appears when
it is complete, so BASE_DIR may be one that a server is watching."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 0, 1 on failure, 2 on wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        path = _export(options)
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        print(f"error: {reason}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Exported {options.run} to {path} ({size / 1e6:.1f} MB).")
    print(f"What it answers to: saved_model_cli show --dir {path} --all")
    return 0


def _export(options):
    run = runs.read_run(options.run)
    max_length = options.max_length
    if max_length is None:
        max_length = (run.settings.get("lengths") or {}).get("target", 128)
    return export_translator(
        run.model,
        options.base,
        source=run.source_tokenizer,
        target=run.target_tokenizer,
        version=options.version,
        beam_width=options.beam,
        max_length=max_length,
        max_source_length=options.max_source_length,
        length_penalty=options.length_penalty,
        coverage_penalty=options.coverage_penalty,
        min_length=options.min_length,
    )


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN_DIR", type=pathlib.Path, help="a run that was trained")
    parser.add_argument(
        "base", metavar="BASE_DIR", type=pathlib.Path, help="the model's directory; made if need be"
    )

    def option(name, kind, metavar, default, text):
        parser.add_argument(name, type=kind, metavar=metavar, default=default, help=text)

    option("--version", _positive, "N", None, "version to write (default: the next one)")
    option("--beam", _positive, "N", 4, "hypotheses kept and returned (default: %(default)s)")
    option(
        "--length-penalty",
        float,
        "ALPHA",
        None,
        "rank by log p / ((5 + length) / 6)^ALPHA; 0.6 is usual, more favors longer output "
        "(default: rank by log p)",
    )
    option(
        "--coverage-penalty",
        float,
        "BETA",
        None,
        "penalty for source words that were not attended to; 0.2 is usual (default: none)",
    )
    option(
        "--max-length",
        _positive,
        "N",
        None,
        "longest output in tokens, end mark included (default: the run's, or 128)",
    )
    option("--min-length", _positive, "N", 0, "shortest output in tokens, end mark included")
    option(
        "--max-source-length",
        _positive,
        "N",
        512,
        "source tokens that are read, the rest is cut off (default: %(default)s)",
    )
    return parser


def _positive(text):
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
