"""A translator whose outputs a language model ranks too, in Python and as a SavedModel."""

import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf
from toy_translator import toy_translator

from examples.models import lstm_language_model
from keras_attention.export import (
    SearchOptions,
    Translator,
    _search_memory,
    _version_writer,
    tokenizers,
    translator_export,
)
from keras_attention.export._tf_functions import append_eos
from keras_attention.search import (
    RecurrentLanguageModel,
    ShallowFusion,
    beam_search,
    greedy_search,
)

SOURCE = tokenizers.train("characters", ["abc defg", "hij klm"])
TARGET = tokenizers.train("words", ["one two three four five six seven"])
TEXTS = ["abc def", "", "abcdefghijklm"]
SIZE = TARGET.vocabulary_size


def language_model(size=SIZE):
    """An LSTM that has opinions."""
    model = lstm_language_model.build(size, units=5, embedding_dim=3, layers=2, seed=341)
    draw = np.random.default_rng(341)
    model.set_weights([draw.normal(size=weight.shape) for weight in model.get_weights()])
    return RecurrentLanguageModel(model)


@pytest.fixture(scope="module")
def fusion():
    return ShallowFusion(language_model(), 0.9)


@pytest.fixture(scope="module")
def model():
    return toy_translator(SOURCE.vocabulary_size, SIZE)


def make_translator(model, fusion):
    search = SearchOptions(beam_width=3, max_length=7, length_penalty=0.6, fusion=fusion)
    return Translator.from_model(model, source=SOURCE, target=TARGET, search=search)


@pytest.mark.thorough
def test_every_search_of_an_export_uses_the_language_model(model, fusion, tmp_path, monkeypatch):
    monkeypatch.setattr(
        _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
    )
    translator, plain = make_translator(model, fusion), make_translator(model, None)
    path = translator.export(tmp_path / "toy")
    options = json.loads((path / "assets.extra" / "model_card.json").read_text())["options"]
    assert options["fusion"] == {"language_model": "RecurrentLanguageModel", "weight": 0.9}
    served = tf.saved_model.load(str(path)).signatures
    text = tf.constant(TEXTS)
    alphas, limits = tf.fill([len(TEXTS)], 0.6), tf.fill([len(TEXTS)], 7)
    found = {
        "serving_default": served["serving_default"](text=text),
        "translate_with_alignment": served["translate_with_alignment"](text=text),
        "search": served["search"](text=text, length_penalty=alphas, max_length=limits),
    }
    greedy, pipeline, differ = served["greedy"](text=text), translator._functions.pipeline, 0
    for row, one in enumerate(TEXTS):
        ids, length = SOURCE.encode([one])
        state, memory = pipeline.start_decoding(append_eos(ids, length), length + 1)
        arguments = {"max_length": 7, "fusion": fusion}
        expected = beam_search(
            pipeline.step, state, memory, beam_width=3, length_penalty=0.6, **arguments
        )
        texts = TARGET.decode(expected["ids"][0]).numpy().tolist()
        for outputs in found.values():
            assert outputs["text"][row].numpy().tolist() == texts
            np.testing.assert_allclose(outputs["score"][row], expected["scores"][0], atol=1e-5)
        expected = greedy_search(pipeline.step, state, memory, **arguments)
        np.testing.assert_allclose(greedy["log_prob"][row], expected["log_probs"][0], atol=1e-5)
        differ += texts[0].decode() != plain.beam([one])[0].texts[0]
    assert differ
    answers = translator.beam(TEXTS)
    assert [one.texts[0].encode() for one in answers] == found["search"]["text"][
        :, 0
    ].numpy().tolist()
    assert translator.greedy(TEXTS) == [one.decode() for one in greedy["text"].numpy()]
    targets = [one.texts[0] for one in answers]
    assert translator.score(TEXTS, targets) == plain.score(TEXTS, targets)
    assert translator.sample(TEXTS, seed=5) == plain.sample(TEXTS, seed=5)


def test_the_card_counts_shared_variables_once(model, fusion, tmp_path, monkeypatch):
    """As a language model that embeds with the translator's table; it is stored once."""
    own, shared = fusion.language_model, model.variables[0]
    shares = types.SimpleNamespace(
        start=own.start, step=own.step, variables=[*own.variables, shared]
    )
    monkeypatch.setattr(
        translator_export, "write_version", lambda owner, contents, *_: contents.card
    )
    expected = sum(variable.value.shape.num_elements() for variable in model.variables)
    expected += sum(variable.value.shape.num_elements() for variable in own.variables)
    card = make_translator(model, ShallowFusion(shares, 0.9)).export(tmp_path / "toy")
    assert card["parameters"]["count"] == expected


def test_another_vocabulary_is_refused(model):
    with pytest.raises(ValueError, match=f"Translator expects a language model.*{SIZE} logits.*=7"):
        make_translator(model, ShallowFusion(language_model(7), 0.5))
    with pytest.raises(
        ValueError, match="SearchOptions expects `fusion` to be None or a `Sh.*=0.5"
    ):
        SearchOptions(fusion=0.5)
    silent = language_model(7)  # what tells no vocabulary is compared when it is traced
    silent = types.SimpleNamespace(start=silent.start, step=silent.step)
    with pytest.raises(ValueError, match=f"vocabulary of the model, {SIZE} logits. Received: 7"):
        make_translator(model, ShallowFusion(silent, 0.5)).greedy(["a"])


def test_the_memory_of_a_search_counts_the_language_model(model, fusion, monkeypatch):
    pipeline = make_translator(model, None)._functions.pipeline
    search = SearchOptions(3)
    more = 64 * 3 * (16 * SIZE + 2 * (4 * 2 * 2 * 5 + 1))  # two layers of two states, and a flag
    lowest = []
    for one in (search, dataclasses.replace(search, fusion=fusion)):
        low, high = 0, 2**30
        while high - low > 1:
            middle = (low + high) // 2
            monkeypatch.setattr(_search_memory, "MAX_SEARCH_BYTES", middle)
            try:
                _search_memory.check_search_ram(pipeline, one)
                high = middle
            except ValueError:
                low = middle
        lowest.append(high)
    assert lowest[1] - lowest[0] == more
