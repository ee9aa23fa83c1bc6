"""`python -m examples plot` for language models with attention."""

import pathlib

import numpy as np

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.language.opened import open_run
from examples.language.texts import read_texts
from keras_attention import plotting

SUMMARY = "draw which earlier states each step of a text attends to"
EPILOG = """\
examples:
  python -m examples plot runs/captions --out pictures "a dog runs through the snow ."
  python -m examples plot runs/captions --out pictures --text test_2016_flickr.lc.norm.tok.en.gz

Writes text_1.png, text_2.png, ...: a row a token that is read, a column an earlier state, named
after the token it was made at; (none) is the empty state before the first. An LSTM would have
all its weight on the diagonal, the state just before. Of several layers each is drawn:
text_1_layer_1.png is the lowest.
"""
FIRST = "(none)"


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts to draw")
    parser.add_argument("--text", metavar="FILE", help="or texts of a file")
    shared.number(parser, "--count", 4, "texts of the file to draw, spread over it")
    parser.add_argument("--out", required=True, metavar="DIR", help="directory for the pictures")


def run(arguments) -> None:
    """Writes the pictures and says where."""
    texts = [text for text in arguments.texts if text.strip()]
    if bool(texts) == bool(arguments.text):
        raise UsageError("Name the texts to draw, or a file of them with --text.")
    opened = open_run(arguments.run)
    if not opened.has_attention:
        raise ValueError(
            f"{arguments.run} is a run of {opened.run.settings['system']}, which has no attention "
            "to draw. Draw one of lstmn."
        )
    if arguments.text:
        found = read_texts(arguments.text)
        count = min(arguments.count, len(found))
        texts = [found[place * len(found) // count] for place in range(count)]
    directory = pathlib.Path(arguments.out)
    directory.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts, 1):
        tokens, weights = opened.weights(text)
        for layer, of_layer in enumerate(weights, 1):
            name = f"text_{number}" + (f"_layer_{layer}" if len(weights) > 1 else "")
            path = directory / f"{name}.png"
            figure = plotting.plot_alignment(
                np.clip(of_layer, 0.0, 1.0), [FIRST, *tokens[:-1]], tokens
            )
            figure.savefig(path, dpi=150)
            print(f"{path}  {text}")
