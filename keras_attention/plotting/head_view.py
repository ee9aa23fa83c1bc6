"""The head view: two columns of tokens, with lines from queries to the keys they attend to.

The plot follows Vig 2019 (https://arxiv.org/abs/1906.05714), without interaction.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attention import validation
from keras_attention.plotting import _figures
from keras_attention.plotting._figures import LARGEST_INCHES
from keras_attention.plotting._panel_grid import POINTS, PanelGrid
from keras_attention.plotting._text_layout import FONT_POINTS, TextLayout, label_step
from keras_attention.plotting.heads import (
    format_tokens,
    resolve_indices,
    validate_head_weights,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

ROW_INCHES = 0.22
LINES_INCHES = (2.2, 4.4)  # distance from queries to keys; the second for many tokens
# Petroff 2021 (https://arxiv.org/abs/2107.02270): distinct without red-green vision, too.
HEAD_COLORS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
BAND = 0.5  # fraction of a row over which the lines of all heads are spread
MAX_LINE_WIDTH, MIN_LINE_WIDTH = 1.6, 0.4  # in points
MIN_OPACITY = 1 / 512  # below this no color changes
LEGEND_COLUMNS = 4


def plot_head_view(
    weights: npt.ArrayLike,
    query_tokens: Sequence[str | bytes],
    key_tokens: Sequence[str | bytes] | None = None,
    *,
    query: int | None = None,
    heads: Sequence[int] | None = None,
    title: str | None = None,
    cmap: "str | Colormap | None" = None,
    vmax: float = 1.0,
) -> "Figure":
    """Plots query tokens at the left, key tokens at the right, and lines between them.

    The opacity of a line is its weight over `vmax`; its color identifies the head. Lines of
    several heads start and end side by side, the first head's on top, so that none hides another.

    Args:
        weights: Array `(heads, query, key)` of numbers from 0 to 1, the weights of one layer
            without padding; lines with an opacity below 1/512 are omitted.
        query_tokens: Sequence of `query` str (or UTF-8 bytes). A single str is a sequence of
            characters.
        key_tokens: Sequence of `key` str (or UTF-8 bytes); None if they are the queries, as in
            self-attention.
        query: Optional int, the only query whose lines are drawn, counted from 0, or backward
            from -1; the others turn gray.
        heads: Optional sequence of int, the heads to plot, counted from 0; labels in the figure
            count from 1. The color of a head does not depend on the selection.
        title: Optional str, above the figure.
        cmap: Name of a matplotlib colormap; None uses ten colors that are distinct without
            red-green vision, too, or as many hues as heads if there are more.
        vmax: Number above 0, the weight of an opaque line. The default 1 makes figures
            comparable. None uses four times the mean weight or the largest, whichever is more
            (1 at most), for weights that are spread over many tokens.

    Returns:
        The matplotlib `Figure`. Its only axes contains the query tokens as its first texts, then
        the key tokens, and one collection of lines for each head, in order.

    Raises:
        ValueError: If `weights` has a different shape, is empty, or contains numbers that are not
            finite or outside of 0 to 1, or there is no such query, head or colormap.
        ImportError: If matplotlib is not installed.

    Example:

    >>> weights = [[[0.5, 0.5], [0.0, 1.0]]]  # one head, two queries, two keys
    >>> figure = plot_head_view(weights, ["das", "Haus"], ["the", "house"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['das', 'Haus', 'the', 'house']
    >>> [len(lines.get_segments()) for lines in figure.axes[0].collections]
    [3]

    Reference: Vig 2019, https://arxiv.org/abs/1906.05714.
    """
    _figures.require_matplotlib()
    from matplotlib.collections import LineCollection

    owner = "plot_head_view"
    queries, keys = format_tokens(owner, query_tokens, key_tokens)
    array = validate_head_weights(owner, weights, len(queries), len(keys))
    heads = resolve_indices(owner, "heads", heads, len(array))
    array = np.minimum(array / _figures.resolve_vmax(owner, vmax, [array[heads]]), 1.0)
    if query is not None:
        query = _resolve_query(owner, query, len(queries))
        others = np.arange(len(queries)) != query
        array[:, others] = 0.0
    text_layout = TextLayout([*queries, *keys, title or ""])
    rows = max(len(queries), len(keys))
    row = min(ROW_INCHES, 1.3 * LARGEST_INCHES / rows)
    grid = PanelGrid()
    across = np.clip(0.4 * rows * row, *LINES_INCHES)
    axes = grid.axes(0.0, 0.0, across, rows * row)
    axes.set(xlim=(0, 1), ylim=(rows - 0.5, -0.5))
    axes.set_axis_off()
    _write_tokens(axes, queries, row, text_layout, is_left=True, dark=query)
    _write_tokens(axes, keys, row, text_layout)
    colors, places = _choose_colors(owner, len(array), cmap), _compute_line_offsets(len(heads))
    width = np.clip(BAND * row * 72 / len(heads), MIN_LINE_WIDTH, MAX_LINE_WIDTH)
    handles = []
    for number, (head, place) in enumerate(zip(heads, places, strict=True)):
        segments, opacities = _make_lines(array[head], place)
        lines = LineCollection(
            segments,
            colors=[(*colors[head], float(opacity)) for opacity in opacities],
            linewidths=width,
            zorder=2 - number / len(heads),
        )
        axes.add_collection(lines, autolim=False)
        handles.append(_make_legend_entry(head, colors[head]))
    axes.legend(
        handles=handles,
        ncols=min(len(handles), LEGEND_COLUMNS),
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.3,
        handlelength=0.9,
        columnspacing=1.2,
        frameon=False,
        fontsize=POINTS,
    )
    if title:
        write_title(axes, title, text_layout)
    return grid.fit_to_axes()


def _resolve_query(owner, query, count):
    """Returns the index of the query from 0."""
    whole = validation.check_int_at_least(owner, "query", query, -count)
    return validation.check_number_in_range(owner, "query", whole, -count, count - 1) % count


def _write_tokens(axes, texts, row, text_layout, is_left=False, dark=None):
    """Writes a column of tokens, or a subset of very many; if one is dark, others are gray."""
    points = max(FONT_POINTS[0], min(POINTS + 1, row * 72 * 0.6))
    step = label_step(row)
    alone = step > 1 and dark is not None  # other labels would overlap it
    for place in [dark] if alone else range(0, len(texts), step):
        axes.annotate(
            text_layout.replace_missing(texts[place]),
            (0.0 if is_left else 1.0, place),
            xytext=(-4 if is_left else 4, 0),
            textcoords="offset points",
            ha="right" if is_left else "left",
            va="center",
            color="black" if dark in (None, place) else "0.65",
            fontsize=points,
            annotation_clip=False,
            **text_layout.style,
        )


def _choose_colors(owner, count, cmap):
    """Returns a color `(red, green, blue)` for each head."""
    from matplotlib.colors import hsv_to_rgb, to_rgb

    if cmap is None and count > len(HEAD_COLORS):
        return [tuple(hsv_to_rgb((head / count, 0.9, 0.8))) for head in range(count)]
    if cmap is None:
        return [to_rgb(color) for color in HEAD_COLORS[:count]]
    colors = _figures.get_colormap(owner, cmap)
    if colors.N < 256:  # a qualitative colormap
        return [colors(head % colors.N)[:3] for head in range(count)]
    return [colors((head + 0.5) / count)[:3] for head in range(count)]


def _compute_line_offsets(count):
    """Returns the offset of each head's lines from the middle of a row."""
    return BAND * ((np.arange(count) + 0.5) / count - 0.5)


def _make_lines(weights, place):
    """Returns lines `(number, 2 ends, x and y)` and their weights, smallest first."""
    query, key = np.nonzero(weights > MIN_OPACITY)
    found = weights[query, key]
    order = np.argsort(found, kind="stable")
    query, key, found = query[order], key[order], found[order]
    starts = np.stack([np.zeros(len(query)), query + place], axis=-1)
    ends = np.stack([np.ones(len(key)), key + place], axis=-1)
    return np.stack([starts, ends], axis=1), found


def _make_legend_entry(head, color):
    """Returns the entry of a head in the legend."""
    from matplotlib.patches import Patch

    return Patch(color=color, label=f"head {head + 1}")
