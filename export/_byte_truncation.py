"""Truncates texts to a number of bytes, without splitting a character."""

import tensorflow as tf

# What continues a character: combining marks, joiners, vowels and finals of Hangul, skin tones.
_JOINER = r"\x{200D}"
_EXTENDING = rf"\p{{M}}{_JOINER}\x{{1160}}-\x{{11FF}}\x{{1F3FB}}-\x{{1F3FF}}"
# \C is any byte: a cut may leave bytes that are not UTF-8.
_BEGINS_EXTENDING = rf"[{_EXTENDING}]\C*"
_ENDS_JOINING = rf"\C*{_JOINER}"
_LAST_CLUSTER = rf"(?:[^{_EXTENDING}][{_EXTENDING}]*{_JOINER})*[^{_EXTENDING}]?[{_EXTENDING}]*$"
MAX_CLUSTER_BYTES = 256  # of a character with its marks; further bytes are not examined


def truncate_bytes(texts, limit: int):
    r"""Returns the longest beginning of each text that has whole characters and fits into `limit`.

    A UTF-8 character that the limit would split is left out as a whole, and so is a letter whose
    combining marks, or an emoji whose other parts, lie behind the limit. Bytes that are not UTF-8
    count as characters of their own.

    Args:
        texts: String tensor of shape `(batch,)`.
        limit: Int of at least 3, number of bytes.

    Returns:
        String tensor of shape `(batch,)`.

    Example:

    >>> texts = tf.constant(["abc", "abcd", "aböd", "a€€", "abe\u0301"])
    >>> [text.decode() for text in truncate_bytes(texts, 3).numpy()]
    ['abc', 'abc', 'ab', 'a', 'ab']
    """
    is_long = tf.strings.length(texts) > limit
    # The last three bytes inside and the first one outside: a character has at most four bytes.
    beginning = tf.where(is_long, limit - 3, 0)
    tail = tf.strings.substr(texts, beginning, tf.fill(tf.shape(texts), 4))
    octets = tf.cast(tf.io.decode_raw(tail, tf.uint8, fixed_length=4), tf.int32)
    continues = (octets >= 0x80) & (octets < 0xC0)
    back = tf.zeros_like(beginning)
    # The first byte of a character that continues beyond the limit, `inside` bytes before it.
    for inside, first_byte in ((1, 0xC0), (2, 0xE0), (3, 0xF0)):
        is_split = (octets[:, 3 - inside] >= first_byte) & tf.reduce_all(
            continues[:, 4 - inside :], axis=1
        )
        back = tf.where(is_split, inside, back)
    num_kept_bytes = tf.where(is_long, limit - back, limit)
    num_kept_bytes -= _count_split_cluster(texts, is_long, num_kept_bytes)
    return tf.strings.substr(texts, tf.zeros_like(num_kept_bytes), num_kept_bytes)


def _count_split_cluster(texts, is_long, num_kept_bytes):
    """Returns the bytes before a cut that belong to what follows it, 0 where it splits nothing."""
    end = tf.where(is_long, num_kept_bytes, 0)
    following = tf.strings.substr(texts, end, tf.fill(tf.shape(texts), 4))
    size = tf.minimum(end, MAX_CLUSTER_BYTES)
    tail = tf.strings.substr(texts, end - size, size)
    is_split = tf.strings.regex_full_match(following, _BEGINS_EXTENDING)
    is_split |= tf.strings.regex_full_match(tail, _ENDS_JOINING)
    before = tf.strings.regex_replace(tail, _LAST_CLUSTER, "", replace_global=False)
    return tf.where(is_long & is_split, size - tf.strings.length(before), 0)
