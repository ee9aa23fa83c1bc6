"""Arguments that several commands of the translators share."""

import argparse

from examples.commands.arguments import UsageError
from examples.data.parallel import FORMATS
from examples.translation.corpora import Files


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
