"""Digits drawn by a pen that is never quite steady: stand-ins where there is no MNIST.

Each digit is one or two lines of points, bent, turned and scaled a little differently each time,
and drawn with a round pen.
"""

import numpy as np

from examples.data.idx import SIDE, read_mnist

LOOP = [(0.5 + 0.5 * np.sin(a), 0.5 - 0.5 * np.cos(a)) for a in np.linspace(0, 2 * np.pi, 13)]
#: The lines of each digit, points `(x, y)` from 0, left and top, to 1.
LINES = (
    [LOOP],
    [[(0.2, 0.25), (0.55, 0.0), (0.55, 1.0)]],
    [[(0.05, 0.25), (0.25, 0.02), (0.7, 0.02), (0.9, 0.3), (0.6, 0.6), (0, 1), (1, 1)]],
    [
        [(0.1, 0.1), (0.5, 0), (0.85, 0.2), (0.75, 0.42), (0.4, 0.5)],
        [(0.4, 0.5), (0.8, 0.58), (0.92, 0.78), (0.55, 1), (0.05, 0.9)],
    ],
    [[(0.45, 0), (0.02, 0.62), (1, 0.62)], [(0.72, 0.25), (0.68, 1)]],
    [[(0.9, 0), (0.2, 0), (0.12, 0.45), (0.6, 0.4), (0.92, 0.68), (0.6, 1), (0.05, 0.95)]],
    [
        [(0.75, 0), (0.3, 0.25), (0.08, 0.7), (0.3, 1), (0.7, 1), (0.9, 0.75)],
        [(0.9, 0.75), (0.7, 0.52), (0.3, 0.55), (0.1, 0.75)],
    ],
    [[(0, 0.02), (0.95, 0.02), (0.6, 0.45), (0.4, 1)]],
    [
        [(0.5 + 0.34 * (x - 0.5) * 2, 0.48 * y) for x, y in LOOP],
        [(0.5 + 0.46 * (x - 0.5) * 2, 0.48 + 0.52 * y) for x, y in LOOP],
    ],
    [[(0.12 + 0.7 * x, 0.5 * y) for x, y in LOOP], [(0.82, 0.25), (0.8, 0.6), (0.6, 1)]],
)
INK, MIDDLE = 18.0, SIDE / 2  # points
POINTS = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1) + 0.5


def drawn_digits(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns pictures of digits in turn, and which they are.

    Args:
        count: Positive int.
        seed: Int of at least 0; other seeds give other pictures.

    Returns:
        Arrays of uint8 like those of `examples.data.idx.read_mnist`: pictures `(count, 28, 28)`, 0
        is background and 255 ink, and digits `(count,)`.

    Example:

    >>> images, digits = drawn_digits(12)
    >>> images.shape, digits.tolist()
    ((12, 28, 28), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1])
    """
    random = np.random.default_rng(seed)
    digits = np.arange(count) % len(LINES)
    return np.stack([_draw(LINES[digit], random) for digit in digits]), digits.astype(np.uint8)


def find_digits(mnist: str | None, part: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns so many digits of a part: of MNIST if its folder is named, else drawn ones.

    Args:
        mnist: The folder, or None.
        part: "train", "dev" or "test"; no picture is in two parts.
        count: Positive int.
    """
    if mnist is None:
        return drawn_digits(count, seed=("train", "dev", "test").index(part))
    images, digits = read_mnist(mnist, part)
    return images[:count], digits[:count]


def _draw(lines, random):
    """Returns one picture: how far each point is from the nearest piece of a line says its ink."""
    angle, slant = random.normal(0.0, 0.12), random.normal(0.0, 0.15)
    size = random.uniform(0.8, 1.05, 2) * (0.72, 1.0) * INK
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    pen, distance = random.uniform(1.0, 1.7), np.full((SIDE, SIDE), np.inf)
    for line in lines:
        bent = np.array(line) - 0.5 + random.normal(0.0, 0.03, (len(line), 2))
        bent[:, 0] -= slant * bent[:, 1]
        places = bent * size @ turn + MIDDLE
        for start, end in zip(places[:-1], places[1:], strict=True):
            along = end - start
            share = (POINTS - start) @ along / max(along @ along, 1e-9)
            nearest = start + np.clip(share, 0, 1)[..., None] * along
            distance = np.minimum(distance, np.linalg.norm(POINTS - nearest, axis=-1))
    return np.round(255 * np.clip(pen + 0.6 - distance, 0, 1)).astype(np.uint8)
