"""The head view: two columns of tokens, and lines from those that look to those that are seen.

The picture is that of Vig 2019 (https://arxiv.org/abs/1906.05714), without its mouse.
"""

import numpy as np

from keras_attention import checks
from keras_attention.plotting import figures
from keras_attention.plotting.figures import LARGEST_INCHES
from keras_attention.plotting.heads import chosen, head_weights, token_columns, write_title
from keras_attention.plotting.lettering import FONT_POINTS, Lettering, label_step
from keras_attention.plotting.sheet import POINTS, Sheet

ROW_INCHES = 0.22
LINES_INCHES = (2.2, 4.4)  # from the queries to the keys, more where there are many
# Of Petroff 2021 (https://arxiv.org/abs/2107.02270): told apart without red-green vision too.
HEAD_COLORS = (
    *("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"),
    *("#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"),
)
BAND = 0.5  # of a row, over which the lines of all heads are spread
THICKEST, THINNEST = 1.6, 0.4  # lines, in points
FAINTEST = 1 / 512  # no color has a level below
LEGEND_COLUMNS = 4


def plot_head_view(
    weights,
    query_tokens,
    key_tokens=None,
    *,
    query=None,
    heads=None,
    title=None,
    cmap=None,
    vmax=1.0,
):
    """Draws tokens that look at the left, tokens that are seen at the right, and lines between.

    The opacity of a line is its weight over `vmax`, its color tells the head. Lines of several
    heads leave and arrive side by side, the first head's on top, so that none hides another.

    Args:
        weights: Array `(heads, query, key)` of numbers from 0 to 1, the weights of one layer
            without padding; no line is drawn for an opacity below 1/512.
        query_tokens: Sequence of `query` str (or UTF-8 bytes). A str counts as its characters.
        key_tokens: Sequence of `key` str (or UTF-8 bytes); None if they are the queries, as in
            self-attention.
        query: Optional int, the one query whose lines are drawn, counted from 0, or from -1
            backward; the others turn gray.
        heads: Optional sequence of int, the heads to draw, counted from 0; names in the picture
            count from 1. A head keeps its color whichever are chosen.
        title: Optional str, above all.
        cmap: Name of a matplotlib colormap; None takes ten colors that are told apart without
            red-green vision too, or as many hues as there are heads if they are more.
        vmax: Number above 0, the weight of an opaque line: 1 by default, so that pictures can be
            compared. None takes four times the mean weight or the largest, whichever is more
            (1 at most), for weights that are spread over many tokens.

    Returns:
        The matplotlib `Figure`. Its one axes holds the query tokens as its first texts, the key
        tokens as the next, and one collection of lines for each head, in order.

    Raises:
        ValueError: If `weights` is of another shape, is empty, or holds numbers that are not
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
    figures.require_matplotlib()
    from matplotlib.collections import LineCollection

    owner = "plot_head_view"
    queries, keys = token_columns(owner, query_tokens, key_tokens)
    array = head_weights(owner, weights, len(queries), len(keys))
    heads = chosen(owner, "heads", heads, len(array))
    array = np.minimum(array / figures.color_limit(owner, vmax, [array[heads]]), 1.0)
    if query is not None:
        query = _query(owner, query, len(queries))
        others = np.arange(len(queries)) != query
        array[:, others] = 0.0
    letters = Lettering([*queries, *keys, title or ""])
    rows = max(len(queries), len(keys))
    row = min(ROW_INCHES, 1.3 * LARGEST_INCHES / rows)
    sheet = Sheet()
    across = np.clip(0.4 * rows * row, *LINES_INCHES)
    axes = sheet.axes(0.0, 0.0, across, rows * row)
    axes.set(xlim=(0, 1), ylim=(rows - 0.5, -0.5))
    axes.set_axis_off()
    _write(axes, queries, row, letters, is_left=True, dark=query)
    _write(axes, keys, row, letters)
    colors, places = _colors(owner, len(array), cmap), _places(len(heads))
    width = np.clip(BAND * row * 72 / len(heads), THINNEST, THICKEST)
    handles = []
    for number, (head, place) in enumerate(zip(heads, places, strict=True)):
        segments, opacities = _lines(array[head], place)
        lines = LineCollection(
            segments,
            colors=[(*colors[head], float(opacity)) for opacity in opacities],
            linewidths=width,
            zorder=2 - number / len(heads),
        )
        axes.add_collection(lines, autolim=False)
        handles.append(_key_of(head, colors[head]))
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
        write_title(axes, title, letters)
    return sheet.finished()


def _query(owner, query, count):
    """Returns the place of the query from 0."""
    whole = checks.int_at_least(owner, "query", query, -count)
    return checks.number_in_range(owner, "query", whole, -count, count - 1) % count


def _write(axes, texts, row, letters, is_left=False, dark=None):
    """Writes a column of tokens, or of very many some; if one is dark, the others are gray."""
    points = max(FONT_POINTS[0], min(POINTS + 1, row * 72 * 0.6))
    step = label_step(row)
    alone = step > 1 and dark is not None  # there is no room for it beside others
    for place in [dark] if alone else range(0, len(texts), step):
        axes.annotate(
            letters.drawable(texts[place]),
            (0.0 if is_left else 1.0, place),
            xytext=(-4 if is_left else 4, 0),
            textcoords="offset points",
            ha="right" if is_left else "left",
            va="center",
            color="black" if dark in (None, place) else "0.65",
            fontsize=points,
            annotation_clip=False,
            **letters.style,
        )


def _colors(owner, count, cmap):
    """Returns a color `(red, green, blue)` for each of all heads."""
    from matplotlib.colors import hsv_to_rgb, to_rgb

    if cmap is None and count > len(HEAD_COLORS):
        return [tuple(hsv_to_rgb((head / count, 0.9, 0.8))) for head in range(count)]
    if cmap is None:
        return [to_rgb(color) for color in HEAD_COLORS[:count]]
    colors = figures.colormap(owner, cmap)
    if colors.N < 256:  # made to be told apart
        return [colors(head % colors.N)[:3] for head in range(count)]
    return [colors((head + 0.5) / count)[:3] for head in range(count)]


def _places(count):
    """Returns where in a row the lines of each head leave and arrive, 0 is its middle."""
    return BAND * ((np.arange(count) + 0.5) / count - 0.5)


def _lines(weights, place):
    """Returns lines `(number, 2 ends, x and y)` and their weights, the faintest first."""
    query, key = np.nonzero(weights > FAINTEST)
    found = weights[query, key]
    order = np.argsort(found, kind="stable")
    query, key, found = query[order], key[order], found[order]
    starts = np.stack([np.zeros(len(query)), query + place], axis=-1)
    ends = np.stack([np.ones(len(key)), key + place], axis=-1)
    return np.stack([starts, ends], axis=1), found


def _key_of(head, color):
    """Returns the entry of a head in the legend."""
    from matplotlib.patches import Patch

    return Patch(color=color, label=f"head {head + 1}")
