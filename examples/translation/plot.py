"""`python -m examples plot`: alignment pictures of texts and their outputs."""

import pathlib
import sys
import warnings

from examples.commands import arguments as shared
from examples.data import dates
from examples.translation.lengths import tell_cut_sources
from examples.translation.opened import (
    has_attention,
    learned_from_files,
    open_run,
    translator,
)
from keras_attention import plotting
from keras_attention.export.search_arguments import add_search_arguments

SUMMARY = "draw the alignments of texts"
EPILOG = """\
examples:
  python -m examples plot runs/dates --output-dir pictures
  python -m examples plot runs/mine --output-dir pictures "ein hund schläft ." "zwei katzen spielen ."

Writes alignment_1.png, alignment_2.png, ... and, of several texts, alignments.png with all of
them. Rows are the output's tokens, columns the text's; dark is where the model looked.
"""
# Locale and style of the unseen dates drawn if no texts are named.
DRAWN_DATES = (
    ("en-US", "full"),
    ("de-DE", "long"),
    ("fr-FR", "yMMMEd"),
    ("ru-RU", "long"),
    ("ja-JP", "full"),
    ("ar-EG", "long"),
    ("hi-IN", "medium"),
    ("el-GR", "full"),
    ("en-US", "short"),
)
MOST_IN_ONE = 16


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="texts to draw (default, for a run on dates: unseen dates of several scripts)",
    )
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )
    add_search_arguments(parser, add_max_source_length=False)


def run(arguments) -> None:
    """Writes a PNG a text, and one of all."""
    opened = open_run(arguments.run)
    texts = arguments.texts
    empty = [str(number) for number, text in enumerate(texts, 1) if not text.strip()]
    if empty:
        raise shared.UsageError(
            f"There is nothing to draw of an empty text. Leave it out. Received: text "
            f"{' and '.join(empty)} of {len(texts)}"
        )
    if not texts and learned_from_files(opened):
        raise shared.UsageError(
            f"Name the texts to draw: {arguments.run} was trained on your own data."
        )
    if not has_attention(opened.model):
        raise ValueError(
            f"{arguments.run} is a run of {opened.settings['system']} whose decoder has no "
            "attention to draw. Draw one of a system with attention, such as rnnsearch."
        )
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    texts = texts or drawn_dates()
    tell_cut_sources(opened, texts, [f"text {number}" for number in range(1, len(texts) + 1)])
    found = translator(opened, arguments).translate(texts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _draw(directory, texts, found)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"note: {message}", file=sys.stderr)


def drawn_dates() -> list[str]:
    """Returns an unseen date for each of `DRAWN_DATES`."""
    texts = {}
    for row in dates.date_rows("test"):
        texts.setdefault((row.form.locale, row.form.style), row.source)
    return [texts[form] for form in DRAWN_DATES if form in texts]


def _draw(directory, texts, found):
    for number, (text, one) in enumerate(zip(texts, found, strict=True), 1):
        path = directory / f"alignment_{number}.png"
        figure = plotting.plot_alignment(*_example(one), title=one.texts[0])
        figure.savefig(path, dpi=150)
        print(f"{path}  {text} -> {one.texts[0]}")
    shown = found[:MOST_IN_ONE]
    if len(shown) > 1:
        path = directory / "alignments.png"
        titles = [one.texts[0] for one in shown]
        plotting.plot_alignments(map(_example, shown), titles=titles).savefig(path, dpi=150)
        print(f"{path}  {'all' if len(shown) == len(found) else f'the first {len(shown)}'} in one")


def _example(one):
    return one.alignment, one.source_tokens, one.tokens
