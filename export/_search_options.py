"""Checks and resolves the options of a translator's searches."""

import dataclasses
import math
import numbers

from keras_attention import validation
from keras_attention.decoders import get_decoder_start_id, get_reorder_cache
from keras_attention.export._model_checks import check_translator, check_vocabularies
from keras_attention.export.length_limits import check_max_length, resolve_max_source_length
from keras_attention.export.tokenizers.base import EOS_ID
from keras_attention.search import (
    BeamOptions,
    Constraints,
    CoveragePenalty,
    GNMTLengthPenalty,
    SpecialIds,
)
from keras_attention.search.penalties import LengthPenalty


@dataclasses.dataclass(frozen=True)
class TranslatorSearchOptions:
    """Checked options of a translator's searches; `export_translator` documents each of them.

    Attributes:
        max_length: Maximum output length in tokens, EOS included.
        max_source_length: Maximum source length in tokens, EOS not included; None for no limit.
        beam_width: Number of hypotheses that the beam search keeps and returns.
        length_penalty: The length penalty of the beam search, or None.
        constraints: The `Constraints` of all searches, with the ids of the decoder.
        beam_options: The `BeamOptions` of the beam search, with the decoder's `reorder_cache`.
    """

    max_length: int
    max_source_length: int | None
    beam_width: int
    length_penalty: LengthPenalty | None
    constraints: Constraints
    beam_options: BeamOptions

    def list_options(self) -> dict:
        """Returns the options by name, as `export_translator` takes them."""
        return {
            "max_length": self.max_length,
            "max_source_length": self.max_source_length,
            "beam_width": self.beam_width,
            "length_penalty": self.length_penalty,
            "coverage_penalty": self.beam_options.coverage_penalty,
            "min_length": self.constraints.min_length,
            "suppress_ids": self.constraints.suppress_ids,
            "no_repeat_ngram_size": self.constraints.no_repeat_ngram_size,
        }


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
    decoder = model.get_layer("decoder")
    constraints = Constraints(
        min_length=min_length,
        suppress_ids=_resolve_suppress_ids(owner, suppress_ids, target.vocabulary_size),
        no_repeat_ngram_size=no_repeat_ngram_size,
        special_ids=SpecialIds(start_id=get_decoder_start_id(decoder)),
    )
    return TranslatorSearchOptions(
        max_length,
        resolve_max_source_length(owner, model, max_source_length),
        beam_width,
        _make_penalty(owner, GNMTLengthPenalty, "length_penalty", length_penalty),
        constraints,
        BeamOptions(
            coverage_penalty=_make_penalty(
                owner, CoveragePenalty, "coverage_penalty", coverage_penalty
            ),
            reorder_cache=get_reorder_cache(decoder),
        ),
    )


def _resolve_suppress_ids(owner, suppress_ids, vocabulary_size):
    """Returns `suppress_ids` as a tuple; raises if one is not a target id or EOS."""
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
    return ids


def _make_penalty(owner, penalty, name, value):
    """Returns `value`, or the penalty with the number `value` as its factor."""
    if not isinstance(value, numbers.Real):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{owner} expects `{name}` to be finite. Received: {name}={value}")
    return penalty(value)
