"""`python -m examples plot`: alignment pictures of texts and their outputs."""

import pathlib

from examples.commands import arguments as shared
from examples.commands.opened import open_run, translator
from examples.data import dates
from keras_attention import plotting

SUMMARY = "draw the alignments of texts"
NUM_DATES = 6


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="texts (default: unseen dates, for such a run)"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="directory for the pictures")
    shared.add_search(parser)


def run(arguments) -> None:
    """Writes a PNG a text."""
    opened = open_run(arguments.run)
    texts = arguments.texts
    if not texts:
        if _learned_from_files(opened):
            raise ValueError("Name the texts to draw: this run was trained on your own data.")
        texts = [source for source, _ in dates.date_pairs("test", NUM_DATES)]
    directory = pathlib.Path(arguments.out)
    directory.mkdir(parents=True, exist_ok=True)
    found = translator(opened, arguments).translate(texts)
    for number, (text, one) in enumerate(zip(texts, found, strict=True), 1):
        path = directory / f"alignment_{number}.png"
        figure = plotting.plot_alignment(
            one.alignment, one.source_tokens, one.tokens, title=one.texts[0]
        )
        figure.savefig(path, dpi=150)
        print(f"{path}  {text} -> {one.texts[0]}")


def _learned_from_files(opened):
    told = opened.settings.get("training", {})
    return bool(told.get("source") or told.get("pairs"))
