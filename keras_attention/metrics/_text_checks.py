"""The check of references and hypotheses."""

from collections.abc import Sequence
from typing import TypeAlias

#: One text, or all texts that are accepted.
Reference: TypeAlias = str | Sequence[str]


def pair_texts(
    owner: str, references: Sequence[Reference], hypotheses: Sequence[str]
) -> list[tuple[list[str], str]]:
    """Returns the accepted texts of each hypothesis, with the hypothesis."""
    received = {"references": references, "hypotheses": hypotheses}
    for name, texts in received.items():
        if not isinstance(texts, (list, tuple)):
            raise ValueError(
                f"{owner} expects `{name}` to be a list of strings. It has no place in "
                f"`model.compile`: decode ids to texts, then call `update_state`. "
                f"Received: {name}={texts!r}"
            )
    if len(references) != len(hypotheses):
        raise ValueError(
            f"{owner} expects as many references as hypotheses; several for one hypothesis are a "
            f"list. Received: {len(references)} references, {len(hypotheses)} hypotheses"
        )
    accepted = [[one] if isinstance(one, str) else list(one) for one in references]
    for number, (texts, hypothesis) in enumerate(zip(accepted, hypotheses, strict=True)):
        if not texts or not all(isinstance(text, str) for text in (*texts, hypothesis)):
            raise ValueError(
                f"{owner} expects a string as each hypothesis, and a string or a list of at least "
                f"one as its reference. Received: references[{number}]={references[number]!r}, "
                f"hypotheses[{number}]={hypothesis!r}"
            )
    return list(zip(accepted, hypotheses, strict=True))
