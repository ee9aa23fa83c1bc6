"""Searches in parts: what they return is what the signatures return, and text only grows."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from toy_export import toy_parts
from toy_translator import bahdanau_translator, toy_translator

from keras_attention import TransformerDecoder
from keras_attention.export import SearchOptions, Translator, XLABuckets, tokenizers
from keras_attention.export._signatures import INPUTS, TranslatorSignatures
from keras_attention.export._streamed_signatures import STREAMED
from keras_attention.export._supported_ops import find_xla_names
from keras_attention.export.search_options import resolve_search_options
from keras_attention.search import BeamOptions, Constraints

LINES = ["ein Mann läuft schnell .", "der Hund läuft .", "Tag der Männer 👩‍🚀 und Hunde 犬"] * 9
TEXTS = [LINES[0], "", "Tag Tag der", "Männer xyz Hunde", b"\xff und"]
RICH = SearchOptions(
    3,
    11,
    13,
    0.6,
    Constraints(min_length=3, no_repeat_ngram_size=2, suppress_ids=[1]),
    BeamOptions(coverage_penalty=0.2),
)


def make_signatures(kind, search):
    """The signatures of a random translator to texts of a kind of tokens."""
    source = tokenizers.train("words", LINES)
    size = {"sentencepiece": 61, "wordpiece": 73}.get(kind)
    target = tokenizers.train(kind, LINES, **({"vocabulary_size": size} if size else {}))
    model = bahdanau_translator(source.vocabulary_size, target.vocabulary_size)
    search = resolve_search_options("test", search, model, source, target)
    return TranslatorSignatures(model, source, target, search)


def run_in_parts(functions, name, texts, steps=1):
    """Returns the texts after each part, and the outputs of `finish`."""
    found = functions[f"{name}_start"](tf.constant(texts))
    shown = []
    while True:
        shown.append(found.pop("text").numpy().tolist())
        is_active = found.pop("active").numpy().any()
        state = [found[key] for key in sorted(found)]
        if not is_active:
            return shown, functions[f"{name}_finish"](*state)
        found = functions[f"{name}_advance"](tf.fill([len(texts)], steps), *state)


@pytest.mark.parametrize(
    ("kind", "rich"),
    [
        pytest.param("words", False, marks=pytest.mark.thorough),
        ("words", True),
        pytest.param("characters", True, marks=pytest.mark.thorough),
        pytest.param("characters", False, marks=pytest.mark.thorough),
        pytest.param("wordpiece", False, marks=pytest.mark.thorough),
        pytest.param("sentencepiece", True, marks=pytest.mark.thorough),
    ],
)
def test_text_grows_to_what_the_signature_returns(kind, rich):
    search = RICH if rich else SearchOptions(3, 11, 13)
    signatures = make_signatures(kind, dataclasses.replace(search, stream=True))
    functions = signatures.signatures()
    for name in STREAMED:
        expected = functions[name](tf.constant(TEXTS))
        for steps in (1, 5):
            shown, finished = run_in_parts(functions, name, TEXTS, steps)
            assert set(finished) == set(expected)
            for key, value in expected.items():
                if value.dtype == tf.string:
                    np.testing.assert_array_equal(finished[key], value)
                else:
                    np.testing.assert_allclose(finished[key], value, rtol=1e-5, atol=1e-5)
            best = expected["text"].numpy().reshape(len(TEXTS), -1)[:, 0].tolist()
            assert shown[-1] == best
            for before, after in zip(shown, shown[1:], strict=False):
                assert all(a.startswith(b) for b, a in zip(before, after, strict=True))
            for texts in shown:
                assert all(text.decode("utf-8") is not None for text in texts)
        assert len({tuple(texts) for texts in shown}) > 1


def test_no_row_is_a_row_and_rows_of_different_requests_are_refused():
    functions = make_signatures("words", SearchOptions(3, 5, 13, stream=True)).signatures()
    shown, finished = run_in_parts(functions, "serving_default", np.array([], object))
    assert shown[-1] == [] and finished["text"].shape == (0, 3)
    found = functions["greedy_start"](tf.constant(["Tag der", "Hund"]))
    later = functions["greedy_advance"](
        tf.ones([2], tf.int32), *(found[key] for key in sorted(found) if "state" in key)
    )
    keys = [key for key in sorted(found) if "state" in key]
    joined = [tf.concat([found[key][:1], later[key][1:]], axis=0) for key in keys]
    with pytest.raises(tf.errors.InvalidArgumentError, match="come from one request"):
        functions["greedy_advance"](tf.ones([2], tf.int32), *joined)
    # A server that joins requests pads a mask with its first element.
    padded = [found[key] for key in keys]
    (place,) = [n for n, key in enumerate(keys) if key == "state_01"]
    padded[place] = tf.pad(padded[place], [[0, 0], [0, 1]], constant_values=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="come from one request"):
        functions["greedy_finish"](*padded)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 64 texts"):
        functions["greedy_start"](tf.fill([65], "Tag"))


def count_nodes(function):
    graph = function.get_concrete_function().graph.as_graph_def()
    return len(graph.node) + sum(len(one.node_def) for one in graph.library.function)


def test_nobody_else_pays():
    model, source, target = toy_parts()
    counts = {}
    for stream in (False, True):
        search = SearchOptions(3, 7, 13, stream=stream)
        search = resolve_search_options("test", search, model, source, target)
        functions = TranslatorSignatures(model, source, target, search).signatures()
        common = INPUTS.keys() & functions.keys()
        counts[stream] = {name: count_nodes(functions[name]) for name in common}
        parts = {f"{name}_{part}" for name in STREAMED for part in ("start", "advance", "finish")}
        assert set(functions) - set(INPUTS) == (parts if stream else set())
    assert counts[False] == counts[True]


def test_a_cache_is_carried_and_reordered():
    keras.utils.set_random_seed(5)
    words = tokenizers.train("words", LINES)
    decoder = TransformerDecoder(
        words.vocabulary_size, dim=8, num_layers=2, num_heads=2, name="decoder"
    )
    keras.utils.set_random_seed(7)
    model = toy_translator(words.vocabulary_size, words.vocabulary_size, 8, 8, decoder=decoder)
    for variable in decoder.trainable_variables:
        variable.assign(tf.random.stateless_normal(variable.shape, [3, 5], stddev=0.5))
    search = SearchOptions(3, 11, 13, replace_unknown=True)
    translator = Translator.from_model(model, source=words, target=words, search=search)
    for text in ("ein Mann läuft", "Tag xyz"):
        assert "".join(translator.stream(text)) == translator.beam([text])[0].texts[0]
        assert "".join(translator.stream(text, greedy=True)) == translator.greedy([text])[0]


def test_translator_streams_pieces_of_one_text():
    model, source, target = toy_parts()
    search = SearchOptions(3, 7, 13)
    translator = Translator.from_model(model, source=source, target=target, search=search)
    pieces = list(translator.stream("abc", greedy=True))
    assert len(pieces) == 7 and "".join(pieces) == translator.greedy(["abc"])[0]
    with pytest.raises(ValueError, match="expects one text. Received: \\['abc'\\]"):
        next(translator.stream(["abc"]))


@pytest.mark.thorough
def test_compiled_searches_stream_without_xla():
    model, source, target = toy_parts()
    search = SearchOptions(3, 7, 13)
    xla = XLABuckets(batch_sizes=(1,), source_lengths=(14,))
    translator = Translator.from_model(model, source=source, target=target, search=search, xla=xla)
    for text in ("abc", ""):
        assert "".join(translator.stream(text)) == translator.beam([text])[0].texts[0]
        assert "".join(translator.stream(text, greedy=True)) == translator.greedy([text])[0]
    resolved = resolve_search_options(
        "test", dataclasses.replace(search, stream=True), model, source, target
    )
    functions = TranslatorSignatures(model, source, target, resolved, xla).signatures()
    names = {
        name: find_xla_names(function.get_concrete_function().graph.as_graph_def())
        for name, function in functions.items()
    }
    assert names["greedy"] and names["serving_default"]
    parts = [f"{name}_{part}" for name in STREAMED for part in ("start", "advance", "finish")]
    assert [name for name in parts if names[name]] == []


def test_a_character_is_shown_once_its_bytes_are_complete():
    """A model with bytes as tokens writes U+FFFD for the first bytes of a character."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["abc abd"] * 9),
        model_writer=model,
        vocab_size=4 + 256 + 9,
        hard_vocab_limit=False,
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    target = tokenizers.SentencePieceTokenizer(model.getvalue())
    source = tokenizers.train("words", LINES)
    size = target.vocabulary_size
    ids, _ = target.encode(["a犬b"])
    written = [*ids.numpy()[0].tolist(), 3]

    translator = toy_translator(source.vocabulary_size, size)

    def spell(logits, ids, num_tokens):
        here = tf.gather(tf.constant(written), tf.minimum(num_tokens, len(written) - 1))
        return logits * 0.0 + 50.0 * tf.one_hot(here, size)

    search = SearchOptions(2, len(written) + 2, 13, constraints=Constraints(logits_processor=spell))
    found = Translator.from_model(translator, source=source, target=target, search=search)
    assert found.greedy(["Tag"]) == ["a犬b"] and len(written) >= 6
    assert list(found.stream("Tag", greedy=True)) == ["a", "犬", "b"]


def test_stream_is_true_or_false():
    with pytest.raises(ValueError, match="`stream` to be True or False. Received: stream=1"):
        SearchOptions(stream=1)
