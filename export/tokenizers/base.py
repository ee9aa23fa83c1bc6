"""What every tokenizer does: text in, ids out, and back, inside a TensorFlow graph.

Ids: 0 padding, 1 unknown, 2 start, 3 end, in every tokenizer. Text is made valid UTF-8 and
brought to Unicode's NFC form before it is split; training, evaluation and serving call the
same object, so there is no second implementation to disagree with.
"""

import abc
import os
import re

import tensorflow as tf

from keras_attention.export.text_cut import cut_bytes
from keras_attention.export.text_ops import tensorflow_text

PADDING_ID, UNKNOWN_ID, START_ID, END_ID = 0, 1, 2, 3
SPECIAL_IDS = {"padding": PADDING_ID, "unknown": UNKNOWN_ID, "start": START_ID, "end": END_ID}
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
UNKNOWN_TEXT = "\ufffd"
#: Marks that a letter keeps; more of them are no text, and to order them takes quadratic time (30
#: in the Stream-Safe Text Format of Unicode's UAX 15).
MOST_MARKS = 30
#: Bytes that are looked at of a text that is cut off anyway, at least, and for each token.
LEAST_BYTES, BYTES_PER_TOKEN = 2**16, 64
MOST_BYTES = 2**31 - 1  # that TensorFlow can count in a text
WHITESPACE = r"[\s\x{0b}\x{85}\p{Z}]+"


class Tokenizer(tf.Module, abc.ABC):
    """Turns text into ids and ids into text; the interface all kinds share.

    A tokenizer is a `tf.Module`: kept as an attribute of an exported module, its tables and
    models travel inside the SavedModel. Every method works eagerly, in `tf.function` and in
    `tf.data`, on any batch, an empty one included.

    Args:
        vocabulary_size: Int, number of ids, the four special ones included.
        lowercase: Whether `normalize` lower-cases.
        symbols: Strings that are always one token, such as `"<de-DE>"`, wherever they stand
            in a text; of two that match, the longer one. They are normalized as texts are.

    Attributes:
        kind: `"characters"`, `"words"`, `"wordpiece"` or `"sentencepiece"`.
        vocabulary_size, lowercase: See above.
        symbols: Tuple of the symbols, normalized, longest first.
    """

    kind: str = ""
    file_name: str = ""

    def __init__(self, vocabulary_size: int, lowercase: bool = False, symbols=()):
        super().__init__(name=f"{self.kind}_tokenizer")
        self.vocabulary_size = vocabulary_size
        self.lowercase = bool(lowercase)
        self.symbols = tuple(normalized_symbols(symbols, self.normalize))

    def normalize(self, texts):
        """Returns `texts` as this tokenizer reads them.

        Bytes that are not UTF-8 become U+FFFD, one for each broken sequence, and so does
        NUL; of a run of more than 30 combining marks the first 30 stay; then lower case if asked
        for, then NFC.

        Args:
            texts: String tensor of shape `(batch,)`.

        Returns:
            String tensor of shape `(batch,)`, valid UTF-8.
        """
        return normalize(texts, self.lowercase)

    def encode(self, texts, max_length: int | None = None):
        """Returns the ids of `texts` and how many there are.

        Args:
            texts: String tensor (or list of strings) of shape `(batch,)`.
            max_length: Number of ids after which a text is cut off; None for no limit. With one,
                of a text of more than 64 KiB no more than 64 bytes a token are looked at, whole
                characters.

        Returns:
            `ids` `(batch, length)` int32, padded with 0, without start and end marks, and
            `lengths` `(batch,)` int32.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (1, None):
            raise ValueError(
                f"{type(self).__name__}.encode expects `texts` of rank 1, (batch,). "
                f"Received: texts.shape={tuple(texts.shape)}"
            )
        if max_length is not None:
            max_length = min(max_length, MOST_BYTES)  # no text has more tokens than bytes
            # Before the work: tokenizers take seconds for megabytes that nobody reads.
            limit = max(LEAST_BYTES, min(BYTES_PER_TOKEN * max_length, MOST_BYTES))
            texts = cut_bytes(texts, limit)
        ids = self._split_to_ids(self.normalize(texts))
        if max_length is not None:
            ids = ids[:, :max_length]
        return ids.to_tensor(PADDING_ID), tf.cast(ids.row_lengths(), tf.int32)

    def decode(self, ids):
        """Returns the texts that `ids` spell.

        Padding, start and end ids are dropped, and so is all that follows the first end id.
        The unknown id and ids outside the vocabulary read U+FFFD.

        Args:
            ids: Int tensor of shape `(batch, length)`.

        Returns:
            String tensor of shape `(batch,)`, valid UTF-8.
        """
        ids = tf.cast(tf.convert_to_tensor(ids), tf.int32)
        if ids.shape.rank not in (2, None):
            raise ValueError(
                f"{type(self).__name__}.decode expects `ids` of rank 2, (batch, length). "
                f"Received: ids.shape={tuple(ids.shape)}"
            )
        ended = tf.cumsum(tf.cast(ids == END_ID, tf.int32), axis=1) > 0
        keep = ~ended & (ids != PADDING_ID) & (ids != START_ID)
        return self._join(tf.ragged.boolean_mask(self.in_vocabulary(ids), keep))

    def tokens(self, ids):
        """Returns a printable piece for each id, `""` for padding and `"</s>"` for the end.

        Args:
            ids: Int tensor of any shape.

        Returns:
            String tensor of that shape; ids outside the vocabulary read `"<unk>"`.
        """
        ids = self.in_vocabulary(tf.cast(tf.convert_to_tensor(ids), tf.int32))
        return tf.where(ids == PADDING_ID, "", self._pieces(ids))

    def in_vocabulary(self, ids):
        """Returns `ids` with those outside the vocabulary replaced by the unknown id."""
        return tf.where((ids >= 0) & (ids < self.vocabulary_size), ids, UNKNOWN_ID)

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the tokenizer into `directory`; `load` reads it back.

        Args:
            directory: Made if it does not exist. `tokenizer.json` and, beside it, `vocab.txt`
                or `spm.model` are replaced one after the other, `tokenizer.json` last.
        """
        from keras_attention.export.tokenizers import storage

        storage.save(self, directory)

    @abc.abstractmethod
    def _split_to_ids(self, texts):
        """Ragged int32 ids of normalized `texts`."""

    @abc.abstractmethod
    def _join(self, ids):
        """Texts of ragged `ids`, none special but unknown, all inside the vocabulary."""

    @abc.abstractmethod
    def _pieces(self, ids):
        """The piece of each id inside the vocabulary."""

    @abc.abstractmethod
    def _content(self) -> bytes:
        """What the vocabulary or model file holds."""


