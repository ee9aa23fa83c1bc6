"""Character tokenizer: each Unicode code point and each symbol is a token."""

import re
from collections.abc import Sequence

import tensorflow as tf

from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers._tensorflow_text import tensorflow_text
from keras_attention.export.tokenizers.vocabulary import VocabularyTokenizer


class CharacterTokenizer(VocabularyTokenizer):
    """Splits NFC text into code points; `symbols` stay whole.

    White space is kept, so decoding returns the normalized text. A symbol such as `<de-DE>` is
    recognized anywhere in a text.

    Args:
        vocabulary: Sequence of distinct characters and symbols; the first gets id 4.
        lowercase: Whether texts (and symbols) are lower-cased first.
        symbols: Strings of several characters that are one token. Each must be in
            `vocabulary`.

    Example:

    >>> tokenizer = CharacterTokenizer(["<fr-FR>", "e", "t", "é"], symbols=["<fr-FR>"])
    >>> ids, lengths = tokenizer.encode(["<fr-FR>été", "et"])
    >>> ids.numpy().tolist(), lengths.numpy().tolist()
    ([[4, 7, 6, 7], [5, 6, 0, 0]], [4, 2])
    >>> [text.decode() for text in tokenizer.decode(ids).numpy()]
    ['<fr-FR>été', 'et']
    """

    kind = "characters"

    @staticmethod
    def split_texts(texts: Texts, symbols: Sequence[str] = ()) -> tf.RaggedTensor:
        """Returns the characters (and `symbols`) of normalized `texts`, a ragged tensor.

        Args:
            texts: String tensor of shape `(batch,)`.
            symbols: Longest first, as `normalize_symbols` returns them.
        """
        if not symbols:
            return tf.strings.unicode_split(texts, "UTF-8")
        delimiter = "|".join([*map(re.escape, symbols), "(?s:.)"])
        # All delimiters are kept, and nothing is between them: they are the tokens.
        return tensorflow_text.regex_split(texts, delimiter, "(?s:.+)")

    def _join(self, ids):
        pieces = tf.ragged.map_flat_values(lambda i: tf.gather(self._readable, i), ids)
        return tf.strings.reduce_join(pieces, axis=1)
