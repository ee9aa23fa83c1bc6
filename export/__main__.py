"""Exports a run for TensorFlow Serving: `python -m keras_attention.export RUN_DIR BASE_DIR`.

`python -m keras_attention.export --validate PATH` says what is wrong with a version.
"""

import argparse
import pathlib
import sys

import tensorflow as tf

from keras_attention.export import runs
from keras_attention.export.argument_types import positive_int
from keras_attention.export.compilation import Compilation
from keras_attention.export.keras_model import export_model
from keras_attention.export.limits import default_limit
from keras_attention.export.manifest import MANIFEST_FILE, write_manifest
from keras_attention.export.reasons import reason
from keras_attention.export.tokenizers.base import SPECIAL_TOKENS, UNKNOWN_ID
from keras_attention.export.translator import export_translator
from keras_attention.export.validate import validate_export
from keras_attention.products import PRECISIONS

COMPILED = {"--xla-batch", "--xla-length", "--xla-precision", "--xla-split"}
ANY_MODEL = ("--version", "--name", "--float32")  # the others are of translators
DESCRIPTION = """\
Writes a trained run as a SavedModel version, BASE_DIR/<version>, that a TensorFlow model
server loads: of a translator, text in, ranked text with scores and alignments out; of another
model, its inputs and outputs. The directory appears when it is complete and has answered its
warm-up requests, so BASE_DIR may be one that a server is watching. With --validate PATH it says
what a server would stumble over in a version, a line each, and exits with 1 if there is any."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 0, 1 on failure, 2 on wrong usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    given = _given(parser, arguments, options)
    alone = [name for name in ("--validate", "--write-manifest") if name in given]
    if not alone and options.base is None:
        parser.error("the following arguments are required: RUN_DIR, BASE_DIR")
    if alone and (options.run is not None or given != alone[:1]):
        parser.error(f"argument {alone[0]}: there is nothing to export beside it")
    if not options.xla:
        for name in COMPILED.intersection(given):
            parser.error(f"argument {name}: expected --xla beside it, or nothing is compiled")
    try:
        if options.validate is not None:
            return _validate(options.validate)
        if options.write_manifest is not None:
            return _write_manifest(options.write_manifest)
        path = _export(options, given)
    except (OSError, ValueError, tf.errors.OpError) as error:
        print(f"error: {reason(error)}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Exported {options.run} to {path} ({size / 1e6:.1f} MB).")
    print(f"What it answers to: {path / 'assets.extra' / 'model_card.md'}")
    return 0


def _given(parser, arguments, options):
    """The names of the options that stand in the arguments, even if they ask for the default."""
    unsaid = object()
    said = argparse.Namespace(**dict.fromkeys(vars(options), unsaid))
    parser.parse_args(arguments, said)
    names = [name for name, value in vars(said).items() if value is not unsaid]
    return [f"--{name.replace('_', '-')}" for name in names if name not in ("run", "base")]


def _validate(path):
    findings = validate_export(path)
    print("\n".join(findings) if findings else f"{path} is fine.")
    return 1 if findings else 0


def _write_manifest(path):
    if not (path / "saved_model.pb").is_file():
        raise FileNotFoundError(f"{path} is not an exported version: it has no saved_model.pb.")
    write_manifest(path)
    print(f"Wrote {path / MANIFEST_FILE}.")
    return 0


def _export(options, given):
    run = runs.read_run(options.run, options.float32)
    shared = {"version": options.version, "name": options.name, "run": run.settings}
    if run.source_tokenizer is None:
        foreign = [name for name in given if name not in ANY_MODEL]
        if foreign:
            raise ValueError(
                f"The run in {options.run} is one of {run.settings['system']}, which does not "
                f"translate: it has no search and no limits. Received: {', '.join(foreign)}"
            )
        return export_model(run.model, options.base, **shared)
    max_length = options.max_length
    if max_length is None:
        trained = (run.settings.get("lengths") or {}).get("target")
        max_length = default_limit(run.model, trained)
    return export_translator(
        run.model,
        options.base,
        source=run.source_tokenizer,
        target=run.target_tokenizer,
        beam_width=options.beam,
        max_length=max_length,
        max_source_length=options.max_source_length or "auto",
        length_penalty=options.length_penalty,
        coverage_penalty=options.coverage_penalty,
        min_length=options.min_length,
        banned_ids=_ids_of(options.ban, run.target_tokenizer),
        no_repeat_ngram=options.no_repeat_ngram,
        xla=_compilation(options),
        **shared,
    )


def _ids_of(pieces, tokenizer):
    """The ids of the target's tokens that are called so."""
    if not pieces:
        return ()
    names = [
        name.decode() for name in tokenizer.tokens(tf.range(tokenizer.vocabulary_size)).numpy()
    ]
    for piece in pieces:
        if piece not in names[UNKNOWN_ID:]:
            raise ValueError(
                "--ban expects tokens of the target's vocabulary, such as "
                f"{SPECIAL_TOKENS[UNKNOWN_ID]}. Received: {piece!r}"
            )
    return tuple(number for number, name in enumerate(names) if name in pieces)


