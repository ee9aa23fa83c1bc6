"""Tokenizers with a list of tokens: a lookup table in the graph, the file `vocab.txt`."""

import collections
import re
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers.base import (
    FIRST_TOKEN_ID,
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Tokenizer,
)

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))


class VocabularyTokenizer(Tokenizer):
    """The base class of tokenizers that split text and look up each token in a list.

    Args:
        vocabulary: Sequence of distinct non-empty strings, normalized; the first gets id 4.
        lowercase: Whether texts are lower-cased first.
        symbols: Strings that are always one token. Each must be in `vocabulary`.

    Raises:
        ValueError: If `vocabulary` is empty, has an empty or repeated token or one that is
            not a string, or lacks a symbol.
    """

    file_name = "vocab.txt"

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool = False, symbols: Sequence[str] = ()
    ) -> None:
        vocabulary = _validate_vocabulary(type(self).__name__, vocabulary)
        super().__init__(FIRST_TOKEN_ID + len(vocabulary), lowercase, symbols)
        missing_symbols = set(self.symbols) - set(vocabulary)
        if missing_symbols:
            raise ValueError(
                f"{type(self).__name__} expects each of `symbols` to be in the vocabulary. "
                f"Received: symbols without an id: {sorted(missing_symbols)}"
            )
        with tf.init_scope():
            self._table = self._make_lookup_table(vocabulary)
            self._printable = tf.constant(["", *SPECIAL_TOKENS[1:], *vocabulary])
            self._readable = tf.constant(["", UNKNOWN_TEXT, "", "", *vocabulary])

    @property
    def vocabulary(self) -> list[str]:
        """The tokens from id 4 on."""
        return [token.decode() for token in self._printable[FIRST_TOKEN_ID:].numpy()]

    def _make_lookup_table(self, vocabulary):
        """Returns the lookup table from tokens to ids; other tokens are unknown."""
        ids = tf.range(FIRST_TOKEN_ID, self.vocabulary_size, dtype=tf.int32)
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant(vocabulary), ids)
        return tf.lookup.StaticHashTable(entries, UNKNOWN_ID)

    def _split_to_ids(self, texts):
        return tf.ragged.map_flat_values(self._table.lookup, self.split(texts))

    def _get_tokens(self, ids):
        return tf.gather(self._printable, ids)

    def get_content(self) -> bytes:
        return write_vocabulary(self.vocabulary)

    def split(self, texts: Texts) -> tf.RaggedTensor:
        """Returns the tokens of normalized `texts` as a ragged string tensor."""
        return type(self).split_texts(texts, self.symbols)


def count_tokens(token_batches: Iterable[np.ndarray]) -> collections.Counter[bytes]:
    """Returns the frequency of each token (bytes) in `token_batches`, NumPy arrays."""
    counts = collections.Counter()
    for batch in token_batches:
        counts.update(batch.tolist())
    return counts


def build_vocabulary(
    token_batches: Iterable[np.ndarray],
    symbols: Sequence[str],
    vocabulary_size: int | None,
    min_frequency: int,
) -> list[str]:
    """Returns the vocabulary of a corpus: symbols first, then tokens by decreasing frequency.

    Args:
        token_batches: Iterable of NumPy arrays of tokens, as bytes.
        symbols: Tokens to include whatever their frequency.
        vocabulary_size: Maximum number of ids, special ones included, or None.
        min_frequency: Rarer tokens are left out.

    Returns:
        List of strings; tokens of equal frequency are in code point order.
    """
    counts = count_tokens(token_batches)
    for symbol in symbols:
        counts.pop(symbol.encode(), None)
    # U+FFFD must stay unknown.
    counts.pop(UNKNOWN_TEXT.encode(), None)
    frequent = [(-n, token.decode()) for token, n in counts.items() if n >= min_frequency]
    tokens = list(symbols) + [token for _, token in sorted(frequent)]
    return tokens if vocabulary_size is None else tokens[: vocabulary_size - len(SPECIAL_TOKENS)]


def write_vocabulary(vocabulary: Sequence[str]) -> bytes:
    r"""Returns the content of `vocab.txt`, UTF-8: one token per line.

    The id of a token is the number of its line minus 1. The four special tokens come first. A
    backslash, newline or carriage return in a token is written as `\\`, `\n` or `\r`.
    """
    lines = []
    for token in (*SPECIAL_TOKENS, *vocabulary):
        for plain, escaped in _ESCAPES:
            token = token.replace(plain, escaped)
        lines.append(token + "\n")
    return "".join(lines).encode()


def read_vocabulary(content: bytes) -> list[str]:
    """Returns the tokens from id 4 on, from the content that `write_vocabulary` returned."""
    lines = content.decode().split("\n")
    if tuple(lines[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS or lines[-1]:
        raise ValueError(
            f"A vocabulary file is expected to begin with the lines {', '.join(SPECIAL_TOKENS)} "
            f"and to end with a newline. Received: first lines={lines[: len(SPECIAL_TOKENS)]}"
        )
    return [_unescape(line) for line in lines[len(SPECIAL_TOKENS) : -1]]


def _unescape(line):
    plain = {"n": "\n", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), line)


def _validate_vocabulary(owner, vocabulary):
    vocabulary = list(vocabulary)
    wrong = [token for token in vocabulary if not isinstance(token, str) or not token]
    repeated = [t for t, n in collections.Counter(map(str, vocabulary)).items() if n > 1]
    if not vocabulary or wrong or repeated:
        reason = f"wrong={wrong[:3]}, repeated={repeated[:3]}, size={len(vocabulary)}"
        raise ValueError(
            f"{owner} expects `vocabulary` to be distinct non-empty strings, at least one. "
            f"Received: {reason}"
        )
    return vocabulary
