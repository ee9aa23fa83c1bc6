"""How long sources and outputs of a translator may be, by the positions that it has learned.

Beyond a table of positions a served graph, whose lengths are not known while it is traced,
takes the last of them for every token: nothing fails, and the answers are wrong.
"""

import keras

from keras_attention import LearnedPositionalEmbedding, checks
from keras_attention.export.runs import SIDES

SOURCE_LIMIT = 512
OUTPUT_LIMIT = 128
MAX_TOKENS = 2**31 - 2  # of a source: with its end mark they are counted as int32


def learned_positions(model: keras.Model) -> dict[str, int]:
    """Returns how many positions a translator has learned, of each side that learns them.

    Args:
        model: A translator with children `encoder` and `decoder`.

    Returns:
        Dict with the keys "source" and "target", or one of them, or none.
    """
    found = {}
    for side, name in zip(SIDES, ("encoder", "decoder"), strict=True):
        layers = model.get_layer(name)._flatten_layers()
        tables = [layer for layer in layers if isinstance(layer, LearnedPositionalEmbedding)]
        if tables:
            found[side] = min(table.max_length for table in tables)
    return found


def default_limit(model: keras.Model, trained: int | None) -> int:
    """Returns the longest output, if nobody says how long it may be.

    It is twice the longest target of training, or 128 if that is not known, but no more than
    the decoder has learned positions.

    Args:
        model: A translator.
        trained: Tokens of the longest target of training, or None.
    """
    limit = 2 * trained if trained else OUTPUT_LIMIT
    return min(limit, learned_positions(model).get("target", limit))


def check_output_limit(owner: str, model: keras.Model, limit: int) -> None:
    """Raises unless the decoder has learned positions for outputs of `limit` tokens.

    Args:
        owner: Name of the function the user called.
        model: A translator.
        limit: Tokens of the longest output, end mark counted.

    Raises:
        ValueError: If it has learned fewer.
    """
    learned = learned_positions(model).get("target", limit)
    if limit > learned:
        raise ValueError(
            f"{owner} expects `max_length` to be at most {learned}, the positions that the "
            f"decoder has learned. Received: max_length={limit}"
        )


def checked_source_limit(owner: str, model: keras.Model, limit: int | str | None) -> int | None:
    """Returns the tokens of the longest source, end mark not counted; None for any number.

    Args:
        owner: Name of the function the user called.
        model: A translator.
        limit: What was asked for: a positive int, None for any number, or `"auto"` for 512 or
            what the encoder has learned positions for, whichever is less.

    Raises:
        ValueError: If it is none of these, or the encoder has learned fewer positions than
            `limit` and the end mark take.
    """
    learned = learned_positions(model).get("source")
    if limit == "auto":
        return SOURCE_LIMIT if learned is None else min(SOURCE_LIMIT, learned - 1)
    if limit is not None:
        checks.positive_int(owner, "max_source_length", limit, 'Or None, or "auto".')
        if limit > MAX_TOKENS:
            raise ValueError(
                f"{owner} expects `max_source_length` to be at most {MAX_TOKENS}, or None for no "
                f"limit. Received: max_source_length={limit}"
            )
    if learned is None or (limit is not None and limit < learned):
        return limit
    raise ValueError(
        f"{owner} expects `max_source_length` to be at most {learned - 1}: the encoder has "
        f"learned {learned} positions, and the end mark takes one. "
        f"Received: max_source_length={limit}"
    )
