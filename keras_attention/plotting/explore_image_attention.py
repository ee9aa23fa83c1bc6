"""A page to explore attention over an image, token by token."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_attention.plotting import _figures
from keras_attention.plotting._explorer_page import (
    ExplorerPage,
    encode_bytes,
    encode_weights,
    make_page,
    make_token_list,
)
from keras_attention.plotting.image_attention import validate_image, validate_image_weights


def explore_image_attention(
    image: npt.ArrayLike,
    weights: npt.ArrayLike,
    tokens: Sequence[str | bytes],
    *,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with an image; a token shows the attended locations in orange.

    Args:
        image: Array `(height, width)` in gray, or `(height, width, 1)`, 3 or 4 channels: whole
            numbers from 0 to 255, or others from 0 to 1, as in `plot_image_attention`.
        weights: Array `(tokens, rows, columns)` of numbers from 0 to 1, the weights of the grid
            of locations that covers the image; or `(tokens, locations)` of a square grid.
        tokens: Sequence of str (or UTF-8 bytes).
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`. As in `plot_image_attention`, the full color means the token's largest
        weight, or four times the mean weight if that is more.

    Raises:
        ValueError: If an array has a different shape, is empty, not finite or out of range, or the
            number of tokens differs.

    Example:

    >>> image, weights = np.zeros((6, 6)), np.eye(2, 4).reshape(2, 2, 2)
    >>> page = explore_image_attention(image, weights, ["two", "digits"])
    >>> page
    ExplorerPage('Attention over an image', 1 view)
    """
    owner = "explore_image_attention"
    words = make_token_list(owner, "tokens", tokens)
    image = validate_image(owner, image)
    weights = validate_image_weights(owner, weights, len(words["tokens"]))
    height, width = image.shape[:2]
    if image.ndim == 2:
        image = np.repeat(image[:, :, None], 3, axis=2)
    if image.shape[2] == 3:
        image = np.concatenate([image, np.ones((height, width, 1))], axis=2)
    view = {
        "kind": "image",
        "height": height,
        "width": width,
        "image": encode_bytes(np.rint(255 * image).astype("uint8")),
        "words": words,
        "rows": weights.shape[1],
        "columns": weights.shape[2],
        "weights": encode_weights(weights),
        "full": [_figures.choose_full_weight(one) for one in weights],
    }
    return make_page(owner, title, "Attention over an image", view)
