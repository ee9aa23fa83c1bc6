"""Must-contain phrases of a translator: their texts as ids, checked."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attention.export.search_options import SearchOptions
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.tokenizers.base import BOS_ID, UNKNOWN_ID

OWNER = "Translator.beam"


def encode_phrases(
    phrases: Sequence[Sequence[str]], count: int, target: Tokenizer, search: SearchOptions
) -> np.ndarray | None:
    """Returns the phrases of `count` texts as `Constraints(phrases=)` takes them, or None if none.

    The number of phrases and their length are padded to a power of two, so that few graphs serve
    all. Each phrase is tokenized by itself.

    Args:
        phrases: For each text a list of phrases; an empty list requires nothing.
        count: The number of texts.
        target: The tokenizer.
        search: The resolved `SearchOptions` of the translator.

    Raises:
        ValueError: If there are not `count` lists of texts, or no output can contain a phrase.
    """
    is_nested = isinstance(phrases, (list, tuple)) and len(phrases) == count
    if not is_nested or not all(isinstance(own, (list, tuple)) for own in phrases):
        raise ValueError(
            f"{OWNER} expects `phrases` to be a list of phrases for each of the {count} texts, "
            f"such as [['red car'], []]. Received: phrases={phrases!r}"
        )
    places = [(row, place, one) for row, own in enumerate(phrases) for place, one in enumerate(own)]
    for row, place, one in places:
        if not isinstance(one, str) or not one.strip():
            raise ValueError(
                f"{OWNER} expects `phrases` to be texts that are not empty. "
                f"Received: phrases[{row}][{place}]={one!r}"
            )
    if not places:
        return None
    ids, lengths = (x.numpy() for x in target.encode(tf.constant([one for *_, one in places])))
    constraints = search.constraints
    never = [UNKNOWN_ID, BOS_ID, *constraints.special_ids.end_ids, *constraints.suppress_ids]
    total = np.zeros(count, int)
    for (row, place, one), own, length in zip(places, ids, lengths, strict=True):
        if length == 0 or np.isin(own[:length], never).any():
            words = [word for word in one.split() if _contains(target, word, never)] or [one]
            raise ValueError(
                f"{OWNER} expects phrases of words that the target tokenizer knows and the search "
                f"options permit, which excludes {', '.join(map(repr, words))}. "
                f"Received: phrases[{row}][{place}]={one!r}"
            )
        total[row] += length
    row = int(total.argmax())
    if total[row] > search.max_length:
        raise ValueError(
            f"{OWNER} expects the phrases of a text to have at most max_length={search.max_length} "
            f"tokens together. Received: {total[row]} in phrases[{row}]={list(phrases[row])}"
        )
    sizes = max(map(len, phrases)), int(lengths.max())
    padded = np.zeros((count, *(1 << (size - 1).bit_length() for size in sizes)), "int32")
    for (row, place, _), own, length in zip(places, ids, lengths, strict=True):
        padded[row, place, :length] = own[:length]
    return padded


def _contains(target, word, never):
    """Returns whether a word has one of the ids."""
    ids, lengths = (x.numpy() for x in target.encode(tf.constant([word])))
    return np.isin(ids[0, : lengths[0]], never).any()
