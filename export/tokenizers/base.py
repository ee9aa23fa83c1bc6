"""The base class of tokenizers: text to ids and back, inside a TensorFlow graph.

Ids: 0 padding, 1 unknown, 2 BOS, 3 EOS, in every tokenizer. Text is converted to valid
UTF-8 in Unicode's NFC form before it is split. Training, evaluation and serving use the same
object, so they cannot disagree.
"""

import abc
import os
import re
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_attention.export._byte_truncation import truncate_bytes
from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers._tensorflow_text import tensorflow_text

PADDING_ID, UNKNOWN_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
SPECIAL_IDS = {"padding": PADDING_ID, "unknown": UNKNOWN_ID, "start": BOS_ID, "end": EOS_ID}
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
FIRST_TOKEN_ID = len(SPECIAL_TOKENS)  # the id of the first token of a vocabulary
UNKNOWN_TEXT = "\ufffd"
#: Combining marks that a letter keeps. Sorting more of them takes quadratic time. Unicode's UAX 15
#: has the same limit in its Stream-Safe Text Format.
MAX_COMBINING_MARKS = 30
#: Bytes that are read of a truncated text: the minimum, and the number for each token.
MIN_BYTES, BYTES_PER_TOKEN = 2**16, 64
#: Letters beside ASCII's whose lower case is another one in Turkish or in Lithuanian.
LOCALE_LETTERS = "\u0130\u00cc\u00cd\u0128\u012e"  # I with a dot, grave, acute, tilde and ogonek
MAX_TEXT_BYTES = 2**31 - 1  # the longest text whose bytes TensorFlow can count
WHITESPACE = r"[\s\x{0b}\x{85}\p{Z}]+"


