"""Unknown words of an output replaced by the source words that they attended to.

Jean et al. 2015 (https://arxiv.org/abs/1412.2007), section 3.3; Luong et al. 2015b
(https://arxiv.org/abs/1410.8206), section 3: an unknown word of the output becomes the translation
of its source word in a dictionary, or a copy of that word.
"""

from collections.abc import Mapping

import tensorflow as tf

from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import UNKNOWN_TEXT


class UnknownWordReplacer(tf.Module):
    """Writes texts whose unknown words are source words.

    It is a `tf.Module`, so that a SavedModel stores its table.

    Args:
        source: `WordTokenizer` of the source side.
        target: `WordTokenizer` of the target side.
        dictionary: Translations of source words; the others are copied.
        max_source_length: Maximum source length in tokens, EOS not included, or None.
    """

    def __init__(
        self,
        source: WordTokenizer,
        target: WordTokenizer,
        dictionary: Mapping[str, str] | None,
        max_source_length: int | None,
    ) -> None:
        super().__init__(name="unknown_words")
        self._source, self._target, self._table = source, target, None
        self._max_source_length = max_source_length
        if dictionary:
            with tf.init_scope():
                # Source words that are equal once normalized: the first one counts.
                keys = source.normalize(list(dictionary)).numpy()
                values = target.normalize(list(dictionary.values())).numpy()
                words = dict(reversed(list(zip(keys, values, strict=True))))
                initializer = tf.lookup.KeyValueTensorInitializer(
                    tf.constant(list(words)), tf.constant(list(words.values()))
                )
                self._table = tf.lookup.StaticHashTable(initializer, default_value="")

    def decode(self, ids, alignment, text):
        """Returns the texts of ids `(B, T)` or `(B, N, T)`.

        Each unknown word is the source word of the largest weight, EOS left out. It stays U+FFFD
        where no source word has a weight above 0.

        Args:
            ids: Int tensor.
            alignment: Float tensor of the shape of `ids` and `(S,)`.
            text: String tensor `(B,)`, the sources.
        """
        words = self._source.split_words(text, self._max_source_length)
        if self._table is not None:
            translations = self._table.lookup(words)
            words = tf.where(translations == "", words, translations)
        shape, columns = tf.shape(ids), tf.shape(alignment)[-1]
        words = tf.pad(words, [[0, 0], [0, columns]])[:, :columns]
        # All sizes are explicit: -1 would be ambiguous if T is 0.
        flat = [shape[0], tf.reduce_prod(shape[1:]), columns]
        weights = tf.where(words[:, None, :] == "", 0.0, tf.reshape(alignment, flat))
        copies = tf.gather(words, tf.argmax(weights, axis=-1), batch_dims=1)
        copies = tf.where(tf.reduce_max(weights, axis=-1) > 0, copies, UNKNOWN_TEXT)
        return self._target.decode_words(ids, tf.reshape(copies, shape))
