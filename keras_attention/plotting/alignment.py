"""Plots of alignments: the attention of each target token to the source tokens."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attention import validation
from keras_attention.plotting import _figures
from keras_attention.plotting._figures import LARGEST_INCHES
from keras_attention.plotting._text_layout import (
    TextLayout,
    estimate_ems,
    font_points,
    format_title,
    format_token,
    label_step,
    shorten_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

BAR_INCHES = 0.6  # width of the color bar beside the map, with its numbers


def plot_alignment(
    weights: npt.ArrayLike,
    source_tokens: Sequence[str | bytes],
    target_tokens: Sequence[str | bytes],
    *,
    title: str | None = None,
    ax: "Axes | None" = None,
    cmap: "str | Colormap" = "Blues",
    vmax: float = 1.0,
) -> "Figure":
    """Plots an alignment as a heat map, source tokens on top, target tokens at the left.

    Letters have at least 7.5 points: with more than about 90 tokens, only every second one or
    fewer are labeled. If one sequence is much longer than the other, cells are oblong.

    Args:
        weights: Array `(target, source)` of numbers from 0 to 1, without padding; a row of
            zeros (nothing attended to) is allowed.
        source_tokens: Sequence of `source` str (or UTF-8 bytes). A single str is a sequence of
            characters. Tokens of more than 60 characters are shortened in the middle.
        target_tokens: Sequence of `target` str (or UTF-8 bytes).
        title: Optional str.
        ax: Optional matplotlib axes to plot into; None creates a figure of fitting size.
        cmap: Name of a matplotlib colormap; light should mean small.
        vmax: Number above 0, the weight with the full color. The default 1 makes figures
            comparable. None uses four times the mean weight or the largest, whichever is more
            (1 at most), for weights that are spread over many tokens.

    Returns:
        The matplotlib `Figure` with the plot.

    Raises:
        ValueError: If `weights` is not of shape `(target, source)`, is empty, or contains numbers
            that are not finite or outside of 0 to 1; or an option is invalid.
        ImportError: If matplotlib is not installed.

    Example:

    >>> weights = [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]
    >>> figure = plot_alignment(weights, ["das", "Haus", "</s>"], ["house", "</s>"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['das', 'Haus', '</s>']
    """
    cmap = _figures.get_colormap("plot_alignment", cmap)
    panel = _Panel("plot_alignment", weights, source_tokens, target_tokens, title)
    vmax = _figures.resolve_vmax("plot_alignment", vmax, [panel.weights])
    text_layout = TextLayout(panel.texts)
    owns_figure = ax is None
    if owns_figure:
        cell = _figures.cell_inches(*panel.size)
        ax = _figures.new_figure(*panel.inches(cell, text_layout)).subplots()
        ax.set_anchor("W")  # a title that is wider than the map starts at its left edge
    else:
        cell = panel.fit_cell(ax)
    image = panel.draw(ax, cell, text_layout, cmap, vmax)
    # An inset has exactly the height of the map, whatever the layout does to the axes.
    width = 0.12 / (panel.size[1] * cell[1])
    bar = ax.figure.colorbar(image, cax=ax.inset_axes([1 + width, 0, width, 1]))
    _figures.style_color_bar(bar, font_points(min(cell)))
    if owns_figure:
        _figures.enlarge_to_fit(ax.figure)
    return ax.figure


def plot_alignments(
    examples: Iterable[tuple[npt.ArrayLike, Sequence[str | bytes], Sequence[str | bytes]]],
    *,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    cmap: "str | Colormap" = "Blues",
    vmax: float = 1.0,
) -> "Figure":
    """Plots several alignments in a grid with one color scale.

    Args:
        examples: Sequence of `(weights, source_tokens, target_tokens)`, each as in
            `plot_alignment`; their lengths may differ.
        titles: Optional sequence of str, one per example.
        columns: Positive int, the number of panels side by side; None chooses it.
        cmap: Name of a matplotlib colormap.
        vmax: The weight with the full color, or None, as in `plot_alignment`.

    Returns:
        The matplotlib `Figure` with all plots, one axes per example, in order.

    Raises:
        ValueError: If there is no example, an example is not valid for `plot_alignment`, or
            the number of titles differs.
        ImportError: If matplotlib is not installed.

    Example:

    >>> figure = plot_alignments([([[1.0]], "a", "b"), ([[0.5, 0.5]], "ab", "c")])
    >>> [axes.images[0].get_array().shape for axes in figure.axes[:2]]
    [(1, 1), (1, 2)]
    """
    cmap = _figures.get_colormap("plot_alignments", cmap)
    panels = _make_panels(examples, titles)
    vmax = _figures.resolve_vmax("plot_alignments", vmax, [panel.weights for panel in panels])
    if columns is None:
        columns = math.ceil(math.sqrt(len(panels)))
    columns = validation.check_positive_int("plot_alignments", "columns", columns)
    columns = min(columns, len(panels))
    text_layout = TextLayout([text for panel in panels for text in panel.texts])
    most = [max(panel.size[axis] for panel in panels) for axis in (0, 1)]
    largest = 1.3 * LARGEST_INCHES / columns
    cell = _figures.cell_inches(*most, largest, largest)
    sizes = [panel.inches(cell, text_layout) for panel in panels]
    widths = [max(size[0] for size in sizes[i::columns]) for i in range(columns)]
    rows = range(0, len(panels), columns)
    heights = [max(size[1] for size in sizes[i : i + columns]) for i in rows]
    figure = _figures.new_figure(sum(widths) + 0.4, sum(heights))
    grid = figure.subplots(
        len(heights), columns, squeeze=False, width_ratios=widths, height_ratios=heights
    )
    axes = list(grid.flat)
    for spare in axes[len(panels) :]:
        spare.remove()
    axes = axes[: len(panels)]
    for ax in axes:
        ax.set_anchor("NW")  # aligns the titles of a column
    images = [
        panel.draw(ax, cell, text_layout, cmap, vmax)
        for panel, ax in zip(panels, axes, strict=True)
    ]
    bar = figure.colorbar(images[0], ax=axes, shrink=0.6, aspect=30, pad=0.02, panchor=False)
    _figures.style_color_bar(bar, font_points(min(cell)))
    return figure


class _Panel:
    """One heat map: its checked weights and tokens, and its preferred size."""

    def __init__(self, owner, weights, source_tokens, target_tokens, title):
        self.source, self.target = (
            [shorten_text(format_token(owner, name, token)) for token in tokens]
            for name, tokens in (("source_tokens", source_tokens), ("target_tokens", target_tokens))
        )
        self.title = format_title(owner, "titles" if owner.endswith("s") else "title", title)
        self.size = (len(self.target), len(self.source))
        self.weights = validate_alignment_weights(owner, weights, self.size)

    @property
    def texts(self):
        return [*self.source, *self.target, self.title]

    def fit_cell(self, ax):
        """Returns height and width of a cell in inches inside existing axes."""
        box = ax.get_position()
        inches = ax.figure.get_size_inches()
        return _figures.cell_inches(*self.size, box.height * inches[1], box.width * inches[0])

    def inches(self, cell, text_layout):
        """Returns width and height of the plot with its labels; wraps a long title."""
        down, across = cell
        beside = font_points(down)
        left = max(text_layout.inches(text, beside)[0] for text in self.target[:: label_step(down)])
        points = font_points(across)
        top, right = points / 72, BAR_INCHES
        angles = self._choose_label_angles(across)
        for place in range(0, len(self.source), label_step(across)):
            width, height = text_layout.inches(self.source[place], points)
            up, along = (
                math.sin(math.radians(angles[place])),
                math.cos(math.radians(angles[place])),
            )
            top = max(top, width * up + height * along)
            if angles[place]:
                after = (self.size[1] - place - 0.5) * across
                right = max(right, width * along + height * up - after)
        map_inches = self.size[1] * across
        title = (0.0, 0.0)
        if self.title:
            room = max(LARGEST_INCHES - left, map_inches + right)
            self.title = text_layout.wrap_text(self.title, _title_points(points), room)
            title = text_layout.inches(self.title, _title_points(points))
        return (
            left + max(map_inches + right, title[0]) + 0.3,
            self.size[0] * down + top + title[1] + (0.5 if self.title else 0.4),
        )

    def draw(self, ax, cell, text_layout, cmap, vmax):
        """Plots the map into `ax` and returns the image."""
        rows, columns = self.size
        down, across = cell
        points = font_points(across)
        image = ax.imshow(
            self.weights,
            cmap=cmap,
            vmin=0,
            vmax=vmax,
            aspect=down / across,
            interpolation="nearest",
        )
        ax.xaxis.tick_top()
        step = label_step(across)
        ax.set_xticks(
            range(0, columns, step),
            [text_layout.replace_missing(text) for text in self.source[::step]],
            **text_layout.style,
            fontsize=points,
        )
        angles = self._choose_label_angles(across)[::step]
        for label, angle in zip(ax.get_xticklabels(), angles, strict=True):
            if angle:
                label.set(rotation=angle, rotation_mode="anchor", ha="left")
            if angle == 90:
                label.set(va="center")
        step = label_step(down)
        ax.set_yticks(
            range(0, rows, step),
            [text_layout.replace_missing(text) for text in self.target[::step]],
            **text_layout.style,
            fontsize=font_points(down),
        )
        if min(cell) * 72 > 6:  # lines would cover smaller cells
            ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
            ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
            ax.grid(which="minor", color="0.88", linewidth=0.6)
        ax.tick_params(which="both", length=0)
        ax.spines[:].set_color("0.8")
        if self.title:
            ax.set_title(
                text_layout.replace_missing(self.title),
                **text_layout.style,
                fontsize=_title_points(points),
                loc="left",
            )
        return image

    def _choose_label_angles(self, across):
        """Returns the angle of each source label: 0 if all fit side by side, else steep.

        If only a few are too long (an EOS token among characters), only those are rotated.
        """
        em = font_points(across)
        fits = [estimate_ems(text) * em <= across * 72 for text in self.source]
        steep = 45 if across >= 0.2 else 90
        few = fits.count(False) <= max(1, 0.15 * len(fits))
        return [0 if fit and few else steep for fit in fits]


def _title_points(points):
    return max(points, 9) + 1


def check_examples(
    owner: str,
    examples: Iterable[tuple[npt.ArrayLike, Sequence[str | bytes], Sequence[str | bytes]]],
    titles: Sequence[str] | None,
) -> tuple[list, list]:
    """Returns the examples, each of three parts, and as many titles; None if there is none."""
    examples = list(examples)
    titles = [None] * len(examples) if titles is None else list(titles)
    if not examples or len(titles) != len(examples):
        raise ValueError(
            f"{owner} expects at least one example, and one title for each or none. "
            f"Received: {len(examples)} examples, {len(titles)} titles"
        )
    for number, example in enumerate(examples):
        if len(example) != 3:
            raise ValueError(
                f"{owner} expects each example to be (weights, source_tokens, "
                f"target_tokens). Received: example {number} with {len(example)} parts"
            )
    return examples, titles


def _make_panels(examples, titles):
    pairs = zip(*check_examples("plot_alignments", examples, titles), strict=True)
    return [_Panel("plot_alignments", *example, title) for example, title in pairs]


def validate_alignment_weights(
    owner: str, weights: npt.ArrayLike, size: tuple[int, int]
) -> np.ndarray:
    """Returns the weights as a float array of `size`, between 0 and 1."""
    array = _figures.make_float_array(owner, "weights", weights)
    if array.shape != size or 0 in size:
        raise ValueError(
            f"{owner} expects `weights` of shape (target, source) with a row per target token and "
            f"a column per source token, at least one of each. Remove padding first, "
            f"`weights[:target_length, :source_length]`. Received: weights.shape={array.shape}, "
            f"{size[0]} target tokens, {size[1]} source tokens"
        )
    _figures.check_weights(owner, array)
    return array