class Tokenizer(tf.Module, abc.ABC):
    """Converts text to ids and ids to text; the base class of all kinds.

    A tokenizer is a `tf.Module`: as an attribute of an exported module, it stores its tables and
    models in the SavedModel. Every method works eagerly, in `tf.function` and in `tf.data`, on any
    batch size, 0 included.

    Args:
        vocabulary_size: Int, the number of ids, including the four special ones.
        lowercase: Whether `normalize` lower-cases.
        symbols: Strings that are always one token, such as `"<de-DE>"`, anywhere in a text. The
            longest matching symbol wins. They are normalized like texts.

    Attributes:
        kind: `"characters"`, `"words"`, `"wordpiece"` or `"sentencepiece"`.
        vocabulary_size, lowercase: See above.
        symbols: Tuple of the symbols, normalized, longest first.
    """

    vocabulary_size: int
    lowercase: bool
    symbols: tuple[str, ...]

    kind: str = ""
    file_name: str = ""

    def __init__(
        self, vocabulary_size: int, lowercase: bool = False, symbols: Sequence[str] = ()
    ) -> None:
        super().__init__(name=f"{self.kind}_tokenizer")
        self.vocabulary_size = vocabulary_size
        self.lowercase = bool(lowercase)
        self.symbols = tuple(normalize_symbols(symbols, self.normalize))

    def normalize(self, texts: Texts) -> tf.Tensor:
        """Returns normalized `texts`, as `encode` reads them.

        Each invalid UTF-8 sequence and each NUL becomes U+FFFD. Of a run of more than 30 combining
        marks the first 30 are kept. Then follow lower-casing, if enabled, and NFC.

        Args:
            texts: String tensor of shape `(batch,)`.

        Returns:
            String tensor of shape `(batch,)`, valid UTF-8.
        """
        return type(self).normalize_texts(texts, self.lowercase)

    @staticmethod
    def normalize_texts(texts: Texts, lowercase: bool = False) -> tf.Tensor:
        """Returns `texts` as `normalize` does; training calls it before a tokenizer exists."""
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
        )
        texts = tf.strings.regex_replace(texts, r"\x00", UNKNOWN_TEXT)
        combining = rf"(\p{{M}}{{{MAX_COMBINING_MARKS}}})\p{{M}}+"
        texts = tf.strings.regex_replace(texts, combining, r"\1")
        if lowercase:
            texts = _lower(texts)
        return tensorflow_text.normalize_utf8(texts, "NFC")

    def encode(self, texts: Texts, max_length: int | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the ids of `texts` and the number of ids of each.

        Args:
            texts: String tensor (or list of strings) of shape `(batch,)`.
            max_length: Number of ids after which a text is cut off; None for no limit. With one,
                at most 64 bytes per token are read of a text of more than 64 KiB, whole
                characters with their combining marks.

        Returns:
            `ids` `(batch, length)` int32, padded with 0, without start and EOS tokens, and
            `lengths` `(batch,)` int32.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (1, None):
            raise ValueError(
                f"{type(self).__name__}.encode expects `texts` of rank 1, (batch,). "
                f"Received: texts.shape={tuple(texts.shape)}"
            )
        ids = self._apply_to_normalized(self._split_to_ids, texts, max_length)
        return ids.to_tensor(PADDING_ID), tf.cast(ids.row_lengths(), tf.int32)

    def _apply_to_normalized(self, split, texts, max_length):
        """Returns the first `max_length` ragged tokens that `split` makes of normalized texts."""
        if max_length is None:
            return split(self.normalize(texts))
        max_length = min(max_length, MAX_TEXT_BYTES)  # no text has more tokens than bytes
        # Truncate first: tokenizing megabytes takes seconds.
        limit = max(MIN_BYTES, min(BYTES_PER_TOKEN * max_length, MAX_TEXT_BYTES))
        return split(self.normalize(truncate_bytes(texts, limit)))[:, :max_length]

    def decode(self, ids: tf.Tensor | np.ndarray) -> tf.Tensor:
        """Returns the texts of `ids`.

        Padding, BOS, EOS and everything after the first EOS are dropped. Unknown and
        out-of-vocabulary ids become U+FFFD.

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
        return self._join(
            tf.ragged.boolean_mask(self.replace_out_of_vocabulary(ids), self._find_text(ids))
        )

    def _find_text(self, ids):
        """Returns which of `ids` are text: not padding, BOS or EOS, nor after the first EOS."""
        ended = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) > 0
        return ~ended & (ids != PADDING_ID) & (ids != BOS_ID)

    def ids_to_tokens(self, ids: tf.Tensor | np.ndarray) -> tf.Tensor:
        """Returns the token of each id, `""` for padding and `"</s>"` for EOS.

        Args:
            ids: Int tensor of any shape.

        Returns:
            String tensor of that shape; out-of-vocabulary ids become `"<unk>"`.
        """
        ids = self.replace_out_of_vocabulary(tf.cast(tf.convert_to_tensor(ids), tf.int32))
        return tf.where(ids == PADDING_ID, "", self._get_tokens(ids))

    def replace_out_of_vocabulary(self, ids: tf.Tensor | np.ndarray) -> tf.Tensor:
        """Returns `ids` with out-of-vocabulary ids replaced by 1, unknown."""
        return tf.where((ids >= 0) & (ids < self.vocabulary_size), ids, UNKNOWN_ID)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes the tokenizer into `directory`; `load` reads it back.

        Args:
            directory: Created if it does not exist. `vocab.txt` or `spm.model` is replaced first,
                `tokenizer.json` last.
        """
        from keras_attention.export.tokenizers import _storage

        _storage.save(self, directory)

    @abc.abstractmethod
    def _split_to_ids(self, texts):
        """Returns the ragged int32 ids of normalized `texts`."""

    @abc.abstractmethod
    def _join(self, ids):
        """Returns the texts of ragged `ids` of the vocabulary, without padding, BOS and EOS."""

    @abc.abstractmethod
    def _get_tokens(self, ids):
        """Returns the token of each id of the vocabulary."""

    @abc.abstractmethod
    def get_content(self) -> bytes:
        """Returns the content of the vocabulary or model file."""


def squeeze_whitespace(texts: Texts) -> tf.Tensor:
    """Returns `texts` with runs of Unicode white space replaced by one space, and stripped."""
    return tf.strings.strip(tf.strings.regex_replace(texts, WHITESPACE, " "))


def normalize_symbols(
    symbols: Sequence[str], text_normalizer: Callable[[Texts], tf.Tensor]
) -> list[str]:
    """Returns `symbols` normalized, distinct and longest first.

    Raises:
        ValueError: If `symbols` is not a sequence of non-empty strings without white space.
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
        normal = [s.decode() for s in text_normalizer(tf.constant(symbols)).numpy()]
    spaced = [s for s in normal if re.search(r"\s", s)]
    if spaced:
        raise ValueError(
            "A tokenizer expects `symbols` without white space; replace it, for example with `_`. "
            f"Received: symbols={spaced!r}"
        )
    return sorted(set(normal), key=lambda symbol: (-len(symbol), symbol))


def _lower(texts):
    """Returns lower-cased `texts`; TensorFlow alone would follow the locale of the process."""
    for letter in LOCALE_LETTERS:
        texts = tf.strings.regex_replace(texts, letter, letter.lower())
    return tf.strings.lower(tf.strings.lower(texts), encoding="utf-8")  # ASCII first
