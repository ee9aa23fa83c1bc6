"""A list of tokens as a lookup table inside the graph, and as the file `vocab.txt`."""

import collections
import re

import tensorflow as tf

from keras_attention.export.tokenizers.base import (
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Tokenizer,
)

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))


class VocabularyTokenizer(Tokenizer):
    """A tokenizer that splits text in some way and looks each token up in a list.

    Args:
        vocabulary: Sequence of distinct non-empty strings, normalized; the first gets id 4.
        lowercase: Whether texts are lower-cased first.
        symbols: Strings that are always one token. Each must be in `vocabulary`.

    Raises:
        ValueError: If `vocabulary` is empty, has an empty or repeated token or one that is
            not a string, or lacks a symbol.
    """

    file_name = "vocab.txt"

    def __init__(self, vocabulary, lowercase: bool = False, symbols=()):
        vocabulary = _checked(type(self).__name__, vocabulary)
        first_id = len(SPECIAL_TOKENS)
        super().__init__(first_id + len(vocabulary), lowercase, symbols)
        lacking = set(self.symbols) - set(vocabulary)
        if lacking:
            raise ValueError(
                f"{type(self).__name__} expects each of `symbols` to be in the vocabulary. "
                f"Received: symbols without an id: {sorted(lacking)}"
            )
        with tf.init_scope():
            self._table = self._lookup_table(vocabulary)
            self._printable = tf.constant(["", *SPECIAL_TOKENS[1:], *vocabulary])
            self._readable = tf.constant(["", UNKNOWN_TEXT, "", "", *vocabulary])

    @property
    def vocabulary(self) -> list[str]:
        """The tokens from id 4 on."""
        return [token.decode() for token in self._printable[len(SPECIAL_TOKENS) :].numpy()]

    def _lookup_table(self, vocabulary):
        """The table from a token to its id; any other token is unknown."""
        ids = tf.range(len(SPECIAL_TOKENS), self.vocabulary_size, dtype=tf.int32)
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant(vocabulary), ids)
        return tf.lookup.StaticHashTable(entries, UNKNOWN_ID)

    def _split_to_ids(self, texts):
        return tf.ragged.map_flat_values(self._table.lookup, self.split(texts))

    def _pieces(self, ids):
        return tf.gather(self._printable, ids)

    def _content(self) -> bytes:
        return write_vocabulary(self.vocabulary)

    def split(self, texts):
        """Returns the tokens of normalized `texts` as a ragged string tensor."""
        return type(self).split_texts(texts, self.symbols)


def count_tokens(token_batches) -> collections.Counter:
    """Returns how often each token (bytes) stands in `token_batches`, NumPy arrays."""
    counts = collections.Counter()
    for batch in token_batches:
        counts.update(batch.tolist())
    return counts


def count_vocabulary(token_batches, symbols, vocabulary_size, minimum_count) -> list[str]:
    """Returns the vocabulary of a corpus: symbols first, then tokens by falling count.

    Args:
        token_batches: Iterable of NumPy arrays of tokens, as bytes.
        symbols: Tokens that are in whatever their count.
        vocabulary_size: Largest number of ids, special ones included, or None.
        minimum_count: Tokens seen less often are left out.

    Returns:
        List of strings; tokens of equal count stand in code point order.
    """
    counts = count_tokens(token_batches)
    for symbol in symbols:
        counts.pop(symbol.encode(), None)
    # A token that spells "unknown" must keep reading as unknown.
    counts.pop(UNKNOWN_TEXT.encode(), None)
    kept = [(-n, token.decode()) for token, n in counts.items() if n >= minimum_count]
    tokens = list(symbols) + [token for _, token in sorted(kept)]
    return tokens if vocabulary_size is None else tokens[: vocabulary_size - len(SPECIAL_TOKENS)]


def write_vocabulary(vocabulary) -> bytes:
    r"""Returns `vocab.txt`: one token a line, its id the line number less one, UTF-8.

    The four special tokens come first. A backslash, newline or carriage return inside a
    token is written `\\`, `\n` or `\r`.
    """
    lines = []
    for token in (*SPECIAL_TOKENS, *vocabulary):
        for plain, escaped in _ESCAPES:
            token = token.replace(plain, escaped)
        lines.append(token + "\n")
    return "".join(lines).encode()


def read_vocabulary(content: bytes) -> list[str]:
    """Returns the tokens from id 4 on that `write_vocabulary` wrote."""
    lines = content.decode().split("\n")
    if tuple(lines[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS or lines[-1]:
        raise ValueError(
            f"A vocabulary file is expected to begin with the lines {', '.join(SPECIAL_TOKENS)} "
            f"and to end with a newline. Received: first lines={lines[: len(SPECIAL_TOKENS)]}"
        )
    return [_unescaped(line) for line in lines[len(SPECIAL_TOKENS) : -1]]


def _unescaped(line):
    plain = {"n": "\n", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), line)


def _checked(owner, vocabulary):
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
