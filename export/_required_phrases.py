"""Must-contain phrases of a translator: their texts as ids, checked."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attention.export.search_options import SearchOptions
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.tokenizers.base import BOS_ID, UNKNOWN_ID

OWNER = "Translator.beam"
#: Maximum numbers of phrases of a text in `translate_with_phrases`, and of tokens of a phrase.
MAX_PHRASES, MAX_PHRASE_TOKENS = 8, 16
MAX_SHOWN = 100  # characters of a text in an error


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
    never = _list_impossible_ids(search)
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


def encode_phrase_lines(texts: tf.Tensor, target: Tokenizer, search: SearchOptions) -> tf.Tensor:
    """Returns the phrases of texts `(batch,)`, one per line, for the signature of an export.

    The graph fails with an `InvalidArgumentError` that names the first phrase or text at fault.

    Args:
        texts: String tensor `(batch,)`. Empty lines are ignored.
        target: The tokenizer.
        search: The resolved `SearchOptions` of the export.

    Returns:
        Int32 `(batch, MAX_PHRASES, MAX_PHRASE_TOKENS)`, as `Constraints(phrases=)` takes them.
    """
    lines = tf.strings.strip(tf.strings.split(texts, "\n"))
    lines = tf.ragged.boolean_mask(lines, lines != "")
    rows, phrases = tf.cast(lines.value_rowids(), tf.int32), lines.flat_values
    ids, lengths = target.encode(phrases, MAX_PHRASE_TOKENS + 1)
    is_counted = tf.sequence_mask(lengths, tf.shape(ids)[1])
    is_never = tf.reduce_any(ids[..., None] == tf.constant(_list_impossible_ids(search)), axis=-1)
    is_impossible = tf.reduce_any(is_counted & is_never, axis=1) | (lengths == 0)
    totals = tf.math.unsorted_segment_sum(lengths, rows, tf.size(texts))
    checks = [
        _check_each(
            is_impossible,
            "phrases are expected to have words that the target tokenizer knows and the export "
            "permits",
            rows,
            phrases,
        ),
        _check_each(
            lengths > MAX_PHRASE_TOKENS,
            f"phrases are expected to have at most {MAX_PHRASE_TOKENS} tokens",
            rows,
            phrases,
        ),
        _check_each(
            tf.cast(lines.row_lengths(), tf.int32) > MAX_PHRASES,
            f"phrases are expected to be at most {MAX_PHRASES} lines",
            tf.range(tf.size(texts)),
            texts,
        ),
        _check_each(
            totals > search.max_length,
            f"phrases are expected to have at most {search.max_length} tokens together, the "
            "maximum length of an output",
            tf.range(tf.size(texts)),
            texts,
        ),
    ]
    with tf.control_dependencies(checks):
        ids = tf.pad(ids[:, :MAX_PHRASE_TOKENS], [[0, 0], [0, MAX_PHRASE_TOKENS]])
    nested = tf.RaggedTensor.from_value_rowids(
        ids[:, :MAX_PHRASE_TOKENS], lines.value_rowids(), tf.size(texts, tf.int64)
    )
    return nested.to_tensor(shape=[None, MAX_PHRASES, MAX_PHRASE_TOKENS])


def _check_each(is_wrong, message, rows, texts):
    """Returns an op that fails if an element is wrong, and names the first such row and text."""
    row = tf.strings.as_string(tf.boolean_mask(rows, is_wrong)[:1])
    text = tf.strings.unicode_transcode(tf.boolean_mask(texts, is_wrong)[:1], "UTF-8", "UTF-8")
    text = tf.strings.substr(text, 0, MAX_SHOWN, "UTF8_CHAR")
    message = tf.strings.join([f"{message}. Received: row ", row, ": ", text])
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(is_wrong)), [message])


def _list_impossible_ids(search):
    """Returns the ids that no output has before its end."""
    constraints = search.constraints
    ids = [UNKNOWN_ID, BOS_ID, *constraints.special_ids.end_ids, *constraints.suppress_ids]
    return sorted(set(ids))


def _contains(target, word, never):
    """Returns whether a word has one of the ids."""
    ids, lengths = (x.numpy() for x in target.encode(tf.constant([word])))
    return np.isin(ids[0, : lengths[0]], never).any()
