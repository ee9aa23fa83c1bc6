"""WordPiece subwords: a list of pieces, each word split greedily into the longest that fit.

    word = p_1 ## p_2 ## ... p_k        p_i the longest piece that what is left begins with

A piece inside a word is another token than the same letters at its beginning and is written
with `##` before it. Schuster & Nakajima 2012 (https://research.google/pubs/pub37842), Wu et al.
2016 (https://arxiv.org/abs/1609.08144), section 4.1.
"""

import re

import tensorflow as tf

from keras_attention.export.text_ops import tensorflow_text
from keras_attention.export.tokenizers.base import (
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    squeeze_whitespace,
)
from keras_attention.export.tokenizers.vocabulary import VocabularyTokenizer

INSIDE = "##"
# How the graph marks a piece inside a word: no text holds NUL, while one may begin with `##`.
_MARK = "\x00"
LONGEST_WORD = 1000  # bytes; a longer one is a single unknown
_LONGEST_PIECE = 50


class WordPieceTokenizer(VocabularyTokenizer):
    """Splits NFC text at white space and every word into pieces of a list.

    Punctuation is not split off first, so decoding gives the text back with its white space
    squeezed, as long as all characters are known. A symbol is a word of its own, wherever it
    stands. A character without a piece is the unknown id, the letters around it keep theirs;
    decoded, it begins a word. A word of more than 1,000 bytes is one unknown.

    Args:
        vocabulary: Sequence of distinct pieces; the first gets id 4. `##` before a piece means
            that it continues a word; so no piece that begins a word may begin with `##`.
        lowercase: Whether texts are lower-cased first.
        symbols: Words that are always one token. Each must be in `vocabulary`.

    Raises:
        ValueError: As for every vocabulary: if it is empty, has repeated tokens, or lacks a
            symbol; if a symbol begins with `##`.

    Example:

    >>> tokenizer = WordPieceTokenizer(["un", "##aff", "##able", "a", "##b", "##."])
    >>> ids, lengths = tokenizer.encode(["unaffable  ab.", "a☃b"])
    >>> ids.numpy().tolist(), lengths.numpy().tolist()
    ([[4, 5, 6, 7, 8, 9], [7, 1, 8, 0, 0, 0]], [6, 3])
    >>> [text.decode() for text in tokenizer.decode(ids).numpy()]
    ['unaffable ab.', 'a \ufffdb']
    """

    kind = "wordpiece"

    def __init__(self, vocabulary, lowercase: bool = False, symbols=()):
        vocabulary = list(vocabulary)
        super().__init__(vocabulary, lowercase, symbols)
        inside = [symbol for symbol in self.symbols if symbol.startswith(INSIDE)]
        if inside:
            raise ValueError(
                "WordPieceTokenizer expects symbols that do not begin with `##`, its sign for the "
                f"inside of a word. Received: symbols={inside}"
            )
        with tf.init_scope():
            spelled = [_spelled(piece) for piece in vocabulary]
            self._spelled = tf.constant(["", f" {UNKNOWN_TEXT}", "", "", *spelled])
        self._splitter = tensorflow_text.WordpieceTokenizer(
            self._table,
            suffix_indicator=_MARK,
            max_bytes_per_word=LONGEST_WORD,
            max_chars_per_token=max(len(piece) for piece in [*vocabulary, *self.symbols]),
            token_out_type=tf.int64,
            unknown_token=SPECIAL_TOKENS[UNKNOWN_ID],
            split_unknown_characters=True,
        )

    def normalize(self, texts):
        return squeeze_whitespace(super().normalize(texts))

    @staticmethod
    def split_texts(texts, symbols=()):
        """Returns the words of normalized `texts`, a ragged tensor; symbols are words."""
        if symbols:
            longest_first = sorted(symbols, key=lambda symbol: (-len(symbol), symbol))
            pattern = "|".join(map(re.escape, longest_first))
            texts = tf.strings.regex_replace(texts, f"({pattern})", r" \1 ")
        return tf.strings.split(texts)

    def _lookup_table(self, vocabulary):
        keys = [_MARK + p.removeprefix(INSIDE) if p.startswith(INSIDE) else p for p in vocabulary]
        ids = tf.range(len(SPECIAL_TOKENS), self.vocabulary_size, dtype=tf.int64)
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), ids)
        return tf.lookup.StaticHashTable(entries, UNKNOWN_ID)

    def _split_to_ids(self, texts):
        pieces = self._splitter.tokenize(self.split(texts))  # (batch, words, pieces)
        return tf.cast(pieces.merge_dims(1, 2), tf.int32)

    def _join(self, ids):
        pieces = tf.ragged.map_flat_values(lambda i: tf.gather(self._spelled, i), ids)
        return tf.strings.strip(tf.strings.reduce_join(pieces, axis=1))


def _spelled(piece):
    """What a piece adds to a text: itself, after a space where it begins a word."""
    return piece.removeprefix(INSIDE) if piece.startswith(INSIDE) else f" {piece}"


def learn_pieces(word_counts, symbols, vocabulary_size: int) -> list[str]:
    """Returns the pieces that TensorFlow Text's learner finds in counted words.

    Every character gets two pieces, one that begins a word and one inside; where there is no
    room for that the rarest characters have none. The list may be shorter than asked for.

    Args:
        word_counts: Dict of normalized words and how often they occur.
        symbols: Tokens that are in whatever their count.
        vocabulary_size: Largest number of ids, special ones included.

    Returns:
        List of strings: symbols, characters, then pieces by falling count.

    Raises:
        ValueError: If the ids do not suffice for the characters.

    Source: `learn` of tensorflow_text.tools.wordpiece_vocab.
    """
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    words = {word: n for word, n in word_counts.items() if word not in symbols}
    # A token that spells "unknown" must keep reading as unknown.
    words = {word: n for word, n in words.items() if UNKNOWN_TEXT not in word}
    room = vocabulary_size - len(SPECIAL_TOKENS) - len(symbols)
    if not words:
        return list(symbols)
    learned = learner.learn(
        list(words.items()),
        vocab_size=max(room, 1),
        reserved_tokens=[],
        lower_thresh=2,
        max_token_length=_LONGEST_PIECE,
        max_unique_chars=max(room // 2, 1),
        joiner=_MARK,
    )
    single = [piece for piece in learned if len(piece.removeprefix(_MARK)) == 1]
    longer = [piece for piece in learned if len(piece.removeprefix(_MARK)) > 1]
    kept = [*single, *longer[: max(room - len(single), 0)]]
    if len(single) > room:
        raise ValueError(
            "WordPiece expects room for every character, at the beginning of a word and inside. "
            f"Choose a `vocabulary_size` of at least "
            f"{vocabulary_size + len(single) - room}. Received: vocabulary_size={vocabulary_size}"
        )
    pieces = [p.replace(_MARK, INSIDE) for p in kept if not p.startswith(INSIDE)]
    return [*symbols, *(piece for piece in pieces if piece not in symbols)]
