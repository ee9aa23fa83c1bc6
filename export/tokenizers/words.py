"""Word tokenizer: splits pretokenized text at white space."""

from collections.abc import Sequence

import tensorflow as tf

from keras_attention.export._text_types import Texts
from keras_attention.export.tokenizers.base import squeeze_whitespace
from keras_attention.export.tokenizers.vocabulary import VocabularyTokenizer


class WordTokenizer(VocabularyTokenizer):
    """Splits NFC text at Unicode white space.

    It does not split off punctuation: pass pretokenized text, such as `a dog , asleep .`.
    Decoding joins words with one space.

    Args:
        vocabulary: Sequence of distinct words; the first gets id 4.
        lowercase: Whether texts are lower-cased first.
        symbols: Words that a trained vocabulary keeps whatever their frequency.

    Example:

    >>> tokenizer = WordTokenizer(["a", "dog", "asleep"])
    >>> ids, lengths = tokenizer.encode(["a  dog", "a cat asleep", ""])
    >>> ids.numpy().tolist(), lengths.numpy().tolist()
    ([[4, 5, 0], [4, 1, 6], [0, 0, 0]], [2, 3, 0])
    >>> tokenizer.decode(ids).numpy()[0]
    b'a dog'
    """

    kind = "words"

    def normalize(self, texts: Texts) -> tf.Tensor:
        return squeeze_whitespace(super().normalize(texts))

    @staticmethod
    def split_texts(texts: Texts, symbols: Sequence[str] = ()) -> tf.RaggedTensor:
        """Returns the words of normalized `texts`, a ragged tensor; symbols are words."""
        return tf.strings.split(texts)

    def _join(self, ids):
        words = tf.ragged.map_flat_values(lambda i: tf.gather(self._readable, i), ids)
        return tf.strings.reduce_join(words, axis=1, separator=" ")
