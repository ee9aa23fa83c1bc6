"""A page to explore the weights of a document's words and sentences."""

from collections.abc import Sequence

import numpy.typing as npt

from keras_attention.plotting._explorer_page import (
    ExplorerPage,
    make_page,
    make_token_list,
    round_number,
)
from keras_attention.plotting.text_heatmap import WeightedText


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
    entries = []
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
        entries.append(sentence)
    return make_page(owner, title, "Document", {"kind": "text", "sentences": entries})
