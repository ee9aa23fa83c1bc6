"""Cutting texts after a number of bytes, at the boundary of a character."""

import tensorflow as tf


def cut_bytes(texts, limit: int):
    """Returns the longest beginning of each text that has whole characters and fits into `limit`.

    Only a UTF-8 character that the limit would split is left out as a whole. Bytes that are not
    UTF-8 count as characters of their own.

    Args:
        texts: String tensor of shape `(batch,)`.
        limit: Int of at least 3, number of bytes.

    Returns:
        String tensor of shape `(batch,)`.

    Example:

    >>> texts = tf.constant(["abc", "abcd", "aböd", "a€€"])
    >>> [text.decode() for text in cut_bytes(texts, 3).numpy()]
    ['abc', 'abc', 'ab', 'a']
    """
    is_long = tf.strings.length(texts) > limit
    # The last three bytes inside and the first one outside: a character has four at most.
    beginning = tf.where(is_long, limit - 3, 0)
    tail = tf.strings.substr(texts, beginning, tf.fill(tf.shape(texts), 4))
    octets = tf.cast(tf.io.decode_raw(tail, tf.uint8, fixed_length=4), tf.int32)
    continues = (octets >= 0x80) & (octets < 0xC0)
    back = tf.zeros_like(beginning)
    # A first byte so far inside the limit, of a character that goes on behind it.
    for inside, first_byte in ((1, 0xC0), (2, 0xE0), (3, 0xF0)):
        is_split = (octets[:, 3 - inside] >= first_byte) & tf.reduce_all(
            continues[:, 4 - inside :], axis=1
        )
        back = tf.where(is_split, inside, back)
    kept = tf.where(is_long, limit - back, limit)
    return tf.strings.substr(texts, tf.zeros_like(kept), kept)
