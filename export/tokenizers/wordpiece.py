"""WordPiece tokenizer: splits each word greedily into the longest pieces of a list.

    word -> p_1, ##p_2, ..., ##p_k        p_i is the longest piece that the rest begins with

A piece inside a word has the prefix `##`, which distinguishes it from the same letters at the
beginning of a word. Schuster & Nakajima 2012 (https://research.google/pubs/pub37842), Wu et al.
2016 (https://arxiv.org/abs/1609.08144), section 4.1.
"""

import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers._tensorflow_text import tensorflow_text
from keras_attention.export.tokenizers.base import (
    FIRST_TOKEN_ID,
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    squeeze_whitespace,
)
from keras_attention.export.tokenizers.vocabulary import VocabularyTokenizer

CONTINUATION_PREFIX = "##"
# Replaces `##` in the graph's lookup table. A word may itself begin with `##`, but normalized text
# has no NUL.
_GRAPH_PREFIX = "\x00"
MAX_WORD_BYTES = 1000  # a longer word is one unknown token
_MAX_PIECE_LENGTH = 50


class WordPieceTokenizer(VocabularyTokenizer):
    """Splits NFC text at white space and every word into pieces of a list.

    It does not split off punctuation. If all characters are known, decoding returns the text with
    runs of white space replaced by one space. A symbol is a separate word anywhere in a text. A
    character without a piece becomes unknown, and the letters around it keep their ids; decoded, it
    begins a word. A word of more than 1,000 bytes becomes one unknown id.

    Args:
        vocabulary: Sequence of distinct pieces; the first gets id 4. The prefix `##` means
            that a piece continues a word, so no piece at the beginning of a word may have it.
        lowercase: Whether texts are lower-cased first.
        symbols: Words that are always one token. Each must be in `vocabulary`.

    Raises:
        ValueError: If `vocabulary` is empty, has repeated tokens, or lacks a symbol, or if a
            symbol begins with `##`.

    Example:

    >>> tokenizer = WordPieceTokenizer(["un", "##aff", "##able", "a", "##b", "##."])
    >>> ids, lengths = tokenizer.encode(["unaffable  ab.", "a☃b"])
    >>> ids.numpy().tolist(), lengths.numpy().tolist()
    ([[4, 5, 6, 7, 8, 9], [7, 1, 8, 0, 0, 0]], [6, 3])
    >>> [text.decode() for text in tokenizer.decode(ids).numpy()]
    ['unaffable ab.', 'a \ufffdb']
    """

    kind = "wordpiece"

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool = False, symbols: Sequence[str] = ()
    ) -> None:
        vocabulary = list(vocabulary)
        super().__init__(vocabulary, lowercase, symbols)
        inside = [symbol for symbol in self.symbols if symbol.startswith(CONTINUATION_PREFIX)]
        if inside:
            raise ValueError(
                "WordPieceTokenizer expects symbols that do not begin with `##`, the prefix of "
                f"pieces inside a word. Received: symbols={inside}"
            )
        with tf.init_scope():
            surface_forms = [_surface_form(piece) for piece in vocabulary]
            self._surface_form = tf.constant(["", f" {UNKNOWN_TEXT}", "", "", *surface_forms])
        self._splitter = tensorflow_text.WordpieceTokenizer(
            self._table,
            suffix_indicator=_GRAPH_PREFIX,
            max_bytes_per_word=MAX_WORD_BYTES,
            max_chars_per_token=max(len(piece) for piece in [*vocabulary, *self.symbols]),
            token_out_type=tf.int64,
            unknown_token=SPECIAL_TOKENS[UNKNOWN_ID],
            split_unknown_characters=True,
        )

    @staticmethod
    def normalize_texts(texts: Texts, lowercase: bool = False) -> tf.Tensor:
        return squeeze_whitespace(VocabularyTokenizer.normalize_texts(texts, lowercase))

    @staticmethod
    def split_texts(texts: Texts, symbols: Sequence[str] = ()) -> tf.RaggedTensor:
        """Returns the words of normalized `texts`, a ragged tensor; symbols are words.

        Args:
            texts: String tensor of shape `(batch,)`.
            symbols: Longest first, as `normalize_symbols` returns them.
        """
        if symbols:
            pattern = "|".join(map(re.escape, symbols))
            texts = tf.strings.regex_replace(texts, f"({pattern})", r" \1 ")
        return tf.strings.split(texts)

    def _make_lookup_table(self, vocabulary):
        keys = [
            _GRAPH_PREFIX + p.removeprefix(CONTINUATION_PREFIX)
            if p.startswith(CONTINUATION_PREFIX)
            else p
            for p in vocabulary
        ]
        ids = tf.range(FIRST_TOKEN_ID, self.vocabulary_size, dtype=tf.int64)
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), ids)
        return tf.lookup.StaticHashTable(entries, UNKNOWN_ID)

    def _split_to_ids(self, texts):
        pieces = self._splitter.tokenize(self.split(texts))  # (batch, words, pieces)
        return tf.cast(pieces.merge_dims(1, 2), tf.int32)

    def _join(self, ids):
        pieces = tf.ragged.map_flat_values(lambda i: tf.gather(self._surface_form, i), ids)
        return tf.strings.strip(tf.strings.reduce_join(pieces, axis=1))


