"""The unknown words of a source, which a pointer-generator copies: their ids, and their texts.

See et al. 2017 (https://arxiv.org/abs/1704.04368), section 2.2: the unknown words of a source extend
the vocabulary. The first one has the id V, the size of the vocabulary, the next other one V + 1.
"""

import tensorflow as tf

from keras_attention.decoders import PointerGeneratorDecoder
from keras_attention.export._unknown_words import decode_with_words
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import UNKNOWN_ID, UNKNOWN_TEXT


class CopiedWords:
    """Numbers the unknown words of sources, and writes them.

    Args:
        tokenizer: `WordTokenizer` of both sides.
        num_words: The number of unknown words of a source that have an id.
        max_source_length: Maximum source length in tokens, EOS not included, or None.
    """

    reads_alignments = False

    def __init__(self, tokenizer: WordTokenizer, num_words: int, max_source_length: int | None):
        self._tokenizer, self._max_source_length = tokenizer, max_source_length
        self._first_id, self._num_words = tokenizer.vocabulary_size, num_words
        #: The number of ids, those of copied words included.
        self.num_ids = self._first_id + num_words

    def number(self, ids, text):
        """Returns source ids `(B, S)`, as `encode` returns them, with numbered unknown words."""
        _, _, number = self._find_unknown(text)
        has_id = (ids == UNKNOWN_ID) & (number < self._num_words)
        return tf.where(has_id, self._first_id + number, ids)

    def number_targets(self, target_ids, targets, text):
        """Returns target ids `(B, T)` with the ids of those unknown words that the sources have.

        Args:
            target_ids: The ids that `encode` returns for `targets`, perhaps cut off.
            targets: String tensor `(B,)`.
            text: String tensor `(B,)`, the sources.
        """
        words = self._tokenizer.split_words(targets)[:, : tf.shape(target_ids)[1]]
        unknown = self._list_words(text)
        # A column more, so that an argmax never reads an empty axis.
        same = tf.pad(words[:, :, None] == unknown[:, None, :], [[0, 0], [0, 0], [0, 1]])
        number = tf.argmax(same, axis=-1, output_type=tf.int32)
        is_copied = (target_ids == UNKNOWN_ID) & tf.reduce_any(same, axis=-1)
        return tf.where(is_copied, self._first_id + number, target_ids)

    def get_tokens(self, ids, text):
        """Returns the token of each id `(B, ...)`; copied words are tokens."""
        tokens = self._tokenizer.ids_to_tokens(ids)
        return tf.where(ids >= self._first_id, self._look_up(ids, text), tokens)

    def decode(self, ids, alignment, text):
        """Returns the texts of ids `(B, T)` or `(B, N, T)` for the sources `text` `(B,)`."""
        return decode_with_words(self._tokenizer, ids, self._look_up(ids, text))

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


def make_copied_words(decoder, source, max_source_length) -> CopiedWords | None:
    """Returns the `CopiedWords` of a translator, or None if its decoder copies none."""
    if not isinstance(decoder, PointerGeneratorDecoder):
        return None
    return CopiedWords(source, decoder.num_copied_words, max_source_length)


def check_copied_words(owner, decoder, source, target, replace_unknown) -> None:
    """Raises unless the tokenizers and options fit a decoder that copies words, if it is one."""
    if not isinstance(decoder, PointerGeneratorDecoder):
        return
    sides = [(one.kind, one.lowercase, one.symbols, one.get_content()) for one in (source, target)]
    if sides[0] != sides[1] or source.kind != "words":
        raise ValueError(
            f"{owner} expects one word tokenizer of both sides for a decoder that copies words: "
            "a copied word has the same id on both. Subwords spell unknown words anyway. "
            f"Received: source={source.kind}, target={target.kind}"
            + ("" if sides[0] == sides[1] else ", which differ")
        )
    if decoder.first_copied_id != target.vocabulary_size:
        raise ValueError(
            f"{owner} expects a decoder that copies words to have {target.vocabulary_size + 1} "
            "ids inside, one more than the tokenizer. "
            f"Received: a decoder with {decoder.decoder.vocabulary_size}"
        )
    if replace_unknown is not False:
        raise ValueError(
            f"{owner} expects no `replace_unknown` for a decoder that copies unknown words itself. "
            "Leave it out."
        )
