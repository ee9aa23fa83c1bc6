"""Copied words as an option of a model, See et al. 2017 (https://arxiv.org/abs/1704.04368)."""

import keras

from keras_attention import Decoder, PointerGeneratorDecoder


def count_decoder_ids(vocabulary_size: int, copied_words: int) -> int:
    """Returns the ids of a decoder; one that copies words needs one more."""
    return vocabulary_size + (copied_words > 0)


def add_copying(
    decoder: Decoder, copied_words: int, scheduled_sampling: str | None = None
) -> keras.layers.Layer:
    """Returns the decoder, or a layer of its name that copies words of the source too.

    Args:
        decoder: A decoder of `count_decoder_ids` ids.
        copied_words: How many unknown words of one source can be copied; 0 for none.
        scheduled_sampling: That option of the model, which copying excludes.

    Raises:
        ValueError: If both are asked for.
    """
    if not copied_words:
        return decoder
    if scheduled_sampling is not None:
        raise ValueError(
            "Copied words are trained on true tokens. Leave out one of copied_words and "
            f"scheduled_sampling. Received: copied_words={copied_words}, "
            f"scheduled_sampling={scheduled_sampling!r}"
        )
    return PointerGeneratorDecoder(
        decoder, copied_words, dtype=decoder.dtype_policy, name=decoder.name
    )
