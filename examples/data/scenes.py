"""Scenes: several digits of MNIST on a canvas, each in a cell of a grid, at a random place there.

A caption of a scene lists its digits in reading order: `two seven one`. A guided caption is about
the one digit that a sentence names: to `where is the seven` it says `at the top left`. It does not
name the digit again: that word would need no look at the image.
"""

import dataclasses

import numpy as np

from examples.data.idx import SIDE
from keras_attention import validation

CELL = 24
"""Side of a cell in points. A digit's ink fits into 20; its image, with a margin, has 28."""
SHIFT = 2
"""How far a digit may be from the middle of its cell, in points, to each side."""
LARGEST_GRID = 3
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
GUIDES = ("the {}", "a {}", "where is the {}", "look at the {}", "there is a {} somewhere")


@dataclasses.dataclass(frozen=True)
class Scene:
    """An image and what is on it.

    Attributes:
        image: `(side, side, 1)`, uint8, 0 is background and 255 ink.
        digits: The digits in reading order.
        boxes: Their cells, `(top, left, bottom, right)` in points each.
        caption: What there is to say.
        guide: The sentence that names a digit, "" where none does.
        named: The box of each word of the caption.
    """

    image: np.ndarray
    digits: tuple[int, ...]
    boxes: tuple[tuple[int, int, int, int], ...]
    caption: str
    guide: str
    named: tuple[tuple[int, int, int, int], ...]


class Painter:
    """Draws scenes from images of digits.

    Args:
        images: Images `(count, 28, 28)`, uint8.
        labels: Their digits `(count,)`.
        grid: Int from 1 to 3, cells on a side of the canvas.
        digits: Pair of ints, the fewest and the most digits on a scene.
        guided: Whether a sentence names one of the digits, which are then all different.
        distortion: Float of at least 0, how much each digit is turned, scaled and sheared; see
            `distort`.

    Raises:
        ValueError: If an argument is not as above, or there are more digits than cells.

    Example:

    >>> images = np.full((10, 28, 28), 255, np.uint8)
    >>> painter = Painter(images, np.arange(10), grid=2, digits=(1, 3))
    >>> scene = painter.draw(np.random.default_rng(1))
    >>> scene.image.shape, scene.digits, scene.caption
    ((48, 48, 1), (0, 1), 'zero one')
    """

    def __init__(self, images, labels, grid=3, digits=(2, 4), guided=False, distortion=0.0):
        self.grid = validation.check_positive_int("Painter", "grid", grid)
        validation.check_number_in_range("Painter", "grid", grid, 1, LARGEST_GRID)
        low, high = digits
        if not 1 <= low <= high <= grid**2:
            raise ValueError(
                f"Painter expects `digits` to be a range from 1 to at most {grid**2}, on a grid of "
                f"{grid} x {grid}. Received: digits={tuple(digits)!r}"
            )
        self.digits, self.guided = (low, high), bool(guided)
        self.distortion = validation.check_number_in_range(
            "Painter", "distortion", distortion, 0, 1, exclude_high=True
        )
        self._digits = [images[labels == digit] for digit in range(len(NAMES))]
        missing = [str(digit) for digit, found in enumerate(self._digits) if not len(found)]
        if missing:
            raise ValueError(
                f"Painter expects images of every digit. Received: none of {', '.join(missing)}"
            )

    @property
    def side(self) -> int:
        """Points on a side of the canvas."""
        return self.grid * CELL

    @property
    def longest(self) -> int:
        """Words of the longest caption."""
        return count_words(self.digits, self.guided)

    def draw(self, generator: np.random.Generator) -> Scene:
        """Returns a scene that depends on the generator alone."""
        count = int(generator.integers(*self.digits, endpoint=True))
        cells = np.sort(generator.choice(self.grid**2, count, replace=False))
        values = generator.choice(len(NAMES), count, replace=not self.guided)
        margin = (SIDE - CELL) // 2 + SHIFT
        canvas = np.zeros((self.side + 2 * margin,) * 2, np.uint8)
        boxes = []
        for cell, value in zip(cells, values, strict=True):
            top, left = (int(place) * CELL for place in divmod(cell, self.grid))
            boxes.append((top, left, top + CELL, left + CELL))
            digit = self._digits[value][generator.integers(len(self._digits[value]))]
            if self.distortion:
                digit = distort(digit, self.distortion, generator)
            y, x = generator.integers(0, 2 * SHIFT, 2, endpoint=True)
            part = canvas[top + y : top + y + SIDE, left + x : left + x + SIDE]
            np.maximum(part, digit, out=part)  # the margins of neighbors overlap
        image = canvas[margin:-margin, margin:-margin, None]
        digits = tuple(int(value) for value in values)
        if not self.guided:
            caption = " ".join(NAMES[digit] for digit in digits)
            return Scene(image, digits, tuple(boxes), caption, "", tuple(boxes))
        chosen = int(generator.integers(count))
        row, column = divmod(int(cells[chosen]), self.grid)
        caption = describe_place(row, column, self.grid)
        guide = GUIDES[generator.integers(len(GUIDES))].format(NAMES[digits[chosen]])
        named = (boxes[chosen],) * len(caption.split())
        return Scene(image, digits, tuple(boxes), caption, guide, named)


