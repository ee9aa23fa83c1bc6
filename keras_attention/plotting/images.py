"""Attention over a picture, word by word, as figure 3 of Xu et al. 2015
(https://arxiv.org/abs/1502.03044): the picture, then for each word the same picture, colored where
the model looked.
"""

import math

import numpy as np

from keras_attention.plotting import figures
from keras_attention.plotting.figures import LARGEST_INCHES
from keras_attention.plotting.lettering import (
    Lettering,
    shortened,
    title_text,
    token_text,
    write_above,
)

# Vermilion of Okabe and Ito: it differs from black, white and gray to every kind of color vision.
OVERLAY_COLOR = (213 / 255, 94 / 255, 0.0)
PANEL_INCHES = 1.6
TOKEN_POINTS = 9.0
MOST_COLUMNS = 6
SMOOTHINGS = ("nearest", "bilinear", "bicubic")


def plot_image_attention(
    image,
    weights,
    tokens,
    *,
    title=None,
    columns=None,
    smoothing="nearest",
    alpha=0.7,
    cmap=None,
):
    """Draws a picture, and over it where a model looked while it wrote each token.

    Args:
        image: Array `(height, width)` in gray, or `(height, width, 1)`, 3 or 4 channels: whole
            numbers from 0 to 255, or others from 0 to 1 (from 0 to 255 if one is above 1).
        weights: Array `(tokens, rows, columns)` of numbers from 0 to 1, the weights of the grid
            of locations that covers the picture; the numbers of one token sum to 1, or to less.
            An array `(tokens, locations)` is taken for a square grid.
        tokens: Sequence of str (or UTF-8 bytes), one a panel, in lines where it is long.
        title: Optional str, above all.
        columns: Positive int, panels side by side; None chooses by their number.
        smoothing: "nearest" shows the locations, "bilinear" or "bicubic" blur their edges.
        alpha: Number from 0 to 1, how much the full color covers the picture; smaller weights
            cover less, a weight of 0 nothing.
        cmap: Name of a matplotlib colormap; None covers with one orange, which is seen on black,
            on white, and without red-green vision.

    Returns:
        The matplotlib `Figure`: an axes with the picture, then one a token, in order, whose
        second image holds the weights. The full color is that of the token's largest weight, or
        of four times the mean weight where that is more: even weights cover lightly.

    Raises:
        ValueError: If an array is of another shape, empty, not finite or out of range, the number
            of tokens differs, or an option is not as above.
        ImportError: If matplotlib is not installed.

    Example:

    >>> picture, looks = np.zeros((6, 6)), np.eye(2, 4).reshape(2, 2, 2)
    >>> figure = plot_image_attention(picture, looks, ["two", "digits"])
    >>> [axes.get_title() for axes in figure.axes]
    ['', 'two', 'digits']
    >>> figure.axes[1].images[1].get_array().tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    figures.require_matplotlib()
    from matplotlib.colors import ListedColormap

    owner = "plot_image_attention"
    cmap = ListedColormap([OVERLAY_COLOR]) if cmap is None else figures.colormap(owner, cmap)
    texts = [token_text(owner, "tokens", token) for token in tokens]
    title = title_text(owner, "title", title)
    image = _picture(owner, image)
    weights = _weights(owner, weights, len(texts))
    if columns is None:
        columns = min(len(texts) + 1, MOST_COLUMNS)
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ValueError(
            f"{owner} expects `columns` to be a positive int. Received: columns={columns!r}"
        )
    if smoothing not in SMOOTHINGS:
        raise ValueError(
            f"{owner} expects `smoothing` to be one of {', '.join(SMOOTHINGS)}. "
            f"Received: smoothing={smoothing!r}"
        )
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise ValueError(
            f"{owner} expects `alpha` to be a number from 0 to 1. Received: alpha={alpha!r}"
        )
    letters = Lettering([*map(shortened, texts), title])
    panels = len(texts) + 1
    rows = math.ceil(panels / columns)
    height, width = image.shape[:2]
    side = min(PANEL_INCHES, LARGEST_INCHES / columns, LARGEST_INCHES / rows)
    across, down = side * min(1, width / height), side * min(1, height / width)
    texts = [
        letters.wrapped(
            " ".join(map(shortened, text.split(" "))), TOKEN_POINTS, max(across - 0.1, 1.0)
        )
        for text in texts
    ]
    sizes = [letters.inches(text, TOKEN_POINTS) for text in texts]
    figure = figures.new_figure(
        columns * (max(across, *(size[0] for size in sizes)) + 0.1),
        rows * (down + 0.2 + max(size[1] for size in sizes)),
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in grid.flat:
        ax.axis("off")
    for spare in list(grid.flat)[panels:]:
        spare.remove()
    shown = {"cmap": "gray", "vmin": 0, "vmax": 1, "extent": (0, width, height, 0)}
    for number, ax in enumerate(list(grid.flat)[:panels]):
        ax.imshow(image, **shown)
        if not number:
            continue
        look = weights[number - 1]
        full = figures.full_weight(look)
        ax.imshow(
            look,
            cmap=cmap,
            vmin=0,
            vmax=full,
            alpha=alpha * np.clip(look / full, 0, 1),
            interpolation=smoothing,
            extent=shown["extent"],
        )
        ax.set_title(letters.drawable(texts[number - 1]), fontsize=TOKEN_POINTS, **letters.style)
    if title:
        write_above(figure, title, letters)
    figures.grow(figure)
    return figure


def _picture(owner, image):
    """Returns the picture as numbers from 0 to 1, `(height, width)` or with 3 or 4 channels."""
    array = figures.numbers(owner, "image", image)
    whole = np.issubdtype(np.asarray(image).dtype, np.integer)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,), (4,)) or not array.size:
        raise ValueError(
            f"{owner} expects `image` of shape (height, width), or (height, width, channels) with "
            f"1, 3 or 4 channels. Received: image.shape={np.shape(image)}"
        )
    if not np.isfinite(array).all() or array.min() < 0 or array.max() > 255:
        raise ValueError(
            f"{owner} expects `image` to hold numbers from 0 to 1 or from 0 to 255. "
            f"Received: numbers from {array.min()} to {array.max()}"
        )
    return array / 255 if whole or array.max() > 1 else array


def _weights(owner, weights, tokens):
    """Returns the weights as `(tokens, rows, columns)`."""
    array = figures.numbers(owner, "weights", weights)
    if array.ndim == 2:
        side = math.isqrt(array.shape[1])
        if side * side == array.shape[1]:
            array = array.reshape(len(array), side, side)
    if array.ndim != 3 or len(array) != tokens or not array.size:
        raise ValueError(
            f"{owner} expects `weights` of shape (tokens, rows, columns), or (tokens, locations) "
            "of a square grid, one row for each of at least one token. Received: "
            f"weights.shape={np.shape(weights)}, {tokens} tokens"
        )
    figures.check_shares(owner, array)
    return array
