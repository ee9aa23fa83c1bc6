"""No source and no output is longer than the positions that a translator has learned."""

import keras
import pytest
from toy_translator import toy_translator

from keras_attention import (
    ConvDecoder,
    LearnedPositionalEmbedding,
    ScheduledSampling,
    TransformerDecoder,
    TransformerEmbedding,
)
from keras_attention.export import SearchOptions, export_translator, tokenizers, translator_export
from keras_attention.export.length_limits import choose_max_length, count_learned_positions


def self_attending(**options):
    return TransformerDecoder(7, dim=4, num_layers=1, num_heads=1, name="decoder", **options)


def make_translator(position_layer):
    """A translator whose encoder embeds with `position_layer(ids)`, in a layer or in a model."""
    source = keras.Input((None,), dtype="int32", name="source")
    encoder = keras.Model(source, {"memory": position_layer(source)}, name="encoder")
    target = keras.Input((None,), dtype="int32", name="target")
    logits = self_attending()(target, encoder(source)["memory"])
    return keras.Model({"source": source, "target": target}, logits)


def transformer(positions, length):
    return make_translator(TransformerEmbedding(7, 4, positions, max_length=length))


def convolutional(length):
    def embed(ids):
        words = keras.layers.Embedding(7, 4, mask_zero=True)(ids)
        return LearnedPositionalEmbedding(length)(words)

    return make_translator(embed)


def make_toy(decoder):
    return toy_translator(7, 7, units=4, dim=4, decoder=decoder)


def test_positions_are_found_wherever_they_are():
    assert count_learned_positions(transformer("learned", 23)) == {"source": 23}
    assert count_learned_positions(convolutional(29)) == {"source": 29}
    assert count_learned_positions(transformer("sinusoidal", 23)) == {}
    assert count_learned_positions(transformer("rotary", 23)) == {}
    model = make_toy(self_attending(positions="learned", max_length=31))
    assert count_learned_positions(model) == {"target": 31}


def test_the_default_output_fits_the_learned_positions():
    decoder = ConvDecoder(7, 4, [(4, 3)], source_embeddings=False, max_length=31)
    model = make_toy(ScheduledSampling(decoder, 0.5, name="decoder"))
    assert count_learned_positions(model) == {"target": 31}
    assert [choose_max_length(model, trained) for trained in (12, 16, None)] == [24, 31, 31]
    free = make_toy(None)
    assert [choose_max_length(free, trained) for trained in (12, 300, None)] == [24, 600, 128]


@pytest.fixture
def limits(monkeypatch):
    """The limits that an export is made with; nothing is traced or written."""
    seen = []

    class Functions:
        def __init__(self, model, source, target, options, xla):
            seen.append((options.max_source_length, options.max_length))
            self.pipeline = self.unknown_words = None

        def signatures(self):
            return {}

    monkeypatch.setattr(translator_export, "TranslatorSignatures", Functions)
    monkeypatch.setattr(translator_export, "check_search_ram", lambda *arguments: None)
    monkeypatch.setattr(translator_export, "make_translator_requests", lambda *arguments: [])
    monkeypatch.setattr(
        translator_export,
        "write_version",
        lambda owner, contents, *_: seen.append(contents.card["options"]),
    )
    return seen


def export(model, base, **options):
    words = tokenizers.WordTokenizer(["a", "b", "c"])
    search = SearchOptions(**options)
    return export_translator(model, base, source=words, target=words, search=search)


@pytest.mark.parametrize("build", [lambda n: transformer("learned", n), convolutional])
def test_sources_fit_the_learned_positions_of_the_encoder(build, limits, tmp_path):
    model = build(10)
    export(model, tmp_path)
    limit, options = limits
    assert limit == (9, 128)  # the EOS token takes the tenth
    assert options["max_source_length"] == 9
    assert options["learned_source_positions"] == 10
    assert options["max_length"] == 128 and options["stopping"] == "exact"
    assert set(options) == {
        "learned_source_positions",
        *("beam_width", "max_length", "max_source_length", "length_penalty"),
        *("min_length", "suppress_ids", "no_repeat_ngram_size", "end_id"),
        *("repetition_penalty", "logits_processor"),
        *("coverage_penalty", "stopping", "finished_candidates", "num_groups"),
        *("diversity_penalty", "fusion", "replace_unknown", "stream"),
    }
    export(model, tmp_path, max_source_length=9)
    assert limits[2] == (9, 128)
    for asked in (10, 512, None):
        with pytest.raises(ValueError, match="at most 9: the encoder has learned 10 pos") as told:
            export(model, tmp_path, max_source_length=asked)
        assert str(told.value).endswith(f"Received: max_source_length={asked}")
    assert len(limits) == 4


def test_other_encoders_read_what_is_asked_for(limits, tmp_path):
    model = transformer("sinusoidal", 10)
    for asked in ("auto", 600, None):
        export(model, tmp_path, max_source_length=asked)
    assert limits[::2] == [(512, 128), (600, 128), (None, 128)]
    assert "learned_source_positions" not in limits[1]


def test_outputs_fit_the_learned_positions_of_the_decoder(limits, tmp_path):
    model = make_toy(self_attending(positions="learned", max_length=10))
    export(model, tmp_path, max_length=10)
    with pytest.raises(ValueError, match="`max_length` to be at most 10.*Received: max_length=11"):
        export(model, tmp_path, max_length=11)
    assert len(limits) == 2
    export(model, tmp_path)
    assert limits[2] == (512, 10)
