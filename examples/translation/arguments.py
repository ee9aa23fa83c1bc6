"""Arguments that several commands of the translators share."""

import argparse

from examples.commands.arguments import UsageError, positive_int
from examples.data.parallel import FORMATS
from examples.translation.corpora import Files
from keras_attention.search import AverageLengthPenalty, GNMTLengthPenalty


def add_files(
    parser, part: str, prefix: str = "", hint: str = "", default_format: str = "tsv"
) -> None:
    """Adds `--source`, `--target` and `--pairs`, with a prefix such as `dev-`.

    Without a prefix `--format` is added too, which holds for all files of pairs.
    """
    group = parser.add_argument_group(f"{part} data, plain or .gz{hint}")
    flag = f"--{prefix}"
    group.add_argument(f"{flag}source", metavar="FILE", help="source side, one text a line")
    group.add_argument(f"{flag}target", metavar="FILE", help="target side, line by line")
    group.add_argument(f"{flag}pairs", metavar="FILE", help="source<TAB>target a line, instead")
    if not prefix:
        group.add_argument(
            "--format",
            choices=tuple(FORMATS),
            help="what a line of pairs is: source<TAB>target; the same, with further columns that "
            f"are targets too; or `IN: source OUT: target` (default: {default_format})",
        )


def files_of(
    arguments: argparse.Namespace, part: str, prefix: str = "", default_form: str = "tsv"
) -> Files:
    """Returns the files that `add_files` collected, of the form that `--format` names.

    Raises:
        UsageError: If they are neither two parallel files, nor one of pairs, nor none.
    """
    names = ("source", "target", "pairs")
    source, target, pairs = (getattr(arguments, f"{prefix}{name}") for name in names)
    flags = [f"--{prefix.replace('_', '-')}{name}" for name in names]
    if pairs and (source or target):
        raise UsageError(
            f"The {part} data is either two parallel files ({flags[0]}, {flags[1]}) or one of "
            f"pairs ({flags[2]}). Leave one of them out."
        )
    if bool(source) != bool(target):
        given, missing = flags[:2] if source else flags[1::-1]
        raise UsageError(
            f"{given} was given without {missing}. Name both files: line n of one is the "
            "translation of line n of the other."
        )
    if source and arguments.format:
        raise UsageError(
            "--format is for files of pairs. Leave it out, or name such files with --pairs. "
            f"Received: --format {arguments.format} --{prefix.replace('_', '-')}source {source}"
        )
    # Two parallel files are never merged by source, however the run's own pairs were written.
    return Files(source, target, pairs, "tsv" if source else arguments.format or default_form)


def length_penalty(text: str) -> AverageLengthPenalty | GNMTLengthPenalty:
    """The type of `--length-penalty`: an alpha from -10 to 10, or "average"."""
    if text == "average":
        return AverageLengthPenalty()
    try:
        return GNMTLengthPenalty(float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected average or a number from -10 to 10, got {text!r}"
        ) from None


def add_search(parser) -> None:
    """Adds the options of the search."""
    group = parser.add_argument_group("search")
    group.add_argument(
        "--beam-width",
        type=positive_int,
        default=4,
        metavar="N",
        help="hypotheses kept; 1 takes the likeliest token each time (default: %(default)s)",
    )
    group.add_argument(
        "--length-penalty",
        type=length_penalty,
        metavar="ALPHA",
        help="GNMT length penalty, 0.6 favors longer outputs; or average, the log-probability a "
        "token (default: none)",
    )
    group.add_argument(
        "--max-length",
        type=positive_int,
        metavar="N",
        help="longest output in tokens (default: twice the longest of training, or as many as "
        "the decoder has learned positions)",
    )
