"""Alignments: which source tokens each target token looked at."""

import math

import numpy as np

from keras_attention.plotting import figures
from keras_attention.plotting.figures import LARGEST_INCHES
from keras_attention.plotting.lettering import (
    FONT_POINTS,
    Lettering,
    ems,
    font_points,
    shortened,
    title_text,
    token_text,
)

CELL_INCHES = 0.36
BAR_INCHES = 0.6  # of the color bar beside the map, and its numbers


def plot_alignment(weights, source_tokens, target_tokens, *, title=None, ax=None, cmap="Blues"):
    """Draws an alignment as a heat map, source tokens on top, target tokens at the left.

    Args:
        weights: Array `(target, source)` of numbers from 0 to 1, without padding; a row of
            zeros (nothing attended to) is allowed.
        source_tokens: Sequence of `source` str (or UTF-8 bytes). A str counts as its
            characters. Of more than 60 characters the middle is left out.
        target_tokens: Sequence of `target` str (or UTF-8 bytes).
        title: Optional str.
        ax: Optional matplotlib axes to draw into; None makes a figure of fitting size.
        cmap: Name of a matplotlib colormap; light should mean little.

    Returns:
        The matplotlib `Figure` that holds the picture.

    Raises:
        ValueError: If `weights` is not of shape `(target, source)`, is empty, or holds numbers
            that are not finite or outside of 0 to 1.
        ImportError: If matplotlib is not installed.

    Example:

    >>> weights = [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]
    >>> figure = plot_alignment(weights, ["das", "Haus", "</s>"], ["house", "</s>"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['das', 'Haus', '</s>']
    """
    figures.require_matplotlib()
    panel = _Panel("plot_alignment", weights, source_tokens, target_tokens, title)
    letters = Lettering(panel.texts)
    is_ours = ax is None
    if is_ours:
        cell = panel.fitting_cell(LARGEST_INCHES)
        ax = figures.new_figure(*panel.inches(cell, letters)).subplots()
        ax.set_anchor("W")  # a title that is wider than the map begins with it
    else:
        cell = panel.cell_within(ax)
    image = panel.draw(ax, cell, letters, cmap)
    # An inset is exactly as tall as the map, whatever the layout does to the axes.
    width = 0.12 / (panel.size[1] * cell)
    bar = ax.figure.colorbar(image, cax=ax.inset_axes([1 + width, 0, width, 1]), ticks=[0, 0.5, 1])
    figures.soften(bar, max(6.0, font_points(cell) - 2))
    if is_ours:
        figures.grow(ax.figure)
    return ax.figure


def plot_alignments(examples, *, titles=None, columns=None, cmap="Blues"):
    """Draws several alignments in a grid with one color scale.

    Args:
        examples: Sequence of `(weights, source_tokens, target_tokens)`, each as
            `plot_alignment` takes them; their lengths may differ.
        titles: Optional sequence of str, one an example.
        columns: Positive int, panels side by side; None chooses by their number.
        cmap: Name of a matplotlib colormap.

    Returns:
        The matplotlib `Figure` that holds all pictures, one axes an example, in order.

    Raises:
        ValueError: If there is no example, an example is not as `plot_alignment` needs it, or
            the number of titles differs.
        ImportError: If matplotlib is not installed.

    Example:

    >>> figure = plot_alignments([([[1.0]], "a", "b"), ([[0.5, 0.5]], "ab", "c")])
    >>> [axes.images[0].get_array().shape for axes in figure.axes[:2]]
    [(1, 1), (1, 2)]
    """
    figures.require_matplotlib()
    panels = _panels(examples, titles)
    if columns is None:
        columns = math.ceil(math.sqrt(len(panels)))
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ValueError(
            f"plot_alignments expects `columns` to be a positive int. Received: columns={columns!r}"
        )
    columns = min(columns, len(panels))
    letters = Lettering([text for panel in panels for text in panel.texts])
    cell = min(panel.fitting_cell(1.3 * LARGEST_INCHES / columns) for panel in panels)
    sizes = [panel.inches(cell, letters) for panel in panels]
    widths = [max(size[0] for size in sizes[i::columns]) for i in range(columns)]
    rows = range(0, len(panels), columns)
    heights = [max(size[1] for size in sizes[i : i + columns]) for i in rows]
    figure = figures.new_figure(sum(widths) + 0.4, sum(heights))
    grid = figure.subplots(
        len(heights), columns, squeeze=False, width_ratios=widths, height_ratios=heights
    )
    axes = list(grid.flat)
    for spare in axes[len(panels) :]:
        spare.remove()
    axes = axes[: len(panels)]
    for ax in axes:
        ax.set_anchor("NW")  # titles of a column start at one line
    images = [panel.draw(ax, cell, letters, cmap) for panel, ax in zip(panels, axes, strict=True)]
    bar = figure.colorbar(
        images[0], ax=axes, ticks=[0, 0.5, 1], shrink=0.6, aspect=30, pad=0.02, panchor=False
    )
    figures.soften(bar, max(6.0, font_points(cell) - 2))
    return figure


