"""Attention over an image, word by word, as figure 3 of Xu et al. 2015
(https://arxiv.org/abs/1502.03044): the image, then for each word the same image, colored at
the attended locations.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attention import validation
from keras_attention.plotting import _figures
from keras_attention.plotting._figures import LARGEST_INCHES
from keras_attention.plotting._text_layout import (
    TextLayout,
    format_title,
    format_token,
    shorten_text,
    write_figure_title,
)

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Vermilion of Okabe and Ito: distinct from black, white and gray for every kind of color vision.
OVERLAY_COLOR = (213 / 255, 94 / 255, 0.0)
PANEL_INCHES = 1.6
TOKEN_POINTS = 9.0
MAX_COLUMNS = 6
INTERPOLATIONS = ("nearest", "bilinear", "bicubic")


def plot_image_attention(
    image: npt.ArrayLike,
    weights: npt.ArrayLike,
    tokens: Sequence[str | bytes],
    *,
    title: str | None = None,
    columns: int | None = None,
    interpolation: str = "nearest",
    alpha: float = 0.7,
    cmap: "str | Colormap | None" = None,
) -> "Figure":
    """Plots an image, and for each generated token the attended locations.

    Args:
        image: Array `(height, width)` in gray, or `(height, width, 1)`, 3 or 4 channels: whole
            numbers from 0 to 255, or others from 0 to 1 (from 0 to 255 if one is above 1).
        weights: Array `(tokens, rows, columns)` of numbers from 0 to 1, the weights of the grid
            of locations that covers the image; the numbers of one token sum to 1 or less.
            An array `(tokens, locations)` is interpreted as a square grid.
        tokens: Sequence of str (or UTF-8 bytes), one per panel; long ones are wrapped.
        title: Optional str, above the figure.
        columns: Positive int, the number of panels side by side; None chooses it.
        interpolation: "nearest" shows the locations, "bilinear" or "bicubic" blur their edges.
        alpha: Number from 0 to 1, the opacity of the full color; smaller weights are more
            transparent, and a weight of 0 is invisible.
        cmap: Name of a matplotlib colormap; None uses an orange that is visible on black and
            on white, without red-green vision, too.

    Returns:
        The matplotlib `Figure`: an axes with the image, then one per token, in order, whose
        second image contains the weights. The full color means the token's largest weight, or
        four times the mean weight if that is more: uniform weights are faint.

    Raises:
        ValueError: If an array has a different shape, is empty, not finite or out of range, the
            number of tokens differs, or an option is invalid.
        ImportError: If matplotlib is not installed.

    Example:

    >>> image, weights = np.zeros((6, 6)), np.eye(2, 4).reshape(2, 2, 2)
    >>> figure = plot_image_attention(image, weights, ["two", "digits"])
    >>> [axes.get_title() for axes in figure.axes]
    ['', 'two', 'digits']
    >>> figure.axes[1].images[1].get_array().tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    _figures.require_matplotlib()
    from matplotlib.colors import ListedColormap

    owner = "plot_image_attention"
    cmap = ListedColormap([OVERLAY_COLOR]) if cmap is None else _figures.get_colormap(owner, cmap)
    texts = [format_token(owner, "tokens", token) for token in tokens]
    title = format_title(owner, "title", title)
    image = validate_image(owner, image)
    weights = validate_image_weights(owner, weights, len(texts))
    if columns is None:
        columns = min(len(texts) + 1, MAX_COLUMNS)
    columns = validation.check_positive_int(owner, "columns", columns)
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"{owner} expects `interpolation` to be one of {', '.join(INTERPOLATIONS)}. "
            f"Received: interpolation={interpolation!r}"
        )
    alpha = validation.check_number_in_range(owner, "alpha", alpha, 0, 1)
    text_layout = TextLayout([*map(shorten_text, texts), title])
    panels = len(texts) + 1
    rows = math.ceil(panels / columns)
    height, width = image.shape[:2]
    side = min(PANEL_INCHES, LARGEST_INCHES / columns, LARGEST_INCHES / rows)
    across, down = side * min(1, width / height), side * min(1, height / width)
    texts = [
        text_layout.wrap_text(
            " ".join(map(shorten_text, text.split(" "))), TOKEN_POINTS, max(across - 0.1, 1.0)
        )
        for text in texts
    ]
    sizes = [text_layout.inches(text, TOKEN_POINTS) for text in texts]
    figure = _figures.new_figure(
        columns * (max(across, *(size[0] for size in sizes)) + 0.1),
        rows * (down + 0.2 + max(size[1] for size in sizes)),
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in grid.flat:
        ax.axis("off")
    for spare in list(grid.flat)[panels:]:
        spare.remove()
    image_options = {"cmap": "gray", "vmin": 0, "vmax": 1, "extent": (0, width, height, 0)}
    for number, ax in enumerate(list(grid.flat)[:panels]):
        ax.imshow(image, **image_options)
        if not number:
            continue
        token_weights = weights[number - 1]
        full = _figures.choose_full_weight(token_weights)
        ax.imshow(
            token_weights,
            cmap=cmap,
            vmin=0,
            vmax=full,
            alpha=alpha * np.clip(token_weights / full, 0, 1),
            interpolation=interpolation,
            extent=image_options["extent"],
        )
        ax.set_title(
            text_layout.replace_missing(texts[number - 1]),
            fontsize=TOKEN_POINTS,
            **text_layout.style,
        )
    if title:
        write_figure_title(figure, title, text_layout)
    _figures.enlarge_to_fit(figure)
    return figure


def validate_image(owner: str, image: npt.ArrayLike) -> np.ndarray:
    """Returns the image as numbers from 0 to 1, `(height, width)` or with 3 or 4 channels."""
    array = _figures.make_float_array(owner, "image", image)
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
            f"{owner} expects `image` to contain numbers from 0 to 1 or from 0 to 255. "
            f"Received: numbers from {array.min()} to {array.max()}"
        )
    return array / 255 if whole or array.max() > 1 else array


def validate_image_weights(owner: str, weights: npt.ArrayLike, tokens: int) -> np.ndarray:
    """Returns the weights as `(tokens, rows, columns)`."""
    array = _figures.make_float_array(owner, "weights", weights)
    if array.ndim == 2:
        side = math.isqrt(array.shape[1])
        if side * side == array.shape[1]:
            array = array.reshape(len(array), side, side)
    if array.ndim != 3 or len(array) != tokens or not array.size:
        raise ValueError(
            f"{owner} expects `weights` of shape (tokens, rows, columns), or (tokens, locations) "
            "of a square grid, for at least one token. Received: "
            f"weights.shape={np.shape(weights)}, {tokens} tokens"
        )
    _figures.check_weights(owner, array)
    return array
