"""Pages to explore an NTM's memory over time, and attention over an image and over a document."""

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
    round_number,
)
from keras_attention.plotting.image_attention import validate_image, validate_image_weights
from keras_attention.plotting.ntm import validate_array
from keras_attention.plotting.text_heatmap import WeightedText


def explore_memory_use(
    write_weights: npt.ArrayLike,
    read_weights: npt.ArrayLike,
    memory_matrix: npt.ArrayLike | None = None,
    *,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with a Neural Turing Machine's heads and memory, step by step.

    Each head has a map with a row per slot and a column per step. A slider chooses a step: the
    page marks its column, lists the slots that the heads use, and shows the memory after it.

    Args:
        write_weights: Array `(time, write_heads, slots)` of numbers from 0 to 1, one batch element
            of the history that `keras_attention.NTM` returns.
        read_weights: Array `(time, read_heads, slots)` of numbers from 0 to 1.
        memory_matrix: Optional array `(time, slots, word_size)`, the memory after each step:
            `history["memory"][element]`.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`.

    Raises:
        ValueError: If an array is empty, has another shape, or contains numbers that are not
            finite or out of range.

    Example:

    >>> weights = [[[1.0, 0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]]  # 2 steps, 1 head, 4 slots
    >>> page = explore_memory_use(weights, weights, np.zeros((2, 4, 3)))
    >>> page
    ExplorerPage('Memory', 1 view)
    """
    owner = "explore_memory_use"
    axes = "time, write_heads, slots"
    writing = validate_array(owner, "write_weights", write_weights, axes)
    steps, _, slots = writing.shape
    axes = "time, read_heads, slots"
    reading = validate_array(owner, "read_weights", read_weights, axes, (steps, None, slots))
    view = {
        "kind": "memory",
        "steps": steps,
        "slots": slots,
        "heads": [
            {"title": f"{name} head {head + 1}", "weights": encode_weights(weights[:, head])}
            for name, weights in (("Write", writing), ("Read", reading))
            for head in range(weights.shape[1])
        ],
        "memory": None,
    }
    if memory_matrix is not None:
        axes, shape = "time, slots, word_size", (steps, slots, None)
        matrix = validate_array(owner, "memory_matrix", memory_matrix, axes, shape, False)
        full = float(np.abs(matrix).max()) or 1.0
        view["memory"] = {
            "width": matrix.shape[2],
            "full": full,
            "numbers": encode_weights((matrix / full + 1.0) / 2.0),
        }
    return make_page(owner, title, "Memory", view)


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
        ValueError: If an array has another shape, is empty, not finite or out of range, or the
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


def explore_text_weights(
    sentences: Sequence[Sequence[str | bytes]],
    word_weights: npt.ArrayLike | Sequence[npt.ArrayLike],
    sentence_weights: npt.ArrayLike | None = None,
    *,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with a document: the weights of its words and sentences, with numbers.

    The shades are those of `plot_text_weights`.

    Args:
        sentences: Sequence of sequences of str (or UTF-8 bytes), the words of each sentence.
        word_weights: Array `(sentences, words)` of numbers from 0 to 1, 0 beyond the words of
            a sentence; or a sequence with an array for each sentence.
        sentence_weights: Optional array `(sentences,)` of numbers from 0 to 1.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`.

    Raises:
        ValueError: If there is no word, the numbers of sentences, words and weights differ, or
            a weight is not a finite number from 0 to 1.

    Example:

    >>> page = explore_text_weights([["a", "good", "film"], ["see", "it"]],
    ...                             [[0.1, 0.8, 0.1], [0.5, 0.5, 0]], [0.9, 0.1])
    >>> page
    ExplorerPage('Document', 1 view)

    Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, figure 5.
    """
    owner = "explore_text_weights"
    text = WeightedText(owner, sentences, word_weights, sentence_weights)
    found = []
    for number, words in enumerate(text.sentences):
        weights, shades = text.word_weights[number], text.word_shades[number]
        sentence = {
            "words": make_token_list(owner, "sentences", words),
            "weights": [round_number(weight) for weight in weights],
            "shades": [round_number(shade) for shade in shades],
            "weight": None,
        }
        if text.sentence_weights is not None:
            sentence["weight"] = round_number(text.sentence_weights[number])
            sentence["shade"] = round_number(text.sentence_shades[number])
        found.append(sentence)
    return make_page(owner, title, "Document", {"kind": "text", "sentences": found})
