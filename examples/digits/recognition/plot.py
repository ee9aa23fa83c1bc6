"""`python -m examples plot` for recognizing digits."""

import pathlib

import numpy as np

from examples.commands import arguments as shared
from examples.digits.frames import Cell, animate, sheet
from examples.digits.opened import read_part
from examples.digits.options import add_part
from examples.digits.recognition.opened import open_run

SUMMARY = "draw where a model looks"
EPILOG = """\
examples:
  python -m examples plot runs/digits --output-dir pictures
  python -m examples plot runs/digits --output-dir pictures --part dev --count 12

Writes glimpses.png, a row a picture and a column a glimpse, the latest one red; what has not been
seen yet is pale. The last column is the whole picture with all glimpses and the answer.
glimpses.gif shows the same one after another.
"""
PALE = 0.25


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    add_part(parser)
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )
    shared.number(parser, "--count", 8, "pictures to draw, spread over the part")


def run(arguments) -> None:
    """Writes the pictures and says where."""
    opened = open_run(arguments.run)
    inputs, labels = read_part(arguments, opened.run)
    count = min(arguments.count, len(inputs["image"]))
    places = np.arange(count) * len(inputs["image"]) // count
    images, digits = inputs["image"][places], labels["digit"][places] - 1
    probabilities, locations = opened.answers(images)
    rows = [
        cells(opened.retina, *each)
        for each in zip(images / 255.0, digits, probabilities, locations, strict=True)
    ]
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    sheet(rows).savefig(directory / "glimpses.png", dpi=150)
    print(directory / "glimpses.png")
    animate(directory / "glimpses.gif", [[list(column)] for column in zip(*rows, strict=True)])
    print(directory / "glimpses.gif")


def cells(retina, image, digit: int, probabilities, locations) -> list[Cell]:
    """Returns a picture after each glimpse, and with the answer.

    Args:
        retina: The `RetinaGlimpse`.
        image: Array `(height, width)` from 0 to 1.
        digit: The right answer.
        probabilities: Array `(10,)`.
        locations: Array `(glimpses, 2)`.
    """
    seen, found, boxes = np.full(image.shape, PALE), [], []
    for number, location in enumerate(locations, 1):
        box = widest_patch(retina, image.shape, location)
        left, top, width, height = box
        rows, columns = (np.arange(size) for size in image.shape)
        inside = (rows[:, None] > top) & (rows[:, None] < top + height)
        inside = inside & (columns > left) & (columns < left + width)
        seen = np.where(inside, 1.0, seen)
        boxes.append(box)
        found.append(Cell(image * seen, (box,), f"{number}"))
    said = int(probabilities.argmax())
    expected = "" if said == digit else f", not {digit}"
    answer = f"{said} ({100 * probabilities[said]:.0f} %){expected}"
    return [*found, Cell(image, tuple(boxes), answer)]


def widest_patch(retina, shape, location):
    """Returns left, top, width and height of the widest patch, in pixels of `imshow`.

    There the middle of a pixel has its number, so the picture begins at -0.5.
    """
    side = retina.size * retina.scale_factor ** (retina.num_scales - 1)
    height, width = shape
    middle = (location + 1.0) / 2.0 * np.array([width, height])
    left, top = middle - side / 2 - 0.5
    return left, top, side, side