def _surface_form(piece):
    """Returns the text of a piece, with a space before it if it begins a word."""
    return (
        piece.removeprefix(CONTINUATION_PREFIX)
        if piece.startswith(CONTINUATION_PREFIX)
        else f" {piece}"
    )


def learn_pieces(
    word_counts: Mapping[str, int], symbols: Sequence[str], vocabulary_size: int
) -> list[str]:
    """Returns the pieces that TensorFlow Text's learner finds in words with their frequencies.

    Each character needs two pieces, one for the beginning of a word and one for the inside. If
    `vocabulary_size` is too small for all characters, the rarest are left out. The list may be
    shorter than requested.

    Args:
        word_counts: Dict from normalized words to their frequencies.
        symbols: Tokens to include whatever their frequency.
        vocabulary_size: Maximum number of ids, special ones included.

    Returns:
        List of strings: symbols, characters, then pieces by decreasing frequency.

    Raises:
        ValueError: If the pieces of the characters that remain still need more ids than
            `vocabulary_size` leaves.

    Source: `learn` of tensorflow_text.tools.wordpiece_vocab.
    """
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    words = {word: n for word, n in word_counts.items() if word not in symbols}
    # U+FFFD must stay unknown.
    words = {word: n for word, n in words.items() if UNKNOWN_TEXT not in word}
    num_free_ids = vocabulary_size - len(SPECIAL_TOKENS) - len(symbols)
    if not words:
        return list(symbols)
    learned = learner.learn(
        list(words.items()),
        vocab_size=max(num_free_ids, 1),
        reserved_tokens=[],
        lower_thresh=2,
        max_token_length=_MAX_PIECE_LENGTH,
        max_unique_chars=max(num_free_ids // 2, 1),
        joiner=_GRAPH_PREFIX,
    )
    single = [piece for piece in learned if len(piece.removeprefix(_GRAPH_PREFIX)) == 1]
    longer = [piece for piece in learned if len(piece.removeprefix(_GRAPH_PREFIX)) > 1]
    kept = [*single, *longer[: max(num_free_ids - len(single), 0)]]
    if len(single) > num_free_ids:
        raise ValueError(
            "WordPiece expects enough ids for the characters that it keeps, two for each. "
            f"Choose a `vocabulary_size` of at least "
            f"{vocabulary_size + len(single) - num_free_ids}. Received: "
            f"vocabulary_size={vocabulary_size}"
        )
    pieces = [
        p.replace(_GRAPH_PREFIX, CONTINUATION_PREFIX)
        for p in kept
        if not p.startswith(CONTINUATION_PREFIX)
    ]
    return [*symbols, *(piece for piece in pieces if piece not in symbols)]
