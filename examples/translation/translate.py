"""`python -m examples translate`: texts in, ranked outputs out."""

import sys

from examples.commands import arguments as shared
from examples.data.report import DataError
from examples.translation.lengths import tell_cut_sources
from examples.translation.opened import open_run, translator
from keras_attention.export.search_arguments import add_search_arguments

SUMMARY = "translate texts, or standard input line by line"
EPILOG = """\
examples:
  python -m examples translate runs/dates "3. Mai 1979" "14 juillet 1989"
  python -m examples translate runs/mine --beam-width 8 < test.de > out.en
  python -m examples translate runs/mine --all "ein hund schläft ."

A line of output for a line of input; an empty one for an empty one. Lines end with a line
feed, with or without a carriage return before it.
"""


def add_arguments(parser) -> None:
    """Adds the options of `translate`."""
    shared.add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts (default: standard input)")
    parser.add_argument("--all", action="store_true", help="print all hypotheses with scores")
    add_search_arguments(parser, add_max_source_length=False)


def run(arguments) -> None:
    """Prints the best output a line, or all hypotheses with their scores."""
    opened = open_run(arguments.run)
    texts = arguments.texts or _lines(sys.stdin)
    rows = [row for row, text in enumerate(texts) if text.strip()]
    translate = translator(opened, arguments)
    kind = "text" if arguments.texts else "line"
    named = [f"{kind} {row + 1}" for row in rows]
    tell_cut_sources(opened, [texts[row] for row in rows], named)
    work = translate.translate if arguments.all else translate.best
    answers = dict(zip(rows, work([texts[row] for row in rows]), strict=True))
    for row, text in enumerate(texts):
        if not arguments.all:
            print(answers.get(row, ""))
            continue
        print(text)
        if row in answers:
            for output, score in zip(answers[row].texts, answers[row].scores, strict=True):
                print(f"  {score:9.4f}  {output}")


def _lines(stream):
    """The lines of standard input, read as bytes: only a line feed ends a line.

    Raises:
        DataError: If a line is not UTF-8.
    """
    if stream.isatty():
        print("Reading lines until Ctrl-D.", file=sys.stderr)
    lines = stream.buffer.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            raise DataError(
                f"Line {number} of standard input is not UTF-8. Convert it, for example with "
                "`iconv -f ISO-8859-1 -t UTF-8`."
            ) from None
    return texts