class _Panel:
    """One heat map: its checked weights and tokens, and how large they want to be."""

    def __init__(self, owner, weights, source_tokens, target_tokens, title):
        self.source, self.target = (
            [shortened(token_text(owner, name, token)) for token in tokens]
            for name, tokens in (("source_tokens", source_tokens), ("target_tokens", target_tokens))
        )
        self.title = title_text(owner, "titles" if owner.endswith("s") else "title", title)
        self.size = (len(self.target), len(self.source))
        self.weights = _checked(owner, weights, self.size)

    @property
    def texts(self):
        return [*self.source, *self.target, self.title]

    def fitting_cell(self, largest):
        """Returns the side of a cell in inches, smaller where many must fit."""
        return min(CELL_INCHES, largest / max(self.size))

    def cell_within(self, ax):
        """Returns the side of a cell in inches inside given axes."""
        box = ax.get_position()
        inches = ax.figure.get_size_inches()
        return min(
            box.height * inches[1] / self.size[0], box.width * inches[0] / self.size[1], CELL_INCHES
        )

    def inches(self, cell, letters):
        """Returns width and height of the picture with its labels, and breaks a long title."""
        points = font_points(cell)
        step = _step(cell)
        left = max(letters.inches(text, points)[0] for text in self.target[::step])
        top, right = points / 72, BAR_INCHES
        angles = self._rotations(cell)
        for place in range(0, len(self.source), step):
            width, height = letters.inches(self.source[place], points)
            up, along = (
                math.sin(math.radians(angles[place])),
                math.cos(math.radians(angles[place])),
            )
            top = max(top, width * up + height * along)
            if angles[place]:
                beside = (self.size[1] - place - 0.5) * cell
                right = max(right, width * along + height * up - beside)
        map_inches = self.size[1] * cell
        title = (0.0, 0.0)
        if self.title:
            room = max(LARGEST_INCHES - left, map_inches + right)
            self.title = letters.wrapped(self.title, _title_points(points), room)
            title = letters.inches(self.title, _title_points(points))
        return (
            left + max(map_inches + right, title[0]) + 0.3,
            self.size[0] * cell + top + title[1] + (0.5 if self.title else 0.4),
        )

    def draw(self, ax, cell, letters, cmap):
        """Draws the map into `ax` and returns the image."""
        rows, columns = self.size
        points = font_points(cell)
        image = ax.imshow(self.weights, cmap=cmap, vmin=0, vmax=1, interpolation="nearest")
        style = letters.style | {"fontsize": points}
        step = _step(cell)
        ax.xaxis.tick_top()
        ax.set_xticks(
            range(0, columns, step),
            [letters.drawable(text) for text in self.source[::step]],
            **style,
        )
        angles = self._rotations(cell)[::step]
        for label, angle in zip(ax.get_xticklabels(), angles, strict=True):
            if angle:
                label.set(rotation=angle, rotation_mode="anchor", ha="left")
            if angle == 90:
                label.set(va="center")
        ax.set_yticks(
            range(0, rows, step),
            [letters.drawable(text) for text in self.target[::step]],
            **style,
        )
        if cell * 72 > 6:  # thinner cells would drown in lines
            ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
            ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
            ax.grid(which="minor", color="0.88", linewidth=0.6)
        ax.tick_params(which="both", length=0)
        ax.spines[:].set_color("0.8")
        if self.title:
            ax.set_title(
                letters.drawable(self.title),
                **letters.style,
                fontsize=_title_points(points),
                loc="left",
            )
        return image

    def _rotations(self, cell):
        """Returns the angle of each source label: 0 for all that fit side by side, else steep.

        If few are too long (an end mark among characters), only those are turned.
        """
        em = font_points(cell)
        fits = [ems(text) * em <= cell * 72 for text in self.source]
        steep = 45 if cell >= 0.2 else 90
        few = fits.count(False) <= max(1, 0.15 * len(fits))
        return [0 if fit and few else steep for fit in fits]


def _step(cell):
    """Every how many-th label fits beside cells of so many inches."""
    return max(1, math.ceil(FONT_POINTS[0] * 1.2 / (cell * 72)))


def _title_points(points):
    return max(points, 9) + 1


def _panels(examples, titles):
    examples = list(examples)
    titles = [None] * len(examples) if titles is None else list(titles)
    if not examples or len(titles) != len(examples):
        raise ValueError(
            "plot_alignments expects at least one example, and one title for each or none. "
            f"Received: {len(examples)} examples, {len(titles)} titles"
        )
    for number, example in enumerate(examples):
        if len(example) != 3:
            raise ValueError(
                "plot_alignments expects each example to be (weights, source_tokens, "
                f"target_tokens). Received: example {number} with {len(example)} parts"
            )
    pairs = zip(examples, titles, strict=True)
    return [_Panel("plot_alignments", *example, title) for example, title in pairs]


def _checked(owner, weights, size):
    """Returns the weights as a float array of `size`, between 0 and 1."""
    array = figures.numbers(owner, "weights", weights)
    if array.shape != size or 0 in size:
        raise ValueError(
            f"{owner} expects `weights` of shape (target, source) with one row a target token and "
            f"one column a source token, at least one of each. Cut padding off first, "
            f"`weights[:target_length, :source_length]`. Received: weights.shape={array.shape}, "
            f"{size[0]} target tokens, {size[1]} source tokens"
        )
    figures.check_shares(owner, array)
    return array
