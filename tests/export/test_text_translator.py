"""`Translator` says what the exported functions say, for any list of texts."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from toy_translator import ToyDecoder, toy_translator

from keras_attention import BahdanauDecoder
from keras_attention.export import (
    SearchOptions,
    Translator,
    _version_writer,
    export_translator,
    text_translator,
    tokenizers,
)
from keras_attention.export._signatures import TranslatorSignatures
from keras_attention.export._tf_functions import append_eos
from keras_attention.search import Constraints, SpecialIds, beam_search, greedy_search

SOURCE = tokenizers.train("characters", ["abc defg", "hij klm"])
TARGET = tokenizers.train("words", ["one two three four five six seven"])
TEXTS = ["abc def", "", "hij", "abcdefghijklm", "h i j"]


@pytest.fixture(scope="module")
def model():
    return toy_translator(SOURCE.vocabulary_size, TARGET.vocabulary_size + 3)


@pytest.fixture(scope="module")
def translator(model):
    search = SearchOptions(beam_width=3, max_length=7, length_penalty=0.6)
    return Translator.from_model(model, source=SOURCE, target=TARGET, search=search)


@pytest.fixture(scope="module")
def functions(translator):
    """What is exported, called by itself."""
    return translator._functions


def encoder_of(outputs):
    """An encoder whose memory and state go through `outputs`."""
    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(SOURCE.vocabulary_size, 5, mask_zero=True)(ids)
    found = keras.layers.GRU(7, return_sequences=True, return_state=True)(embedded)
    return keras.Model(ids, outputs(*found), name="encoder")


def decoder():
    return BahdanauDecoder(TARGET.vocabulary_size, 5, 7, name="decoder")


@pytest.mark.thorough
def test_the_n_best_are_those_of_the_signature_in_the_order_of_the_texts(translator, functions):
    expected = functions.translate_with_alignment(np.array(TEXTS, object))
    found = translator.beam(TEXTS, batch_size=2, return_alignments=True)
    for row, one in enumerate(found):
        count = len(one.texts)
        told = [text.decode() for text in expected["text"][row].numpy()]
        assert one.texts == told[:count] and set(told[count:]) <= {""}
        np.testing.assert_allclose(one.scores, expected["score"][row][:count], atol=1e-5)
        assert "".join(one.source_tokens[:-1]) == TEXTS[row]
        weights = expected["alignment"][row, 0, : len(one.tokens), : len(one.source_tokens)]
        np.testing.assert_allclose(one.alignment, weights, atol=1e-5)
        np.testing.assert_allclose(one.alignment.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.thorough
def test_greedy_is_the_signatures(translator, functions):
    expected = functions.greedy(np.array(TEXTS, object))["text"].numpy()
    assert translator.greedy(TEXTS, batch_size=2) == [text.decode() for text in expected]


@pytest.mark.thorough
def test_scores_are_those_of_the_searched_tokens(translator):
    best = translator.beam(TEXTS, return_alignments=True)
    ended = [(t, one) for t, one in zip(TEXTS, best, strict=True) if one.tokens[-1] == "</s>"]
    texts, found = zip(*ended, strict=True)
    rows = translator.score(texts, [one.texts[0] for one in found], batch_size=2)
    for row, one in zip(rows, found, strict=True):
        assert len(row) == len(one.tokens)
        penalty = ((5 + len(row)) / 6) ** 0.6
        assert sum(row) / penalty == pytest.approx(one.scores[0], abs=1e-4)


@pytest.mark.thorough
def test_targets_of_similar_lengths_share_a_program(translator, monkeypatch):
    made = []

    class Counted(TranslatorSignatures):
        def __init__(self, *arguments):
            made.append(arguments[3].max_length)
            super().__init__(*arguments)

    monkeypatch.setattr(text_translator, "TranslatorSignatures", Counted)
    monkeypatch.setattr(translator, "_scoring_signatures", {})
    for words in (1, 5, 63, 20, 64):
        assert len(translator.score(["abc"], ["one " * words])[0]) == words + 1
    assert made == [64, 128]


def test_no_texts_have_no_answers(translator):
    assert translator.greedy([]) == translator.beam([]) == translator.score([], []) == []


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_single_string_is_refused(translator, method):
    with pytest.raises(ValueError, match="Translator expects a list of texts. Received: 'abc'"):
        getattr(translator, method)("abc")


def test_scores_need_as_many_targets_as_texts(translator):
    with pytest.raises(ValueError, match="Received: 2 texts and 1 targets"):
        translator.score(["a", "b"], ["one"])


def test_fewer_translations_than_the_beam_have_no_fillers():
    row = {
        "text": np.array([b"one", b"", b"", b""], object),
        "score": np.array([-0.5, -2.0, -1e9, -1e9], "float32"),
    }
    found = text_translator._make_translation(row)
    assert (found.texts, found.scores) == (["one", ""], [-0.5, -2.0])


@pytest.mark.thorough
def test_pairs_become_what_fit_reads():
    translator = Translator(
        encoder_of(lambda memory, state: {"memory": memory, "initial_state": state}),
        decoder(),
        source=SOURCE,
        target=TARGET,
        search=SearchOptions(max_length=5),
    )
    inputs, labels = translator.encode_pairs(["abc", "a"], ["one", "two one"])
    one, two = TARGET.encode(["one two"])[0][0].numpy()
    assert labels.numpy().tolist() == [[one, 3, 0], [two, one, 3]]
    assert inputs["target"].numpy().tolist() == [[2, one, 0], [2, two, one]]
    assert inputs["source"].shape == (2, 4) and inputs["source"][1, 1:].numpy().tolist() == [
        3,
        0,
        0,
    ]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    translator.model.compile(keras.optimizers.Adam(0.05), loss)
    assert translator.greedy(["abc", "a"]) != ["one", "two one"]
    translator.model.fit(inputs, labels, epochs=30, verbose=0)
    assert translator.greedy(["abc", "a"]) == ["one", "two one"]  # the same program, other weights


@pytest.mark.thorough
def test_a_single_tensor_is_the_memory():
    bare = encoder_of(lambda memory, state: memory)
    options = {"source": SOURCE, "target": TARGET, "search": SearchOptions(max_length=3)}
    translator = Translator(bare, decoder(), **options)
    named = keras.Model(bare.input, {"memory": bare.output}, name="encoder")
    with_dict = Translator(named, translator.model.get_layer("decoder"), **options)
    assert translator.score(["abc"], ["one"]) == with_dict.score(["abc"], ["one"])


@pytest.mark.parametrize(
    ("outputs", "received"),
    [
        (lambda *both: list(both), "a list of tensors of the shapes [(None, None, 7), (None, 7)]"),
        (lambda *both: both, "a tuple of tensors of the shapes [(None, None, 7), (None, 7)]"),
        (lambda memory, state: {"outputs": memory}, "a dict with the keys ['outputs']"),
    ],
)
def test_an_encoder_that_returns_something_else_is_named(outputs, received, tmp_path):
    encoder = encoder_of(outputs)
    with pytest.raises(ValueError) as raised:
        Translator(encoder, decoder(), source=SOURCE, target=TARGET)
    assert "Translator expects the layer `encoder` to return a dict with `memory`" in str(
        raised.value
    )
    assert str(raised.value).endswith(f"Received: {received}")
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    memory = keras.tree.flatten(encoder(source))[0]
    model = keras.Model({"source": source, "target": target}, decoder()(target, memory))
    with pytest.raises(ValueError) as raised:
        export_translator(model, tmp_path, source=SOURCE, target=TARGET)
    assert str(raised.value).startswith("export_translator expects the layer `encoder` to return")
    assert str(raised.value).endswith(f"Received: {received}")


def test_parts_and_options_are_checked(model):
    encoder = model.get_layer("encoder")
    sides = {"source": SOURCE, "target": TARGET}
    with pytest.raises(ValueError, match="the decoder to have `name='decoder'`.*name='toy'"):
        Translator(encoder, ToyDecoder(9, 7, name="toy"), **sides)
    with pytest.raises(ValueError, match="methods prepare, start and step. Received: Dense"):
        Translator(encoder, keras.layers.Dense(3, name="decoder"), **sides)
    with pytest.raises(TypeError, match="unexpected keyword argument 'beam_width'"):
        Translator.from_model(model, beam_width=3, **sides)
    with pytest.raises(ValueError, match="Translator expects `search` to be a `SearchOptions`"):
        Translator.from_model(model, search=3, **sides)
    with pytest.raises(ValueError, match="Translator expects `model` to be a keras.Model"):
        Translator.from_model(None, **sides)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", 7], {}, r"Translator expects texts. Received: texts\[1\]=7"),
        ([None], {}, r"Translator expects texts. Received: texts\[0\]=None"),
        (["a"], {"batch_size": 0}, "`batch_size` .* Received: batch_size=0"),
        (["a"], {"batch_size": -1}, "`batch_size` .* Received: batch_size=-1"),
    ],
)
def test_texts_and_batch_sizes_are_checked(texts, options, message, translator):
    for translate in (translator.greedy, translator.beam):
        with pytest.raises(ValueError, match=message):
            translate(texts, **options)


def test_export_passes_everything_on(translator, monkeypatch):
    given = {}
    monkeypatch.setattr(
        text_translator, "export_translator", lambda *some, **all: given.update(all, some=some)
    )
    translator.export("base", version=3, name="m", run={"seed": 1})
    model, directory = given.pop("some")
    assert (model, directory) == (translator.model, "base")
    assert given == {
        "source": SOURCE,
        "target": TARGET,
        "version": 3,
        "name": "m",
        "xla": None,
        "run": {"seed": 1},
        "search": translator._search,
    }


def count_down(logits, ids, num_tokens):
    """Prefers tokens that the output does not have, and of a smaller id in each step."""
    had = ops.max(ops.one_hot(ids, logits.shape[1]), axis=1)
    return logits - 3.0 * had + ops.cast(ops.arange(logits.shape[1]) > 9 - num_tokens, "float32")


@pytest.mark.thorough
def test_an_export_holds_a_processor_a_penalty_and_all_ends(model, tmp_path, monkeypatch):
    monkeypatch.setattr(
        _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
    )
    stop = int(TARGET.encode(["three"])[0][0, 0])
    constraints = Constraints(
        special_ids=SpecialIds(end_id=(3, stop)),
        repetition_penalty=1.5,
        logits_processor=count_down,
    )
    search = SearchOptions(beam_width=3, max_length=7, constraints=constraints)
    translator = Translator.from_model(model, source=SOURCE, target=TARGET, search=search)
    path = translator.export(tmp_path / "toy")
    options = json.loads((path / "assets.extra" / "model_card.json").read_text())["options"]
    assert options["end_id"] == [3, stop] and options["repetition_penalty"] == 1.5
    assert options["logits_processor"] == "count_down"
    served = tf.saved_model.load(str(path)).signatures
    found = served["serving_default"](text=tf.constant(TEXTS))
    greedy = served["greedy"](text=tf.constant(TEXTS))
    ended = 0
    for row, text in enumerate(TEXTS):
        ids, length = SOURCE.encode([text])
        pipeline = translator._functions.pipeline
        state, memory = pipeline.start_decoding(append_eos(ids, length), length + 1)
        arguments = {"max_length": 7, "constraints": translator._search.constraints}
        expected = beam_search(pipeline.step, state, memory, beam_width=3, **arguments)
        texts = TARGET.decode(expected["ids"][0]).numpy().tolist()
        assert found["text"][row].numpy().tolist() == texts
        np.testing.assert_allclose(found["score"][row], expected["scores"][0], atol=1e-5)
        ended += sum(one.endswith(b"three") for one in texts)
        assert not any(b"three " in one for one in texts)
        expected = greedy_search(pipeline.step, state, memory, **arguments)
        np.testing.assert_allclose(greedy["log_prob"][row], expected["log_probs"][0], atol=1e-5)
    assert ended


@pytest.mark.thorough
def test_samples_are_those_of_the_signature(translator, functions):
    found = translator.sample(TEXTS, 3, seed=5, temperature=2.0, batch_size=4)
    assert [len(one) for one in found] == [3] * len(TEXTS)
    for place in range(3):
        seeds = tf.fill([len(TEXTS)], 5 + place)
        texts = functions.sample(tf.constant(TEXTS), seeds, tf.fill([len(TEXTS)], 2.0))["text"]
        assert [one[place] for one in found] == [text.decode() for text in texts.numpy()]
    assert translator.sample(TEXTS[2:3], 2, seed=6, temperature=2.0) == [found[2][1:]]
    assert translator.sample(TEXTS, temperature=0.0) == [[one] for one in translator.greedy(TEXTS)]
    assert translator.sample([], 3) == []


@pytest.mark.parametrize(
    "options",
    [{"num_samples": 0}, {"seed": -1}, {"seed": 2**31}, {"temperature": -1}, {"temperature": 101}],
)
def test_samples_need_numbers_in_range(translator, options):
    with pytest.raises(ValueError, match=f"Translator.sample expects `{next(iter(options))}`"):
        translator.sample(["abc"], **options)
