"""Wrong arguments of the exporter, without tracing."""

import math
import os

import pytest
import tensorflow as tf
from search_fields import assert_same, export, make_search
from toy_translator import ToyDecoder, toy_translator

from keras_attention._utils.flat_beams import gather_beams
from keras_attention.export import (
    SearchOptions,
    XLABuckets,
    export_translator,
    tokenizers,
    translator_export,
)
from keras_attention.export.search_options import resolve_search_options
from keras_attention.search import (
    CoveragePenalty,
    GNMTLengthPenalty,
    SpecialIds,
)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"beam_width": 0}, "`beam_width` to be a positive int.*beam_width=0"),
        ({"max_length": -1}, "`max_length` to be a positive int.*Or .auto.*max_length=-1"),
        ({"max_length": 3, "min_length": 4}, "at most `max_length`.*min_length=4, max_length=3"),
        ({"min_length": -1}, "min_length=-1"),
        (
            {"suppress_ids": (3,)},
            "`suppress_ids` to be ids.*without EOS, 3",
        ),
        ({"suppress_ids": (10**6,)}, "suppress_ids=\\(1000000,\\)"),
        ({"suppress_ids": "abc"}, "suppress_ids='abc'"),
        (
            {"no_repeat_ngram_size": 0},
            "`no_repeat_ngram_size` to be a positive int.*no_repeat_ngram_size=0",
        ),
        ({"max_source_length": 0}, "max_source_length=0"),
        ({"max_source_length": "all"}, "positive int.*Or None.*max_source_length='all'"),
        ({"version": 0}, "`version` to be a positive int.*version=0"),
        ({"version": "3"}, "version='3'"),
        ({"length_penalty": 99.0}, "GNMTLengthPenalty accepts as `length_penalty`.*penalty=99.0"),
        ({"coverage_penalty": -1.0}, "CoveragePenalty accepts as `coverage_pen.*penalty=-1.0"),
        ({"length_penalty": "gnmt"}, "length_penalty='gnmt'"),
        ({"coverage_penalty": "gnmt"}, "coverage_penalty='gnmt'"),
        ({"xla": True}, "`xla` to be None or an `XLABuckets`.*xla=True"),
        ({"name": "a/b"}, "`name` to consist of letters.*name='a/b'"),
        ({"length_penalty": math.nan}, "as `length_penalty`. Received: length_penalty=nan"),
        ({"coverage_penalty": math.inf}, "as `coverage_penalty`. Received: coverage_penalty=inf"),
        ({"num_groups": 3}, "SearchOptions expects `num_groups`.*num_groups=3"),
        ({"prefix": [[5]]}, "hold for every request, without `prefix`.*Received: prefix="),
        ({"phrases": [[[5]]]}, "hold for every request, without `phrases`.*Received: phrases="),
        ({"memory_mask": [[True]]}, "hold for every request, without `memory_mask`.*memory_mask="),
        ({"max_lengths": [4]}, "hold for every request, without `max_lengths`.*max_lengths="),
        ({"min_length": [4]}, "SearchOptions expects `min_length` to be an int.*min_length="),
        (
            {"special_ids": SpecialIds(start_id=1)},
            "export_translator expects `special_ids` to be those of the decoder.*start_id=2.*"
            "Received: special_ids=SpecialIds\\(start_id=1",
        ),
        ({"special_ids": SpecialIds(end_id=4)}, "Received: special_ids=.*end_id=4"),
        ({"special_ids": SpecialIds(4, (3, 5))}, "`end_id`. Received: special_ids=.*start_id=4"),
        ({"special_ids": SpecialIds(end_id=(3, 6))}, "`end_id` to be ids .* 0 to 5.*=\\(3, 6\\)"),
        ({"repetition_penalty": 0.0}, "`repetition_penalty` to be a number in.*penalty=0.0"),
        ({"logits_processor": tf.keras.layers.Dense(6)}, "`logits_processor` to be a function"),
        ({"logits_processor": "drop"}, "`logits_processor` to be None or a callable.*='drop'"),
        ({"beam_width": 5_000_000}, "34.4 GB.*beam_width=5000000, max_length=128, about 256"),
        ({"beam_width": 10**11}, "beam_width=100000000000, max_length=128, about"),
        ({"max_length": 2**31}, "beam_width=4, max_length=2147483648, about"),
        ({"max_length": 10**11}, "beam_width=4, max_length=100000000000, about"),
        ({"min_length": 10**11}, "min_length=100000000000, max_length=128"),
        ({"max_source_length": 10**11}, "at most 1048576, or None.*length=100000000000"),
        ({"version": 2**63}, "at most 9223372036854775807. Received: 9223372036854775808"),
        ({"suppress_ids": (10**11,)}, "suppress_ids=\\(100000000000,\\)"),
        ({"xla": XLABuckets((1, 10**11))}, "a batch of 100000000000 text.*batches of 100000000000"),
        ({"xla": XLABuckets((1,), (10**11,))}, "smaller sizes.*sources of 100000000000 tokens"),
    ],
)
def test_arguments_are_checked_before_anything_is_written(options, text, pieces, tmp_path):
    with pytest.raises(ValueError, match=text):
        export(pieces, tmp_path, **options)
    assert os.listdir(tmp_path) == []


