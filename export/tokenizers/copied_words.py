"""The unknown words of a source, which a pointer-generator copies: their ids, and their texts.

See et al. 2017 (https://arxiv.org/abs/1704.04368), section 2.2: the unknown words of a source
extend the vocabulary. The first one has the id V, the size of the vocabulary, the next
distinct one V + 1, and so on.
"""

import tensorflow as tf

from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers.base import UNKNOWN_ID, UNKNOWN_TEXT
from keras_attention.export.tokenizers.words import WordTokenizer
from keras_attention.validation import check_positive_int


class CopiedWords:
    """Numbers the unknown words of sources, and writes them.

    `Translator` does so by itself for a decoder that copies words. Use it to prepare training data
    in a different way.

    Args:
        tokenizer: `WordTokenizer` of both sides.
        num_words: The number of unknown words of a source that have an id.
        max_source_length: Maximum source length in tokens, EOS not included, or None.

    Raises:
        ValueError: If `tokenizer` is not a `WordTokenizer`, or `num_words` is not positive.

    Example:

    >>> from keras_attention.export.tokenizers import CopiedWords, WordTokenizer
    >>> tokenizer = WordTokenizer(["sees", "by", "seen"])
    >>> source, target = ["Ann sees Bob"], ["Bob seen by Ann"]
    >>> copied = CopiedWords(tokenizer, num_words=2)
    >>> ids = copied.number(tokenizer.encode(source)[0], source)
    >>> labels = copied.number_targets(tokenizer.encode(target)[0], target, source)
    >>> ids.numpy().tolist(), labels.numpy().tolist()
    ([[7, 4, 8]], [[8, 6, 5, 7]])
    >>> copied.decode(labels, source).numpy()
    array([b'Bob seen by Ann'], dtype=object)
    """

    def __init__(
        self, tokenizer: WordTokenizer, num_words: int, max_source_length: int | None = None
    ) -> None:
        if not isinstance(tokenizer, WordTokenizer):
            raise ValueError(
                "CopiedWords expects `tokenizer` to be a `WordTokenizer`: subwords spell unknown "
                f"words anyway. Received: {type(tokenizer).__name__}"
            )
        check_positive_int("CopiedWords", "num_words", num_words)
        self._tokenizer, self._max_source_length = tokenizer, max_source_length
        self._first_id, self._num_words = tokenizer.vocabulary_size, num_words
        #: The number of ids, those of copied words included.
        self.num_ids = self._first_id + num_words

    def number(self, ids: tf.Tensor, text: Texts) -> tf.Tensor:
        """Returns the ids of sources with those of their unknown words, `(batch, source)`.

        Args:
            ids: The ids that the tokenizer's `encode` returns for `text`.
            text: String tensor `(batch,)`, the sources.
        """
        _, _, number = self._find_unknown(text)
        has_id = (ids == UNKNOWN_ID) & (number < self._num_words)
        return tf.where(has_id, self._first_id + number, ids)

    def number_targets(self, target_ids: tf.Tensor, targets: Texts, text: Texts) -> tf.Tensor:
        """Returns the ids of targets, with those of unknown words that their sources have.

        Args:
            target_ids: The ids `(batch, target)` that `encode` returns for `targets`, perhaps cut
                off.
            targets: String tensor `(batch,)`.
            text: String tensor `(batch,)`, the sources.
        """
        words = self._tokenizer.split_words(targets)[:, : tf.shape(target_ids)[1]]
        unknown = self._list_words(text)
        # A column more, so that an argmax never reads an empty axis.
        same = tf.pad(words[:, :, None] == unknown[:, None, :], [[0, 0], [0, 0], [0, 1]])
        number = tf.argmax(same, axis=-1, output_type=tf.int32)
        is_copied = (target_ids == UNKNOWN_ID) & tf.reduce_any(same, axis=-1)
        return tf.where(is_copied, self._first_id + number, target_ids)

    def get_tokens(self, ids: tf.Tensor, text: Texts) -> tf.Tensor:
        """Returns the token of each id `(batch, ...)`; copied words are tokens."""
        tokens = self._tokenizer.ids_to_tokens(ids)
        return tf.where(ids >= self._first_id, self._look_up(ids, text), tokens)

    def decode(self, ids: tf.Tensor, text: Texts) -> tf.Tensor:
        """Returns the texts of ids `(batch, ..., target)` for the sources `text` `(batch,)`."""
        return self._tokenizer.decode_words(ids, self._look_up(ids, text))

    def _look_up(self, ids, text):
        """Returns the copied word of each id, U+FFFD for other ids."""
        number = ids - self._first_id
        is_copied = (number >= 0) & (number < self._num_words)
        words = tf.gather(self._list_words(text), tf.where(is_copied, number, 0), batch_dims=1)
        return tf.where(is_copied & (words != ""), words, UNKNOWN_TEXT)

    def _list_words(self, text):
        """Returns the words that have an id, `(B, num_words)`, padded with `""`."""
        words, is_first, number = self._find_unknown(text)
        has_id = is_first & (number < self._num_words)
        return tf.ragged.boolean_mask(words, has_id).to_tensor("", shape=[None, self._num_words])

    def _find_unknown(self, text):
        """Returns for each word `(B, S)`: the word, whether it is the first of its unknown word,
        and the number of that unknown word, from 0."""
        limit = self._max_source_length
        ids, _ = self._tokenizer.encode(text, limit)
        words = self._tokenizer.split_words(text, limit)
        is_unknown = ids == UNKNOWN_ID
        distinct = tf.reshape(tf.unique(tf.reshape(words, [-1]))[1], tf.shape(words))
        same = (distinct[:, :, None] == distinct[:, None, :]) & is_unknown[:, None, :]
        same = tf.pad(same, [[0, 0], [0, 0], [0, 1]])
        first = tf.argmax(same, axis=-1, output_type=tf.int32)
        is_first = is_unknown & (first == tf.range(tf.shape(words)[1]))
        rank = tf.cumsum(tf.cast(is_first, tf.int32), axis=1) - 1
        # Words that are known have the rank of the first column, which nobody reads.
        return words, is_first, tf.gather(rank, first, batch_dims=1)
