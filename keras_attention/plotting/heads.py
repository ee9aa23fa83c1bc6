"""The heads of attention layers: a map for every head, in one grid."""

import operator

import numpy as np

from keras_attention.plotting import figures
from keras_attention.plotting.figures import LARGEST_INCHES
from keras_attention.plotting.lettering import Lettering, ems, font_points, label_step, token_text
from keras_attention.plotting.sheet import POINTS, Sheet

# All in inches.
NARROWEST_COLUMN = 0.6  # of a head's name
LOWEST_ROW = 0.18  # of a layer's name
UPRIGHT_NAME = 0.6  # a row must be as high for a name that is turned
GAP = 0.12


def plot_heads(
    weights,
    query_tokens,
    key_tokens=None,
    *,
    layers=None,
    heads=None,
    title=None,
    cmap="Blues",
    vmax=1.0,
):
    """Draws every head as a heat map, heads side by side and layers one below the other.

    All maps have one color scale. Tokens stand on the outer maps only: key tokens
    above the first layer, query tokens at the left of the first head.

    Args:
        weights: Array `(heads, query, key)`, or `(layers, heads, query, key)`, of numbers from 0
            to 1, without padding; a row of zeros (nothing attended to) is allowed.
        query_tokens: Sequence of `query` str (or UTF-8 bytes). A str counts as its characters.
        key_tokens: Sequence of `key` str (or UTF-8 bytes); None if they are the queries, as in
            self-attention.
        layers: Optional sequence of int, the layers to draw, counted from 0; names in the picture
            count from 1.
        heads: Optional sequence of int, the heads to draw, counted likewise.
        title: Optional str, above all.
        cmap: Name of a matplotlib colormap; light should mean little.
        vmax: Number above 0, the weight that has the full color: 1 by default, so that pictures
            can be compared. None takes four times the mean weight or the largest, whichever
            is more (1 at most), for weights that are spread over many tokens.

    Returns:
        The matplotlib `Figure`: an axes a head, layer by layer, then the color bar.

    Raises:
        ValueError: If `weights` is of another shape, is empty, or holds numbers that are not
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
    cmap = figures.colormap(owner, cmap)
    queries, keys = token_columns(owner, query_tokens, key_tokens)
    array = head_weights(owner, weights, len(queries), len(keys), or_layers=True)
    is_one_layer = array.ndim == 3
    array = array[None] if is_one_layer else array
    layers = chosen(owner, "layers", layers, array.shape[0])
    heads = chosen(owner, "heads", heads, array.shape[1])
    letters = Lettering([*queries, *keys, title or ""])
    vmax = figures.color_limit(owner, vmax, [array[np.ix_(layers, heads)]])
    largest = 1.3 * LARGEST_INCHES
    cell = figures.cell_inches(len(queries), len(keys), largest / len(layers), largest / len(heads))
    width, height = len(keys) * cell[1], len(queries) * cell[0]
    across, down = max(width, NARROWEST_COLUMN) + GAP, max(height, LOWEST_ROW) + GAP
    sheet = Sheet()
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            axes = sheet.axes(column * across, row * down, width, height)
            image = _draw(axes, array[layer, head], min(cell), cmap, vmax)
            if row == 0:
                _write_keys(axes, keys, cell[1], letters)
                axes.set_title(f"head {head + 1}", fontsize=POINTS + 1)
            if column == 0:
                _mark(axes.yaxis, queries, cell[0], letters)
            if column == 0 and not is_one_layer:
                turned = {"rotation": 0, "ha": "right", "va": "center"}
                style = turned if height < UPRIGHT_NAME else {}
                axes.set_ylabel(f"layer {layer + 1}", fontsize=POINTS + 1, **style)
    sheet.bar(image, (len(heads) - 1) * across + width + GAP)
    if title:
        write_title(sheet.figure.axes[0], title, letters)
    return sheet.finished()


def token_columns(owner, query_tokens, key_tokens):
    """Returns the tokens of queries and keys as they are drawn; keys that are None are queries."""
    queries = [token_text(owner, "query_tokens", token) for token in query_tokens]
    if key_tokens is None:
        return queries, queries
    return queries, [token_text(owner, "key_tokens", token) for token in key_tokens]


def head_weights(owner, weights, queries, keys, or_layers=False):
    """Returns the weights as a float array of one layer, or of several if they may be."""
    array = figures.numbers(owner, "weights", weights)
    axes = (3, 4) if or_layers else (3,)
    if array.ndim not in axes or array.shape[-2:] != (queries, keys) or 0 in array.shape:
        layers = " or (layers, heads, query, key)" if or_layers else ""
        raise ValueError(
            f"{owner} expects `weights` of shape (heads, query, key){layers}, with one row a query "
            "token and one column a key token, at least one of each. Take one row of a batch"
            f"{'' if or_layers else ' and one layer'}, and cut padding off first, "
            "`weights[..., :query_length, :key_length]`. Received: "
            f"weights.shape={array.shape}, {queries} query tokens, {keys} key tokens"
        )
    figures.check_shares(owner, array)
    return np.clip(array, 0.0, 1.0)


def chosen(owner, name, numbers, count):
    """Returns the numbers of the chosen heads or layers, counted from 0; None chooses all."""
    if numbers is None:
        return list(range(count))
    try:
        found = [_place(number, count) for number in numbers]
    except (TypeError, IndexError):
        found = []
    if not found:
        raise ValueError(
            f"{owner} expects `{name}` to be a sequence of at least one int from 0 to {count - 1}. "
            f"Received: {name}={numbers!r}"
        )
    return found


def write_title(axes, title, letters):
    """Writes a line above an axes and all that stands over it, from its left end on."""
    box = axes.get_tightbbox(axes.figure.canvas.get_renderer())
    inside, points = axes.get_window_extent(), 72 / axes.figure.dpi
    axes.annotate(
        letters.drawable(title),
        (0.0, 1.0),
        xytext=((box.x0 - inside.x0) * points, (box.y1 - inside.y1) * points + 6),
        xycoords="axes fraction",
        textcoords="offset points",
        annotation_clip=False,
        fontsize=POINTS + 2,
        **letters.style,
    )


def _place(number, count):
    """Returns a place from 0; one below 0 counts from the end, as in a list."""
    if isinstance(number, bool):
        raise TypeError
    return range(count)[operator.index(number)]


def _draw(axes, weights, cell, cmap, vmax):
    """Draws one map without tokens and returns the image."""
    scale = {"cmap": cmap, "vmin": 0, "vmax": vmax}
    image = axes.imshow(weights, **scale, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    if cell * 72 > 6:  # thinner cells would drown in lines
        rows, columns = weights.shape
        axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="0.88", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_color("0.8")
    return image


def _mark(axis, texts, cell, letters):
    """Writes as many tokens along an axis as have room, and returns their labels."""
    step = label_step(cell)
    labels = [letters.drawable(text) for text in texts[::step]]
    axis.set_ticks(range(0, len(texts), step), labels, **letters.style, fontsize=font_points(cell))
    return axis.get_ticklabels()


def _write_keys(axes, keys, cell, letters):
    """Writes the key tokens above a map; what is wider than a cell is turned.

    A few are turned upright, so that they do not lean over the tokens of the next map; if they
    are more, all lean.
    """
    axes.xaxis.tick_top()
    labels = _mark(axes.xaxis, keys, cell, letters)
    fits = [ems(label.get_text()) * font_points(cell) <= cell * 72 for label in labels]
    few = fits.count(False) <= max(1, 0.15 * len(fits))
    angle = 90 if few or cell < 0.2 else 45
    for label, is_upright in zip(labels, fits, strict=True):
        if not (is_upright and few):
            va = "center" if angle == 90 else "baseline"
            label.set(rotation=angle, rotation_mode="anchor", ha="left", va=va)
