"""Plots of the heads of attention layers: one heat map per head, in one grid."""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attention.plotting import _figures
from keras_attention.plotting._figures import LARGEST_INCHES
from keras_attention.plotting._panel_grid import POINTS, PanelGrid
from keras_attention.plotting._text_layout import (
    TextLayout,
    estimate_ems,
    font_points,
    format_token,
    label_step,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# All in inches.
MIN_COLUMN_WIDTH = 0.6  # for the label of a head
MIN_ROW_HEIGHT = 0.18  # for the label of a layer
MIN_NAME_HEIGHT = 0.6  # minimum height of a row for a rotated label
GAP = 0.12


def plot_heads(
    weights: npt.ArrayLike,
    query_tokens: Sequence[str | bytes],
    key_tokens: Sequence[str | bytes] | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    title: str | None = None,
    cmap: "str | Colormap" = "Blues",
    vmax: float = 1.0,
) -> "Figure":
    """Plots every head as a heat map, heads side by side and layers below each other.

    All maps share one color scale. Only the outer maps have tokens: key tokens
    above the first layer, query tokens at the left of the first head.

    Args:
        weights: Array `(heads, query, key)`, or `(layers, heads, query, key)`, of numbers from 0
            to 1, without padding; a row of zeros (nothing attended to) is allowed.
        query_tokens: Sequence of `query` str (or UTF-8 bytes). A single str is a sequence of
            characters.
        key_tokens: Sequence of `key` str (or UTF-8 bytes); None if they are the queries, as in
            self-attention.
        layers: Optional sequence of int, the layers to plot, counted from 0; labels in the figure
            count from 1.
        heads: Optional sequence of int, the heads to plot, counted likewise.
        title: Optional str, above the figure.
        cmap: Name of a matplotlib colormap; light should mean small.
        vmax: Number above 0, the weight with the full color. The default 1 makes figures
            comparable. None uses four times the mean weight or the largest, whichever is more
            (1 at most), for weights that are spread over many tokens.

    Returns:
        The matplotlib `Figure`: one axes per head, layer by layer, then the color bar.

    Raises:
        ValueError: If `weights` has a different shape, is empty, or contains numbers that are not
            finite or outside of 0 to 1; or there is no such layer, head or colormap.
        ImportError: If matplotlib is not installed.

    Example:

    >>> weights = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])  # one layer of two heads
    >>> figure = plot_heads(weights, ["the", "house", "</s>"])
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['head 1', 'head 2']
    >>> [label.get_text() for label in figure.axes[1].get_xticklabels()]
    ['the', 'house', '</s>']

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, figures 3 to 5.
    """
    owner = "plot_heads"
    cmap = _figures.get_colormap(owner, cmap)
    queries, keys = format_tokens(owner, query_tokens, key_tokens)
    array = validate_head_weights(owner, weights, len(queries), len(keys), or_layers=True)
    is_one_layer = array.ndim == 3
    array = array[None] if is_one_layer else array
    layers = resolve_indices(owner, "layers", layers, array.shape[0])
    heads = resolve_indices(owner, "heads", heads, array.shape[1])
    text_layout = TextLayout([*queries, *keys, title or ""])
    vmax = _figures.resolve_vmax(owner, vmax, [array[np.ix_(layers, heads)]])
    largest = 1.3 * LARGEST_INCHES
    cell = _figures.cell_inches(
        len(queries), len(keys), largest / len(layers), largest / len(heads)
    )
    width, height = len(keys) * cell[1], len(queries) * cell[0]
    across, down = max(width, MIN_COLUMN_WIDTH) + GAP, max(height, MIN_ROW_HEIGHT) + GAP
    grid = PanelGrid()
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            axes = grid.axes(column * across, row * down, width, height)
            image = _draw_heatmap(axes, array[layer, head], min(cell), cmap, vmax)
            if row == 0:
                _write_keys(axes, keys, cell[1], text_layout)
                axes.set_title(f"head {head + 1}", fontsize=POINTS + 1)
            if column == 0:
                _label_ticks(axes.yaxis, queries, cell[0], text_layout)
            if column == 0 and not is_one_layer:
                rotated = {"rotation": 0, "ha": "right", "va": "center"}
                style = rotated if height < MIN_NAME_HEIGHT else {}
                axes.set_ylabel(f"layer {layer + 1}", fontsize=POINTS + 1, **style)
    grid.draw_color_bar(image, (len(heads) - 1) * across + width + GAP)
    if title:
        write_title(grid.figure.axes[0], title, text_layout)
    return grid.fit_to_axes()


def format_tokens(
    owner: str, query_tokens: Sequence[str | bytes], key_tokens: Sequence[str | bytes] | None
) -> tuple[list[str], list[str]]:
    """Returns the tokens of queries and keys for drawing; None keys are the queries."""
    queries = [format_token(owner, "query_tokens", token) for token in query_tokens]
    if key_tokens is None:
        return queries, queries
    return queries, [format_token(owner, "key_tokens", token) for token in key_tokens]


def validate_head_weights(
    owner: str, weights: npt.ArrayLike, queries: int, keys: int, or_layers: bool = False
) -> np.ndarray:
    """Returns the weights as a float array of one layer, or also of several if permitted."""
    array = _figures.make_float_array(owner, "weights", weights)
    axes = (3, 4) if or_layers else (3,)
    if array.ndim not in axes or array.shape[-2:] != (queries, keys) or 0 in array.shape:
        layers = " or (layers, heads, query, key)" if or_layers else ""
        raise ValueError(
            f"{owner} expects `weights` of shape (heads, query, key){layers}, with one row per "
            "query token and one column per key token, at least one of each. Take one batch element"
            f"{'' if or_layers else ' and one layer'}, and remove padding first, "
            "`weights[..., :query_length, :key_length]`. Received: "
            f"weights.shape={array.shape}, {queries} query tokens, {keys} key tokens"
        )
    _figures.check_weights(owner, array)
    return np.clip(array, 0.0, 1.0)


def resolve_indices(owner: str, name: str, numbers: Sequence[int] | None, count: int) -> list[int]:
    """Returns the indices of the selected heads or layers; None selects all."""
    if numbers is None:
        return list(range(count))
    try:
        found = [_resolve_index(number, count) for number in numbers]
    except (TypeError, IndexError):
        found = []
    if not found:
        raise ValueError(
            f"{owner} expects `{name}` to be a sequence of at least one int from 0 to {count - 1}. "
            f"Received: {name}={numbers!r}"
        )
    return found


def write_title(axes: "Axes", title: str | None, text_layout: "TextLayout") -> None:
    """Writes a line above an axes and its labels, starting at their left edge."""
    box = axes.get_tightbbox(axes.figure.canvas.get_renderer())
    inside, points = axes.get_window_extent(), 72 / axes.figure.dpi
    axes.annotate(
        text_layout.replace_missing(title),
        (0.0, 1.0),
        xytext=((box.x0 - inside.x0) * points, (box.y1 - inside.y1) * points + 6),
        xycoords="axes fraction",
        textcoords="offset points",
        annotation_clip=False,
        fontsize=POINTS + 2,
        **text_layout.style,
    )


def _resolve_index(number, count):
    """Returns a nonnegative index; a negative one counts from the end, as in a list."""
    if isinstance(number, bool):
        raise TypeError
    return range(count)[operator.index(number)]


def _draw_heatmap(axes, weights, cell, cmap, vmax):
    """Plots one map without tokens and returns the image."""
    scale = {"cmap": cmap, "vmin": 0, "vmax": vmax}
    image = axes.imshow(weights, **scale, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    if cell * 72 > 6:  # lines would cover smaller cells
        rows, columns = weights.shape
        axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="0.88", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_color("0.8")
    return image


def _label_ticks(axis, texts, cell, text_layout):
    """Labels an axis with as many tokens as fit, and returns the labels."""
    step = label_step(cell)
    labels = [text_layout.replace_missing(text) for text in texts[::step]]
    axis.set_ticks(
        range(0, len(texts), step), labels, **text_layout.style, fontsize=font_points(cell)
    )
    return axis.get_ticklabels()


def _write_keys(axes, keys, cell, text_layout):
    """Writes the key tokens above a map; tokens wider than a cell are rotated.

    A few wide tokens are rotated upright, so that they do not overlap the tokens of the next map;
    if there are more, all are slanted.
    """
    axes.xaxis.tick_top()
    labels = _label_ticks(axes.xaxis, keys, cell, text_layout)
    fits = [estimate_ems(label.get_text()) * font_points(cell) <= cell * 72 for label in labels]
    few = fits.count(False) <= max(1, 0.15 * len(fits))
    angle = 90 if few or cell < 0.2 else 45
    for label, is_upright in zip(labels, fits, strict=True):
        if not (is_upright and few):
            va = "center" if angle == 90 else "baseline"
            label.set(rotation=angle, rotation_mode="anchor", ha="left", va=va)
