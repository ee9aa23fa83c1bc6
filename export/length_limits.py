"""Limits the lengths of sources and outputs to the positions that a translator has learned.

The lengths of a served graph are unknown while it is traced. Beyond its table of positions, such a
graph uses the last position for every token: it raises no error, and its outputs are wrong.
"""

import keras

from keras_attention import LearnedPositionalEmbedding
from keras_attention.export.runs import SIDES

DEFAULT_MAX_SOURCE_LENGTH = 512
DEFAULT_MAX_LENGTH = 128
MAX_SOURCE_LENGTH = 2**20  # attention weights of as many tokens take terabytes


def count_learned_positions(model: keras.Model) -> dict[str, int]:
    """Returns the number of learned positions of each side of a translator that learns them.

    Args:
        model: A translator with children `encoder` and `decoder`.

    Returns:
        Dict with the keys "source" and "target", one of them, or neither.
    """
    found = {}
    for side, name in zip(SIDES, ("encoder", "decoder"), strict=True):
        layers = model.get_layer(name)._flatten_layers()
        tables = [layer for layer in layers if isinstance(layer, LearnedPositionalEmbedding)]
        if tables:
            found[side] = min(table.max_length for table in tables)
    return found


def choose_max_length(model: keras.Model, trained: int | None) -> int:
    """Returns the default maximum output length in tokens.

    It is twice the longest target of the training, or 128 if that is unknown, but at most the
    number of positions that the decoder has learned.

    Args:
        model: A translator.
        trained: Number of tokens of the longest target of the training, or None.
    """
    limit = 2 * trained if trained else DEFAULT_MAX_LENGTH
    return min(limit, count_learned_positions(model).get("target", limit))


def resolve_max_length(owner: str, model: keras.Model, limit: int | str) -> int:
    """Returns the maximum output length in tokens, EOS included.

    Args:
        owner: Name of the function that the user called.
        model: A translator.
        limit: A positive int, or `"auto"` for the default of `choose_max_length`.

    Raises:
        ValueError: If the decoder has learned fewer positions.
    """
    if limit == "auto":
        return choose_max_length(model, None)
    learned = count_learned_positions(model).get("target", limit)
    if limit > learned:
        raise ValueError(
            f"{owner} expects `max_length` to be at most {learned}, the positions that the "
            f"decoder has learned. Received: max_length={limit}"
        )
    return limit


def resolve_max_source_length(
    owner: str, model: keras.Model, limit: int | str | None
) -> int | None:
    """Returns the maximum source length in tokens, EOS not included; None for no limit.

    Args:
        owner: Name of the function that the user called.
        model: A translator.
        limit: A positive int, None for no limit, or `"auto"` for 512 or the number of positions
            that the encoder has learned minus 1, whichever is less.

    Raises:
        ValueError: If the encoder has learned fewer positions than `limit` and EOS take.
    """
    learned = count_learned_positions(model).get("source")
    if limit == "auto":
        default = DEFAULT_MAX_SOURCE_LENGTH
        return default if learned is None else min(default, learned - 1)
    if learned is None or (limit is not None and limit < learned):
        return limit
    raise ValueError(
        f"{owner} expects `max_source_length` to be at most {learned - 1}: the encoder has "
        f"learned {learned} positions, and EOS takes one. "
        f"Received: max_source_length={limit}"
    )
