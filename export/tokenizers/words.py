"""Word tokenizer: splits pretokenized text at white space."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers.base import UNKNOWN_ID, squeeze_whitespace
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

    @staticmethod
    def normalize_texts(texts: Texts, lowercase: bool = False) -> tf.Tensor:
        return squeeze_whitespace(VocabularyTokenizer.normalize_texts(texts, lowercase))

    @staticmethod
    def split_texts(texts: Texts, symbols: Sequence[str] = ()) -> tf.RaggedTensor:
        """Returns the words of normalized `texts`, a ragged tensor; symbols are words."""
        return tf.strings.split(texts)

    def split_words(self, texts: Texts, max_length: int | None = None) -> tf.Tensor:
        """Returns the words whose ids `encode` returns, `(batch, length)`, padded with `""`.

        Args:
            texts, max_length: As `encode` takes them.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        return self._apply_to_normalized(self.split_texts, texts, max_length).to_tensor("")

    def decode_words(self, ids: tf.Tensor | np.ndarray, unknown_words: tf.Tensor) -> tf.Tensor:
        """Returns the texts `(batch, ...)` of `ids`, with words of your own for unknown ids.

        Args:
            ids: Int tensor of shape `(batch, ..., length)`.
            unknown_words: String tensor of that shape, the word to write for each unknown or
                out-of-vocabulary id in place of U+FFFD.
        """
        ids = self.replace_out_of_vocabulary(tf.cast(tf.convert_to_tensor(ids), tf.int32))
        words = tf.where(ids == UNKNOWN_ID, unknown_words, tf.gather(self._readable, ids))
        # All sizes are explicit: -1 would be ambiguous if one is 0.
        shape, static_shape = tf.shape(ids), ids.shape
        flat = [tf.reduce_prod(shape[:-1]), shape[-1]]
        words, ids = tf.reshape(words, flat), tf.reshape(ids, flat)
        texts = _join_words(tf.ragged.boolean_mask(words, self._find_text(ids)))
        return tf.ensure_shape(tf.reshape(texts, shape[:-1]), static_shape[:-1])

    def _join(self, ids):
        return _join_words(tf.ragged.map_flat_values(lambda i: tf.gather(self._readable, i), ids))


def _join_words(words):
    return tf.strings.reduce_join(words, axis=1, separator=" ")