def distort(image: np.ndarray, most: float, generator: np.random.Generator) -> np.ndarray:
    """Returns an image turned, scaled and sheared at random about its middle.

    The point at `p` from the middle shows what was at `(I + A) p`, each entry of `A` from
    U(-most, most), and 0 where nothing was; between points by linear interpolation.

    Args:
        image: Array `(rows, columns)`, uint8.
        most: Float from 0 to below 1.
        generator: What is drawn from.

    Example:

    >>> image = np.arange(9, dtype=np.uint8).reshape(3, 3)
    >>> distort(image, 0.0, np.random.default_rng(1)).tolist()
    [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    """
    size = np.array(image.shape)[:, None]
    middle = (size - 1) / 2
    matrix = np.eye(2) + generator.uniform(-most, most, (2, 2))
    places = matrix @ (np.indices(image.shape).reshape(2, -1) - middle) + middle
    padded = np.pad(image.astype(np.float64), ((1, 2), (1, 2)))
    places = np.clip(places + 1, 0, size + 1)
    (row, column), (down, right) = places.astype(int), places % 1
    above, below = (
        padded[at, column] * (1 - right) + padded[at, column + 1] * right for at in (row, row + 1)
    )
    return np.rint(above * (1 - down) + below * down).astype(image.dtype).reshape(image.shape)


def count_words(digits: tuple[int, int], guided: bool) -> int:
    """Returns the words of the longest caption of scenes with that range of digits."""
    return len(describe_place(0, 0, 1).split()) if guided else digits[1]


def describe_place(row: int, column: int, grid: int) -> str:
    """Returns what is said of a digit in a row and column, both from 0.

    Example:

    >>> describe_place(0, 2, grid=3), describe_place(1, 0, grid=2)
    ('at the top right', 'at the bottom left')
    """
    return f"at the {_names(ROWS, grid)[row]} {_names(COLUMNS, grid)[column]}"


def _names(names, grid):
    """The names of rows or columns: a grid of two has no middle."""
    return {1: names[1:2], 2: names[::2], 3: names}[grid]


def vocabulary() -> list[str]:
    """Returns every word of captions and sentences, the digits first.

    Example:

    >>> words = vocabulary()
    >>> words[:3], len(words) == len(set(words))
    (['zero', 'one', 'two'], True)
    """
    others = [word for guide in GUIDES for word in guide.split() if word != "{}"]
    others += [*"at the".split(), *ROWS, *COLUMNS]
    return [*NAMES, *sorted(set(others))]
