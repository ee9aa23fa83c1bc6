"""Translators of several trained ones: in Python, as a file, and as a SavedModel."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attention import (
    BahdanauDecoder,
    EnsembleDecoder,
    EnsembleEncoder,
    LuongDecoder,
    TransformerDecoder,
)
from keras_attention.export import SearchOptions, Translator, _version_writer, tokenizers

SOURCE = tokenizers.train("words", ["ein hund und eine katze"])
TARGET = tokenizers.train("words", ["a dog and one cat"])
SIZE = TARGET.vocabulary_size
TEXTS = ["ein hund", "eine katze und ein hund", "katze"]
SIDES = {"source": SOURCE, "target": TARGET}
SEARCH = {"search": SearchOptions(beam_width=3, max_length=7, max_source_length=11)}


def make_encoder(units, has_state=False, size=SOURCE.vocabulary_size):
    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(size, 5, "normal", mask_zero=True)(ids)
    layer = keras.layers.GRU(units, return_sequences=True, return_state=True)
    memory, state = layer(embedded)
    outputs = {"memory": memory} | ({"initial_state": state} if has_state else {})
    return keras.Model(ids, outputs, name="encoder")


@pytest.fixture(scope="module")
def members():
    """Three translators; their large weights make their choices differ."""
    keras.utils.set_random_seed(31)
    cell = keras.layers.GRUCell(7)
    pairs = [
        (make_encoder(5), BahdanauDecoder(SIZE, 3, 4, name="decoder")),
        (make_encoder(8), TransformerDecoder(SIZE, 8, 2, 1, name="decoder")),
        (make_encoder(7, True), LuongDecoder(SIZE, 3, 7, cells=cell, name="decoder")),
    ]
    translators = [Translator(*pair, **SIDES, **SEARCH) for pair in pairs]
    for translator in translators:
        for weight in translator.model.trainable_weights:
            weight.assign(3 * weight)
    return translators


def make_ensemble(members):
    encoders, decoders = (
        [member.model.get_layer(part) for member in members] for part in ("encoder", "decoder")
    )
    encoder = EnsembleEncoder(encoders, name="encoder")
    return Translator(encoder, EnsembleDecoder(decoders, name="decoder"), **SIDES, **SEARCH)


def test_a_translator_of_three_searches_by_their_mean(members):
    ensemble = make_ensemble(members)
    found = ensemble.beam(TEXTS, return_alignments=True)
    outputs = [one.texts[0] for one in found]
    inputs, labels = ensemble.encode_pairs(TEXTS, outputs)
    alone = [ops.log_softmax(member.model(inputs)) for member in members]
    log_probs = np.array(ops.log_softmax(sum(alone) / 3))
    for row, one in enumerate(found):
        length = len(one.tokens)
        expected = sum(log_probs[row, step, labels[row, step]] for step in range(length))
        assert one.scores[0] == pytest.approx(expected, abs=1e-4)
        assert one.alignment.shape == (length, len(one.source_tokens))


@pytest.mark.thorough
def test_files_and_versions_answer_the_same(members, tmp_path, monkeypatch):
    monkeypatch.setattr(
        _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
    )
    ensemble = make_ensemble(members)
    expected = ensemble.beam(TEXTS)
    ensemble.model.save(tmp_path / "ensemble.keras")
    loaded = keras.models.load_model(tmp_path / "ensemble.keras")
    again = Translator.from_model(loaded, **SIDES, **SEARCH).beam(TEXTS)
    served = tf.saved_model.load(str(ensemble.export(tmp_path / "served"))).signatures
    answers = served["serving_default"](text=tf.constant(TEXTS))
    for row, one in enumerate(expected):
        assert again[row].texts == one.texts
        np.testing.assert_allclose(again[row].scores, one.scores, atol=1e-5)
        assert [text.decode() for text in answers["text"][row].numpy()] == one.texts
        np.testing.assert_allclose(answers["score"][row], one.scores, atol=1e-5)


def test_an_embedding_that_is_too_small_is_found_in_every_encoder(members):
    encoders = [members[0].model.get_layer("encoder"), make_encoder(8, size=5)]
    decoders = [member.model.get_layer("decoder") for member in members[:2]]
    with pytest.raises(ValueError, match="more ids than the encoder's embedding.*: 5"):
        Translator(
            EnsembleEncoder(encoders, name="encoder"),
            EnsembleDecoder(decoders, name="decoder"),
            **SIDES,
        )
