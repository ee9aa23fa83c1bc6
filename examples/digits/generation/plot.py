"""`python -m examples plot` for drawing digits."""

import pathlib

import numpy as np

from examples.commands import arguments as shared
from examples.digits.frames import Cell, animate, sheet
from examples.digits.generation.opened import open_run
from examples.digits.opened import read_part
from examples.digits.options import add_part

SUMMARY = "draw new digits, and how they come about"
EPILOG = """\
examples:
  python -m examples plot runs/drawn --output-dir pictures
  python -m examples plot runs/drawn --output-dir pictures --count 12 --samples 100 --sample-seed 7

Writes samples.png and samples.gif, new digits, the window red where ink is added; and
drawing.png and drawing.gif, digits of the data: above, where the model reads, below, what it has
drawn of them so far.
"""
COLUMNS = 8
MOST_FRAMES = 16


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    add_part(parser)
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )
    shared.number(parser, "--count", 4, "digits of the data to draw again, spread over the part")
    shared.number(parser, "--samples", 64, "new digits to draw")
    shared.number(parser, "--sample-seed", 1, "seed of the new digits", shared.seed)


def run(arguments) -> None:
    """Writes the pictures and says where."""
    opened = open_run(arguments.run)
    inputs, labels = read_part(arguments, opened.run)
    count = min(arguments.count, len(inputs["image"]))
    places = np.arange(count) * len(inputs["image"]) // count
    group = {"image": inputs["image"][places]}, {"digit": labels["digit"][places]}
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    new = opened.samples(arguments.samples, arguments.sample_seed)
    _save(directory, "samples", _in_rows(map(Cell, new["image"])), sample_frames(opened, new))
    frames = drawing_frames(opened, *opened.drawn_again(group))
    steps = sorted(set(np.linspace(0, len(frames) - 1, MOST_FRAMES).round().astype(int)))
    rows = [
        [frames[step][line][place] for step in steps] for place in range(count) for line in (0, 1)
    ]
    _save(directory, "drawing", rows, frames)


def sample_frames(opened, new: dict) -> list:
    """Returns the canvases of new digits, step by step, with the windows they were written in."""
    size = opened.model.get_layer("ink").target_shape[0]
    return [
        _in_rows(
            Cell(canvas, (box(window, size),))
            for canvas, window in zip(
                new["canvases"][:, step], new["windows"][:, step], strict=True
            )
        )
        for step in range(new["canvases"].shape[1])
    ]


def drawing_frames(opened, images, outputs: dict) -> list:
    """Returns two rows a step: what is read of each picture, and what is written of it."""
    read = opened.model.get_layer("reader").size
    written = opened.model.get_layer("ink").target_shape[0]
    canvases = 1.0 / (1.0 + np.exp(-np.clip(outputs["canvases"], -60.0, 60.0)))
    return [
        [
            [
                Cell(image, (box(window, read),), f"{step + 1}")
                for image, window in zip(images, outputs["reads"][:, step], strict=True)
            ],
            [
                Cell(canvas, (box(window, written),))
                for canvas, window in zip(
                    canvases[:, step], outputs["writes"][:, step], strict=True
                )
            ],
        ]
        for step in range(canvases.shape[1])
    ]


def box(window, size: int):
    """Returns left, top, width and height of a window of `size` filters a side.

    A window counts pixels from 1, `imshow` from 0. The box holds the middles of all filters.
    """
    center_x, center_y, _, stride, _ = window
    side = (size - 1) * stride + 1.0
    return center_x - 1.0 - side / 2, center_y - 1.0 - side / 2, side, side


def _in_rows(cells):
    cells = list(cells)
    return [cells[first : first + COLUMNS] for first in range(0, len(cells), COLUMNS)]


def _save(directory, name, rows, frames):
    """Writes a sheet of rows of cells, and an animation of frames."""
    sheet(rows).savefig(directory / f"{name}.png", dpi=150)
    print(directory / f"{name}.png")
    animate(directory / f"{name}.gif", frames)
    print(directory / f"{name}.gif")
