"""The signature `translate_with_phrases`: its answers, and the phrases that it refuses."""

import json
import urllib.request

import answer
import numpy as np
import pytest
import tensorflow as tf
from served_translators import column
from toy_export import toy_parts
from toy_translator import toy_translator

from keras_attention.export import (
    SearchOptions,
    Translator,
    _model_card,
    _warmup_requests,
    export_translator,
    tokenizers,
    validate_export,
)
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export._required_phrases import (
    MAX_PHRASE_TOKENS,
    MAX_PHRASES,
    encode_phrase_lines,
)
from keras_attention.export._signatures import INPUTS, TranslatorSignatures
from keras_attention.export.search_options import resolve_search_options
from keras_attention.export.serving import Client, Server, ServingError
from keras_attention.search import BeamOptions, Constraints

NAME = "translate_with_phrases"
TEXTS = ["abc def", "", "hij", "klm abc"]
PHRASES = [["two three", "seven"], [], ["five"], ["one one", "one two"]]


def make_translator(**options):
    model, source, target = toy_parts()
    return Translator.from_model(
        model, source=source, target=target, search=SearchOptions(5, 9, 13, **options)
    )


def encode(phrases, target, **options):
    """What a graph makes of phrases, `(batch, MAX_PHRASES, MAX_PHRASE_TOKENS)`."""
    model = toy_translator(9, target.vocabulary_size)
    source = tokenizers.train("characters", ["ab"])
    search = resolve_search_options(
        "test", SearchOptions(max_length=9, **options), model, source, target
    )
    function = tf.function(lambda texts: encode_phrase_lines(texts, target, search))
    return function(tf.constant(phrases, tf.string, shape=(len(phrases),))).numpy()


@pytest.fixture(scope="module")
def version_and_requests(tmp_path_factory):
    """The version, without its warm-up file, which would take half a minute, and its requests."""
    base = tmp_path_factory.mktemp("phrases") / "toy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_warmup_requests, "replay_requests", lambda path, requests: [])
        path = make_translator(phrases=True).export(base)
    requests = _warmup_requests.read_requests(path)
    (path / _warmup_requests.WARMUP_FILE).unlink()
    write_manifest(path)
    return path, requests


def check_equal(found, expected):
    """Compares the outputs of a signature with the list of `Translation` of the texts."""
    for row, one in enumerate(expected):
        count = len(one.texts)
        assert [text.decode() for text in found["text"][row, :count]] == one.texts
        np.testing.assert_allclose(found["score"][row, :count], one.scores, rtol=1e-5, atol=1e-5)
        assert (found["length"][row, count:] == -1).all()
        assert (found["length"][row, :count] > 0).all()


@pytest.mark.thorough
def test_server_client_and_translator_answer_alike(version_and_requests):
    path, _ = version_and_requests
    assert validate_export(path) == []
    translator = make_translator()
    expected = translator.beam(TEXTS, phrases=PHRASES)
    assert all(one.texts for one in expected)
    lines = ["\n".join(phrases) for phrases in PHRASES]
    loaded = answer.Loaded(path)
    check_equal(loaded.ask(NAME, text=column(TEXTS), phrases=column(lines)), expected)
    many = loaded.ask(NAME, text=column(TEXTS * 17), phrases=column(lines * 17))  # two chunks
    check_equal({name: value[64:] for name, value in many.items()}, expected)
    assert loaded.ask(NAME, text=column([]), phrases=column([]))["text"].shape == (0, 5)
    with Server({"toy": path.parent}, grpc_port=0, rest_api_port=0) as server:
        for host in (
            f"http://127.0.0.1:{server.rest_api_port}",
            f"grpc://127.0.0.1:{server.grpc_port}",
        ):
            with Client(host, "toy") as client:
                found = client.translate(TEXTS, phrases=PHRASES)
                assert [[text for text, _ in one] for one in found] == [
                    one.texts for one in expected
                ]
                for one, row in zip(expected, found, strict=True):
                    scores = [score for _, score in row]
                    np.testing.assert_allclose(scores, one.scores, rtol=1e-5, atol=1e-5)
                with pytest.raises(ServingError, match="row 1: one red") as told:
                    client.translate(TEXTS, phrases=[[], ["one red"], [], []])
                assert "words that the target tokenizer knows" in str(told.value)
                assert told.value.code == "INVALID_ARGUMENT"
                for wrong in ([["one"]], ["one"] * 4, [[], ["one\ntwo"], [], []]):
                    with pytest.raises(ValueError, match="translate expects `phrases`"):
                        client.translate(TEXTS, phrases=wrong)
        rows = [{"text": a, "phrases": b} for a, b in zip(TEXTS, lines, strict=True)]
        body = json.dumps({"signature_name": NAME, "instances": rows}).encode()
        url = f"http://127.0.0.1:{server.rest_api_port}/v1/models/toy:predict"
        with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
            answers = json.loads(response.read())["predictions"]
        for one, row in zip(expected, answers, strict=True):
            assert row["text"][: len(one.texts)] == one.texts