def test_options_are_given_as_one_object(pieces, tmp_path):
    model, source, target = pieces
    sides = {"source": source, "target": target}
    with pytest.raises(TypeError, match="unexpected keyword argument 'beam_width'"):
        export_translator(model, tmp_path, **sides, beam_width=5)
    with pytest.raises(ValueError, match="`search` to be a `SearchOptions`.*search={'beam_width'"):
        export_translator(model, tmp_path, **sides, search={"beam_width": 5})
    with pytest.raises(ValueError, match="`options` to be a `BeamOptions`.*options={}"):
        SearchOptions(options={})
    with pytest.raises(ValueError, match="`constraints` to be a `Constraints`.*constraints=None"):
        SearchOptions(constraints=None)


def test_the_ids_and_the_cache_are_the_decoders_unless_given(pieces):
    model, source, target = pieces
    decoder = ToyDecoder(6, 7, name="decoder")
    decoder.decoder_start_id = 3
    ends_first = toy_translator(7, 6, decoder=decoder)
    search = SearchOptions()
    found = resolve_search_options("test", search, model, source, target)
    assert found.constraints.special_ids == SpecialIds(start_id=2)
    assert found.options.reorder_cache is gather_beams
    assert (found.max_length, found.max_source_length) == (128, 512)
    found = resolve_search_options("test", search, ends_first, source, target)
    assert found.constraints.special_ids == SpecialIds(start_id=3)
    more = make_search(special_ids=SpecialIds(end_id=[5, 3]))
    ends = resolve_search_options("test", more, ends_first, source, target).constraints
    assert ends.special_ids == SpecialIds(start_id=3, end_id=(3, 5))
    again = resolve_search_options("test", found, ends_first, source, target)
    assert again.constraints.special_ids == found.constraints.special_ids
    assert_same(again, found)

    def reorder(state, parents):
        return gather_beams(state, parents)

    search = make_search(reorder_cache=reorder, special_ids=SpecialIds(start_id=3))
    found = resolve_search_options("test", search, ends_first, source, target)
    assert found.options.reorder_cache is reorder
    with pytest.raises(ValueError, match="test expects `special_ids`.*Received:.*start_id=3"):
        resolve_search_options("test", search, model, source, target)


def test_models_and_tokenizers_are_checked(pieces, tmp_path):
    model, source, target = pieces
    wide = tokenizers.WordTokenizer(["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="source tokenizer has more ids than the encoder's embed"):
        export((model, wide, target), tmp_path)
    with pytest.raises(ValueError, match="target tokenizer is expected to be a tokenizer"):
        export((model, source, None), tmp_path)
    with pytest.raises(ValueError, match="model of type Sequential|without encoder"):
        export((tf.keras.Sequential(), source, target), tmp_path)


def test_numbers_become_penalties(pieces, tmp_path, quick, monkeypatch):
    seen = []
    functions = translator_export.TranslatorSignatures

    def record(*arguments):
        seen.append(arguments[3])
        return functions(*arguments)

    monkeypatch.setattr(translator_export, "TranslatorSignatures", record)
    export(pieces, tmp_path, length_penalty=0.6, coverage_penalty=0.2)
    (options,) = seen
    assert isinstance(options.length_penalty, GNMTLengthPenalty)
    assert options.length_penalty.alpha == 0.6
    coverage_penalty = options.options.coverage_penalty
    assert isinstance(coverage_penalty, CoveragePenalty)
    assert coverage_penalty.beta == 0.2