def _compilation(options):
    if not options.xla:
        return None
    return Compilation(
        tuple(options.xla_batch),
        tuple(options.xla_length),
        options.xla_precision,
        options.xla_split,
    )


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, metavar, text in (
        ("run", "RUN_DIR", "a run that was trained"),
        ("base", "BASE_DIR", "the model's directory; made if need be"),
    ):
        parser.add_argument(name, metavar=metavar, type=pathlib.Path, nargs="?", help=text)
    parser.add_argument(
        "--validate", metavar="PATH", type=pathlib.Path, help="check this version; write nothing"
    )
    parser.add_argument(
        "--write-manifest",
        metavar="PATH",
        type=pathlib.Path,
        help="write the manifest of digests of a version that has none, or whose files were "
        "changed on purpose",
    )

    parser.add_argument(
        "--float32",
        action="store_true",
        help="compute in float32 what was trained in mixed precision (compiled, it is faster)",
    )

    def option(name, kind, metavar, default, text):
        parser.add_argument(name, type=kind, metavar=metavar, default=default, help=text)

    option("--version", positive_int, "N", None, "version to write (default: the next one)")
    option("--name", str, "NAME", None, "name in the server (default: that of BASE_DIR)")
    option("--beam", positive_int, "N", 4, "hypotheses kept and returned (default: %(default)s)")
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
        positive_int,
        "N",
        None,
        "longest output in tokens, end mark included (default: twice the longest target of the "
        "run's training, or 128; no more than the decoder has learned positions)",
    )
    option("--min-length", positive_int, "N", 0, "shortest output in tokens, end mark included")
    option("--no-repeat-ngram", positive_int, "N", None, "let no N tokens stand in an output twice")
    parser.add_argument(
        "--ban",
        metavar="TOKEN",
        nargs="+",
        default=(),
        help="tokens of the target that are never written; <unk> is the unknown one",
    )
    option(
        "--max-source-length",
        positive_int,
        "N",
        None,
        "source tokens that are read, the rest is cut off (default: 512, or what the encoder has "
        "learned positions for if that is less)",
    )
    parser.add_argument(
        "--xla",
        action="store_true",
        help="search with compiled programs: faster, for servers started with "
        "--xla_cpu_compilation_enabled",
    )
    defaults = Compilation()
    for name, sizes, text in (
        ("--xla-batch", defaults.batch_sizes, "rows"),
        ("--xla-length", defaults.source_lengths, "source tokens, end mark counted,"),
    ):
        parser.add_argument(
            name,
            type=positive_int,
            metavar="N",
            nargs="+",
            default=sizes,
            help=f"numbers of {text} to compile for (default: {' '.join(map(str, sizes))})",
        )
    parser.add_argument(
        "--xla-precision",
        choices=PRECISIONS,
        default=defaults.precision,
        help="of products with weights; bfloat16 is faster on processors that have it, and its "
        "scores are right to about three digits (default: %(default)s)",
    )
    parser.add_argument(
        "--xla-split",
        type=positive_int,
        metavar="N",
        default=defaults.split,
        help="parts of a batch that search at the same time, of 16 rows or more each; 2 is faster "
        "on two cores (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