@pytest.mark.thorough
def test_an_export_describes_it_and_warms_it_up(version_and_requests):
    path, requests = version_and_requests
    card = _model_card.read(path)
    assert set(card["signatures"][NAME]["inputs"]) == {"text", "phrases"}
    assert "phrases" not in card["options"]
    request = next(request for request in requests if request.signature == NAME)
    assert answer.Loaded(path).ask(NAME, **request.inputs)["text"].shape == (1, 5)


def test_only_exports_that_ask_have_it():
    model, source, target = toy_parts()
    for asked in (False, True):
        search = SearchOptions(3, 7, 13, phrases=asked)
        search = resolve_search_options("test", search, model, source, target)
        functions = TranslatorSignatures(model, source, target, search).signatures()
        assert set(functions) == set(INPUTS) - {"beam_tree"} - (set() if asked else {NAME})
    with pytest.raises(ValueError, match="`phrases` to be True or False. Received: phrases=1"):
        SearchOptions(phrases=1)


def test_lines_become_padded_ids():
    target = tokenizers.train("words", ["one two three four five six seven"])
    ids = encode(["two three\r\n\n  seven ", "", " \n"], target)
    assert ids.shape == (3, MAX_PHRASES, MAX_PHRASE_TOKENS)
    (first, second), _ = target.encode(["two three", "seven"])
    np.testing.assert_array_equal(ids[0, 0, :2], first)
    np.testing.assert_array_equal(ids[0, 1, :1], second[:1])
    assert np.count_nonzero(ids) == 3
    assert encode([], target).shape == (0, MAX_PHRASES, MAX_PHRASE_TOKENS)


@pytest.mark.parametrize(
    ("phrases", "options", "message"),
    [
        (["one", "two\nbig red\nblue"], {}, "tokenizer knows.*Received: row 1: big red"),
        ([b"one \xff"], {}, "Received: row 0: one �"),
        (["two", "six"], {"constraints": Constraints(suppress_ids=[4])}, "permits.*row 0: two"),
        (["one " * 17], {}, "at most 16 tokens.*row 0"),
        (["", "one\n" * 9], {}, "at most 8 lines.*row 1"),
        (["one", "one two three four five\nsix seven one two three"], {}, "9 tokens.*row 1"),
    ],
)
def test_phrases_that_no_output_can_contain_are_named(phrases, options, message):
    target = tokenizers.train("words", ["two two one three four five six seven"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){message}") as told:
        encode(phrases, target, **options)
    assert len(str(told.value)) < 1000


def test_searches_that_refuse_phrases_refuse_the_signature(tmp_path):
    model, source, target = toy_parts()
    search = SearchOptions(4, 7, 13, phrases=True, options=BeamOptions(num_groups=2))
    with pytest.raises(ValueError, match="with `phrases` expects num_groups=1"):
        export_translator(model, tmp_path / "toy", source=source, target=target, search=search)
