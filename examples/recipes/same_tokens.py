"""Whether two runs have the same tokens."""

import pathlib


def check_same_tokens(one: pathlib.Path, other: pathlib.Path, reason: str) -> None:
    """Raises unless two folders hold the same tokenizer.

    Args:
        one, other: The folders of saved tokenizers.
        reason: Why they have to be the same, for the error.

    Raises:
        ValueError: If they are not the same.
    """
    first, second = ((folder / "tokenizer.json").read_bytes() for folder in (one, other))
    if first != second:
        raise ValueError(f"{one} and {other} are not the same: {reason}.")
