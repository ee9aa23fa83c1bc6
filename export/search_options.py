"""The options of a translator's searches, checked."""

import dataclasses
import math
import numbers

from keras_attention import checks
from keras_attention.decoding import CoveragePenalty, GNMTLengthPenalty
from keras_attention.export.contract import check_translator, check_vocabularies
from keras_attention.export.limits import check_output_limit, checked_source_limit
from keras_attention.export.tokenizers.base import END_ID


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """What holds for every search of a translator; `export_translator` says what each one is.

    Attributes:
        max_length: Longest output in tokens, the EOS token counted.
        max_source_length: Longest source in tokens, the EOS token not counted; None for any.
        constraints: Dict of arguments that all searches take.
        beam_search: Dict of arguments of `beam_search`, the constraints among them.
    """

    max_length: int
    max_source_length: int | None
    constraints: dict
    beam_search: dict


def checked_options(
    owner: str,
    model,
    source,
    target,
    *,
    beam_width,
    max_length,
    max_source_length,
    length_penalty,
    coverage_penalty,
    min_length,
    banned_ids,
    no_repeat_ngram,
) -> SearchOptions:
    """Returns the options of the searches of a translator.

    Args:
        owner: Name of the function or class the user called.
        model: What should be a translator.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        beam_width, max_length, max_source_length, length_penalty, coverage_penalty, min_length,
            banned_ids, no_repeat_ngram: As `export_translator` takes them.

    Raises:
        ValueError: If the model is not a translator, a tokenizer does not belong to it, or an
            option is out of range.
    """
    check_translator(owner, model)
    check_vocabularies(model, source, target)
    checks.positive_int(owner, "beam_width", beam_width)
    checks.positive_int(owner, "max_length", max_length)
    check_output_limit(owner, model, max_length)
    checks.int_at_least(owner, "min_length", min_length, 0)
    if min_length > max_length:
        raise ValueError(
            f"{owner} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}"
        )
    if no_repeat_ngram is not None:
        checks.positive_int(owner, "no_repeat_ngram", no_repeat_ngram)
    constraints = {
        "min_length": min_length,
        "banned_ids": _checked_ids(owner, banned_ids, target.vocabulary_size),
        "no_repeat_ngram": no_repeat_ngram,
    }
    penalties = {
        "length_penalty": _penalty(owner, GNMTLengthPenalty, "length_penalty", length_penalty),
        "coverage_penalty": _penalty(owner, CoveragePenalty, "coverage_penalty", coverage_penalty),
    }
    return SearchOptions(
        max_length,
        checked_source_limit(owner, model, max_source_length),
        constraints,
        {"beam_width": beam_width, **penalties, **constraints},
    )


def _checked_ids(owner, banned_ids, vocabulary_size):
    """`banned_ids` as a sorted tuple of ints, none of them needed to write or to end a text."""
    try:
        ids = None if isinstance(banned_ids, (str, bytes)) else tuple(banned_ids)
    except TypeError:
        ids = None
    known = range(vocabulary_size)
    if ids is None or any(
        isinstance(i, bool) or not isinstance(i, numbers.Integral) or i not in known or i == END_ID
        for i in ids
    ):
        raise ValueError(
            f"{owner} expects `banned_ids` to be ids of the target tokenizer, 0 to "
            f"{vocabulary_size - 1}, without the end mark {END_ID}. "
            f"Received: banned_ids={banned_ids!r}"
        )
    return tuple(sorted({int(i) for i in ids}))


def _penalty(owner, penalty, name, value):
    """`value`, or the penalty that a number stands for."""
    if not isinstance(value, numbers.Real):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{owner} expects `{name}` to be finite. Received: {name}={value}")
    return penalty(value)
