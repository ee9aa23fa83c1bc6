"""How a translator searches: `SearchOptions`, of `Translator` and of `export_translator`."""

import dataclasses
from collections.abc import Mapping

import keras

from keras_attention import validation
from keras_attention.decoders import get_decoder_start_id, get_reorder_cache
from keras_attention.export._translator_checks import (
    check_copied_words,
    check_translator,
    check_vocabularies,
)
from keras_attention.export.length_limits import (
    MAX_SOURCE_LENGTH,
    resolve_max_length,
    resolve_max_source_length,
)
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.tokenizers.base import EOS_ID
from keras_attention.search import (
    BeamOptions,
    Constraints,
    GNMTLengthPenalty,
    ShallowFusion,
    SpecialIds,
)
from keras_attention.search.penalties import LengthPenalty, convert_penalty
from keras_attention.search.shallow_fusion import check_fusion


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How a translator searches, in Python and on a server.

    An export fixes them for every request. Only its signature `search` takes a length penalty and
    a maximum length for each example.

    Args:
        beam_width: Number of hypotheses that the beam search keeps and returns.
        max_length: Maximum output length in tokens, EOS included; at most the number of positions
            that the decoder has learned. `"auto"` is 128, or that number, if it is less.
        max_source_length: Maximum source length in tokens, EOS not included; longer sources are
            truncated. `"auto"` is 512, or the number of positions that the encoder has learned
            minus 1 for EOS, if that is less. None sets no limit: then one request can exhaust the
            memory.
        length_penalty: None, the alpha of a `GNMTLengthPenalty`, or a penalty object.
        constraints: The `Constraints` of all searches. They hold for every request, so they have
            no `prefix`, `phrases` or `max_lengths`, and one `min_length`. The `special_ids` are
            those of the decoder and the tokenizers; leave them out, or pass only an `end_id` that
            has other target tokens beside EOS. Such a token is part of the text that it ends, and
            a scored target ends there. An export traces a `logits_processor` into its graph; it
            is a function without weights.
        options: The `BeamOptions` of the beam search. Without a `reorder_cache` the search uses
            the decoder's. With `return_tree` an export has the signature `beam_tree` too.
        fusion: None, or a `ShallowFusion`: a language model of the target side that ranks the
            outputs of the greedy and the beam search too. It has as many logits as the decoder.
            An export stores its weights; `sample` and `score` are of the decoder alone.
        replace_unknown: Whether an unknown word of an output is written as the source word that it
            attended to most. A mapping holds translations of source words; the others are
            copied. It takes word tokenizers on both sides.
        stream: Whether an export has signatures that run `serving_default` and `greedy` a few
            steps at a time, with which the development server sends text as it becomes certain.
            `Translator.stream` needs no option.
        phrases: Whether an export has the signature `translate_with_phrases`, whose requests name
            phrases that each output contains. `Translator.beam(texts, phrases)` needs no option.

    Raises:
        ValueError: If an option is out of range. `Translator` and `export_translator` compare the
            options with the model and the tokenizers.

    Example:

    >>> from keras_attention.export import SearchOptions
    >>> from keras_attention.search import BeamOptions, Constraints
    >>> search = SearchOptions(
    ...     beam_width=8,
    ...     length_penalty=0.6,
    ...     constraints=Constraints(min_length=2, suppress_ids=[1]),
    ...     options=BeamOptions(coverage_penalty=0.2),
    ... )
    >>> search.length_penalty.alpha, search.options.coverage_penalty.beta
    (0.6, 0.2)
    """

    beam_width: int = 4
    max_length: int | str = "auto"
    max_source_length: int | str | None = "auto"
    length_penalty: LengthPenalty | float | None = None
    constraints: Constraints = Constraints()
    options: BeamOptions = BeamOptions()
    fusion: ShallowFusion | None = None
    replace_unknown: bool | Mapping[str, str] = False
    stream: bool = False
    phrases: bool = False

    def __post_init__(self) -> None:
        owner = "SearchOptions"
        validation.check_positive_int(owner, "beam_width", self.beam_width)
        if self.max_length != "auto":
            validation.check_positive_int(owner, "max_length", self.max_length, 'Or "auto".')
        limit = self.max_source_length
        if limit not in (None, "auto"):
            validation.check_positive_int(owner, "max_source_length", limit, 'Or None, or "auto".')
            if limit > MAX_SOURCE_LENGTH:
                raise ValueError(
                    f"{owner} expects `max_source_length` to be at most {MAX_SOURCE_LENGTH}, or "
                    f"None for no limit. Received: max_source_length={limit}"
                )
        penalty = convert_penalty(owner, "length_penalty", self.length_penalty, GNMTLengthPenalty)
        object.__setattr__(self, "length_penalty", penalty)
        for name, kind in (("constraints", Constraints), ("options", BeamOptions)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(
                    f"{owner} expects `{name}` to be a `{kind.__name__}`. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
        validation.check_int_at_least(owner, "min_length", self.constraints.min_length, 0)
        of_requests = {name: self.constraints for name in ("max_lengths", "prefix", "phrases")}
        for name, part in (of_requests | {"memory_mask": self.options}).items():
            value = getattr(part, name)
            if value is not None:
                raise ValueError(
                    f"{owner} expects `constraints` and `options` that hold for every request, "
                    f"without `{name}`. Pass it to `beam_search`. Received: "
                    f"{name}={validation.describe_value(value)}"
                )
        self.options.check_beam_width(owner, self.beam_width)
        check_fusion(owner, self.fusion)
        for name in ("stream", "phrases"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(
                    f"{owner} expects `{name}` to be True or False. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
        self._check_dictionary(owner)

    def _check_dictionary(self, owner):
        dictionary = self.replace_unknown
        if isinstance(dictionary, bool):
            return
        if not isinstance(dictionary, Mapping):
            raise ValueError(
                f"{owner} expects `replace_unknown` to be True, False, or a mapping of source "
                f"words to target words. Received: replace_unknown={dictionary!r}"
            )
        for source, target in dictionary.items():
            texts = [one for one in (source, target) if isinstance(one, str) and one.strip()]
            if len(texts) < 2 or len(source.split()) > 1:
                raise ValueError(
                    f"{owner} expects the dictionary `replace_unknown` to map words to words. "
                    f"Received: {source!r}: {target!r}"
                )


def resolve_search_options(
    owner: str, search: SearchOptions, model: keras.Model, source: Tokenizer, target: Tokenizer
) -> SearchOptions:
    """Returns the options with the limits, special ids and `reorder_cache` of a translator.

    Args:
        owner: Name of the function or class that the user called.
        search: The options of the user.
        model: A translator, to be checked.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.

    Raises:
        ValueError: If the model is not a translator, or a tokenizer or an option does not match it.
    """
    if not isinstance(search, SearchOptions):
        raise ValueError(
            f"{owner} expects `search` to be a `SearchOptions`, such as "
            f"SearchOptions(beam_width=8). Received: search={search!r}"
        )
    check_translator(owner, model)
    check_vocabularies(model, source, target)
    if search.replace_unknown is not False:
        kinds = {"source": source, "target": target}
        others = [f"{side}={one.kind}" for side, one in kinds.items() if one.kind != "words"]
        if others:
            raise ValueError(
                f"{owner} replaces unknown words where both tokenizers have words as tokens: parts "
                "of words have no word of the source to stand for them, and spell unknown words "
                f"anyway. Leave `replace_unknown` out. Received: {', '.join(others)}"
            )
    decoder = model.get_layer("decoder")
    check_copied_words(owner, decoder, source, target, search.replace_unknown)
    _check_language_model(owner, search.fusion, model)
    constraints, options = search.constraints, search.options
    max_length = resolve_max_length(owner, model, search.max_length)
    if constraints.min_length > max_length:
        raise ValueError(
            f"{owner} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={constraints.min_length}, max_length={max_length}"
        )
    size = target.vocabulary_size
    if any(i >= size or i == EOS_ID for i in constraints.suppress_ids):
        raise ValueError(
            f"{owner} expects `suppress_ids` to be ids of the target tokenizer, 0 to {size - 1}, "
            f"without EOS, {EOS_ID}. Received: suppress_ids={constraints.suppress_ids}"
        )
    asked = constraints.special_ids
    special_ids = SpecialIds(start_id=get_decoder_start_id(decoder), end_id=asked.end_id)
    if EOS_ID not in asked.end_ids or asked not in (SpecialIds(end_id=asked.end_id), special_ids):
        special_ids = dataclasses.replace(special_ids, end_id=EOS_ID)
        raise ValueError(
            f"{owner} expects `special_ids` to be those of the decoder and the tokenizers, "
            f"{special_ids}. Leave them out, or add target tokens to `end_id`. "
            f"Received: special_ids={asked}"
        )
    if asked.end_ids[-1] >= size:
        raise ValueError(
            f"{owner} expects `end_id` to be ids of the target tokenizer, 0 to {size - 1}. "
            f"Received: end_id={asked.end_id}"
        )
    reorder_cache = options.reorder_cache or get_reorder_cache(decoder)
    return dataclasses.replace(
        search,
        max_length=max_length,
        max_source_length=resolve_max_source_length(owner, model, search.max_source_length),
        constraints=dataclasses.replace(constraints, special_ids=special_ids),
        options=dataclasses.replace(options, reorder_cache=reorder_cache),
    )


def _check_language_model(owner, fusion, model):
    """Raises if a language model has a `vocabulary_size` that is not the decoder's."""
    size = getattr(getattr(fusion, "language_model", None), "vocabulary_size", None)
    if size is not None and size != model.output.shape[-1]:
        raise ValueError(
            f"{owner} expects a language model with the vocabulary of the decoder, "
            f"{model.output.shape[-1]} logits. Received: vocabulary_size={size}"
        )