def normalize(texts, lowercase: bool = False):
    """Returns `texts` as valid UTF-8 in NFC, lower-cased on request; NUL becomes U+FFFD."""
    texts = tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
    )
    texts = tf.strings.regex_replace(texts, r"\x00", UNKNOWN_TEXT)
    texts = tf.strings.regex_replace(texts, rf"(\p{{M}}{{{MOST_MARKS}}})\p{{M}}+", r"\1")
    if lowercase:
        texts = tf.strings.lower(texts, encoding="utf-8")
    return tensorflow_text.normalize_utf8(texts, "NFC")


def squeeze_whitespace(texts):
    """Returns `texts` with each run of Unicode white space made one space, none at the ends."""
    return tf.strings.strip(tf.strings.regex_replace(texts, WHITESPACE, " "))


def normalized_symbols(symbols, normalizer) -> list[str]:
    """Returns `symbols` as a tokenizer keeps them: normalized, distinct, longest first.

    Raises:
        ValueError: If they are not a sequence of non-empty strings without white space.
    """
    symbols = list(symbols) if not isinstance(symbols, str) else None
    if symbols is None or any(not isinstance(s, str) or not s.strip() for s in symbols):
        raise ValueError(
            "A tokenizer expects `symbols` to be a sequence of non-empty strings. "
            f"Received: symbols={symbols!r}"
        )
    if not symbols:
        return []
    with tf.init_scope():
        normal = [s.decode() for s in normalizer(tf.constant(symbols)).numpy()]
    spaced = [s for s in normal if re.search(r"\s", s)]
    if spaced:
        raise ValueError(
            "A tokenizer expects `symbols` without white space; replace it, with `_` say. "
            f"Received: symbols={spaced!r}"
        )
    return sorted(set(normal), key=lambda symbol: (-len(symbol), symbol))
