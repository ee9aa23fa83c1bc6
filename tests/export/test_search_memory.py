"""The memory of a beam search is estimated before it is exported."""

import pytest
from search_fields import make_search

from examples.models import transformer
from keras_attention.export import (
    SearchOptions,
    _search_memory,
)
from keras_attention.export._pipeline import TranslationPipeline


def test_the_memory_of_a_search_counts_the_state_of_the_decoder(pieces, monkeypatch):
    model, source, target = pieces
    pipeline = TranslationPipeline(model, source, target, 9, 7)
    row = 12 * 6 + 16 * 6 + 12 * 7 + 12 * 7 * 10 + 24 * 10  # 6 logits, 2 beams of 6 or more
    state = 2 * 4 * (model.get_layer("decoder").units + 1)  # the position
    monkeypatch.setattr(_search_memory, "MAX_SEARCH_BYTES", 64 * 3 * (row + state))
    _search_memory.check_search_ram(pipeline, SearchOptions(3))
    more = ({"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.2})
    for beam, options in ((4, {}), *((3, one) for one in more)):
        with pytest.raises(ValueError, match=f"beam_width={beam}, max_length=7"):
            search = make_search(beam_width=beam, **options)
            _search_memory.check_search_ram(pipeline, search)
    monkeypatch.setattr(_search_memory, "MAX_SEARCH_BYTES", 64 * 3 * (row + state) - 1)
    with pytest.raises(ValueError, match="beam_width=3, max_length=7"):
        _search_memory.check_search_ram(pipeline, SearchOptions(3))


def test_a_transformers_cache_is_counted(pieces):
    model, source, target = pieces
    search = SearchOptions(2)
    pipeline = TranslationPipeline(model, source, target, None, 20_000)
    _search_memory.check_search_ram(pipeline, search)
    model = transformer.build(7, 6, units=1024, heads=2, layers=1, dropout=0.0)
    pipeline = TranslationPipeline(model, source, target, None, 20_000)
    with pytest.raises(ValueError, match=r"max_length=20000, about 5\d.\d GB"):
        _search_memory.check_search_ram(pipeline, search)
