"""`python -m examples translate`: texts in, ranked outputs out."""

import sys

from examples.commands import arguments as shared
from examples.commands.opened import open_run, translator

SUMMARY = "translate texts, or standard input line by line"


def add_arguments(parser) -> None:
    """Adds the options of `translate`."""
    shared.add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts (default: standard input)")
    parser.add_argument("--all", action="store_true", help="print all hypotheses with scores")
    shared.add_search(parser)


def run(arguments) -> None:
    """Prints the best output a line, or all hypotheses with their scores."""
    translate = translator(open_run(arguments.run), arguments)
    texts = arguments.texts or [line.rstrip("\r\n") for line in sys.stdin]
    if not arguments.all:
        print(*translate.best(texts), sep="\n")
        return
    for text, found in zip(texts, translate.translate(texts), strict=True):
        print(text)
        for output, score in zip(found.texts, found.scores, strict=True):
            print(f"  {score:9.4f}  {output}")
