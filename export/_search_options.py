"""Checks and resolves the options of a translator's searches."""

import dataclasses
import math
import numbers

from keras_attention._utils import validation
from keras_attention.export._length_limits import check_max_length, resolve_max_source_length
from keras_attention.export._model_checks import check_translator, check_vocabularies
from keras_attention.export.tokenizers.base import EOS_ID
from keras_attention.search import CoveragePenalty, GNMTLengthPenalty


@dataclasses.dataclass(frozen=True)
class TranslatorSearchOptions:
    """Checked options of a translator's searches; `export_translator` documents each of them.

    Attributes:
        max_length: Maximum output length in tokens, EOS included.
        max_source_length: Maximum source length in tokens, EOS not included; None for no limit.
        constraints: Dict of the arguments that all searches take.
        beam_search: Dict of the arguments of `beam_search`, constraints included.
    """

    max_length: int
    max_source_length: int | None
    constraints: dict
    beam_search: dict


def resolve_search_options(
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
    suppress_ids,
    no_repeat_ngram_size,
) -> TranslatorSearchOptions:
    """Returns the checked options of a translator's searches.

    Args:
        owner: Name of the function or class that the user called.
        model: A translator, to be checked.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        beam_width, max_length, max_source_length, length_penalty, coverage_penalty, min_length,
            suppress_ids, no_repeat_ngram_size: As `export_translator` takes them.

    Raises:
        ValueError: If the model is not a translator, a tokenizer does not match it, or an
            option is out of range.
    """
    check_translator(owner, model)
    check_vocabularies(model, source, target)
    validation.check_positive_int(owner, "beam_width", beam_width)
    validation.check_positive_int(owner, "max_length", max_length)
    check_max_length(owner, model, max_length)
    validation.check_int_at_least(owner, "min_length", min_length, 0)
    if min_length > max_length:
        raise ValueError(
            f"{owner} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}"
        )
    if no_repeat_ngram_size is not None:
        validation.check_positive_int(owner, "no_repeat_ngram_size", no_repeat_ngram_size)
    constraints = {
        "min_length": min_length,
        "suppress_ids": _resolve_suppress_ids(owner, suppress_ids, target.vocabulary_size),
        "no_repeat_ngram_size": no_repeat_ngram_size,
    }
    penalties = {
        "length_penalty": _make_penalty(owner, GNMTLengthPenalty, "length_penalty", length_penalty),
        "coverage_penalty": _make_penalty(
            owner, CoveragePenalty, "coverage_penalty", coverage_penalty
        ),
    }
    return TranslatorSearchOptions(
        max_length,
        resolve_max_source_length(owner, model, max_source_length),
        constraints,
        {"beam_width": beam_width, **penalties, **constraints},
    )


def _resolve_suppress_ids(owner, suppress_ids, vocabulary_size):
    """Returns `suppress_ids` as a sorted tuple of ints; raises if one is not a target id or EOS."""
    try:
        ids = None if isinstance(suppress_ids, (str, bytes)) else tuple(suppress_ids)
    except TypeError:
        ids = None
    known = range(vocabulary_size)
    if ids is None or any(
        isinstance(i, bool) or not isinstance(i, numbers.Integral) or i not in known or i == EOS_ID
        for i in ids
    ):
        raise ValueError(
            f"{owner} expects `suppress_ids` to be ids of the target tokenizer, 0 to "
            f"{vocabulary_size - 1}, without EOS, {EOS_ID}. "
            f"Received: suppress_ids={suppress_ids!r}"
        )
    return tuple(sorted({int(i) for i in ids}))


def _make_penalty(owner, penalty, name, value):
    """Returns `value`, or the penalty with the number `value` as its factor."""
    if not isinstance(value, numbers.Real):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{owner} expects `{name}` to be finite. Received: {name}={value}")
    return penalty(value)
