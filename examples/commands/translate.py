"""`python -m examples translate`, for runs of translators."""

import sys

from examples.commands import by_run
from examples.commands.arguments import UsageError
from examples.data.report import DataError
from examples.recipes.guided_alignment import append_links
from examples.recipes.learned_positions import report_cut_sources

SUMMARY = "translate texts, or standard input line by line"
NOTE = ""


def for_arguments(text_arguments):
    """Returns the command as the recipe of the run has it."""
    return by_run.part(sys.modules[__name__], text_arguments)


def add_arguments(parser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--all", action="store_true", help="print all hypotheses with scores")


def finish(recipe, options, arguments) -> None:
    """Prints the best output a line, or all hypotheses with their scores."""
    kind = "text" if options["texts"] else "line"
    form = options["alignment"]
    if form and arguments.all:
        raise UsageError("--alignment is that of the best output. Leave out --all.")
    texts = options.pop("texts") or _read_lines(sys.stdin)
    filled = {row: text for row, text in enumerate(texts) if text.strip()}
    sources = list(filled.values())
    report_cut_sources(recipe.run, sources, [f"{kind} {row + 1}" for row in filled])
    answers = dict(zip(filled, recipe.translate(texts=sources, **options), strict=True))
    for row, text in enumerate(texts):
        found = answers.get(row)
        if not arguments.all:
            best = "".join(found.texts[:1]) if found else ""
            print(append_links(found, form) if found and form else best)
            continue
        print(text)
        if found:
            for output, score in zip(found.texts, found.scores, strict=True):
                print(f"  {score:9.4f}  {output}")


def _read_lines(stream):
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
