"""`python -m examples plot` for captioners of scenes."""

import pathlib

import numpy as np

from examples.captions.opened import Opened, add_scenes, open_run
from examples.commands import arguments as shared
from keras_attention import plotting
from keras_attention.export.tokenizers.base import EOS_ID, SPECIAL_TOKENS

SUMMARY = "draw where a captioner looks, word by word, over the picture"
EPILOG = """\
examples:
  python -m examples plot runs/captions --output-dir pictures         four test scenes
  python -m examples plot runs/captions --output-dir pictures --count 9 --part dev

Writes scene_1.png, scene_2.png, ...: the picture, and beside it for each word what was attended to
while the word was written; of a guided captioner, one look for the whole caption.
"""


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    add_scenes(parser)
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )
    shared.number(parser, "--count", 4, "scenes to draw")


def run(arguments) -> None:
    """Writes the pictures and says where."""
    opened = open_run(arguments.run, arguments.beam_width)
    stream = opened.scenes(arguments.mnist, arguments.part, arguments.count, arguments.count)
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    inputs, _ = stream.arrays(0, 0)
    written = opened.write(inputs)
    said = opened.said(written["ids"])
    for number, scene in enumerate(stream.scenes(0, 0), 1):
        path = directory / f"scene_{number}.png"
        weights = written["weights"][number - 1]
        draw(opened, scene, said[number - 1], weights).savefig(path, dpi=150)
        print(path)


def draw(opened: Opened, scene, said: list[str], weights: np.ndarray):
    """Returns the figure of one scene.

    Args:
        opened: The run.
        scene: A `Scene`.
        said: The words that were written, perhaps none: then the look at the end is drawn.
        weights: Array `(time or 1, locations)`.
    """
    tokens = [scene.guide] if opened.guided else said or [SPECIAL_TOKENS[EOS_ID]]
    weights = weights[: len(tokens)].reshape(len(tokens), *opened.locations)
    text = " ".join(said)
    expected = "" if text == scene.caption else f"   expected: {scene.caption}"
    return plotting.plot_image_attention(
        scene.image[..., 0], weights, tokens, title=f"{text}{expected}"
    )
