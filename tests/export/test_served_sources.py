"""The signature `translate_sources`: a text of each source, answered as their joined text is."""

import dataclasses
import json
import types
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from served_translators import column
from toy_export import same_row, toy_parts
from toy_translator import toy_translator

from keras_attention.export import (
    SearchOptions,
    Translator,
    _model_card,
    _saved_model_file,
    _warmup_requests,
    export_translator,
    tokenizers,
    validate_export,
)
from keras_attention.export._bulk_records import list_columns
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export._signatures import INPUTS, TranslatorSignatures
from keras_attention.export.search_options import resolve_search_options
from keras_attention.export.serving import Client, Server, ServingError

NAME = "translate_sources"
GERMAN = ["ein hund", "", "drei", "zwei katzen " * 9, ""]
FRENCH = ["un chien", "deux", "", "été", ""]
JOINED = ["ein hund <sep> un chien", "<sep> deux", "drei <sep>", None, ""]
JOINED[3] = f"{GERMAN[3].strip()} <sep> été"
SEARCH = SearchOptions(3, 7, 23)


def make_parts(num_sources=2):
    """A model of several sources with random weights, and its tokenizers."""
    source = tokenizers.train("words", ["ein hund zwei katzen un chien deux"], symbols=["<sep>"])
    target = tokenizers.train("words", ["one two three four five six seven"])
    sizes = source.vocabulary_size, target.vocabulary_size
    return toy_translator(*sizes, num_sources=num_sources), source, target


def make_functions(parts, **options):
    model, source, target = parts
    search = resolve_search_options("test", dataclasses.replace(SEARCH, **options), *parts)
    return TranslatorSignatures(model, source, target, search).signatures()


@pytest.fixture(scope="module")
def functions():
    return make_functions(make_parts())


def ask(functions, name, *texts):
    found = functions[name](*(tf.constant(column(text)) for text in texts))
    return {key: value.numpy() for key, value in found.items()}


def check_equal(found, expected):
    assert set(found) == set(expected) == {"text", "score"}
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name])


def test_answers_are_those_of_the_joined_text(functions):
    found = ask(functions, NAME, GERMAN, FRENCH)
    check_equal(found, ask(functions, "serving_default", JOINED))
    assert len({tuple(row) for row in found["score"].tolist()}) == len(GERMAN)
    many = ask(functions, NAME, GERMAN * 17, FRENCH * 17)  # two chunks
    for row in range(len(GERMAN)):
        alone = ask(functions, NAME, GERMAN[row : row + 1], FRENCH[row : row + 1])
        alone = {name: value[0] for name, value in alone.items()}
        for place in (row, row + 80):
            assert same_row(alone, {name: value[place] for name, value in many.items()})
    assert ask(functions, NAME, [], [])["text"].shape == (0, 3)


def test_separators_in_a_text_do_not_move_the_next_source(functions):
    found = ask(functions, NAME, ["ein <sep> hund", b"ein\xff"], ["<sep>un chien", "deux <sep>"])
    expected = ["ein hund <sep> un chien", b"ein\xff <sep> deux"]
    check_equal(found, ask(functions, "serving_default", expected))


def test_sources_of_different_numbers_of_texts_are_refused(functions):
    for texts in ((["ein", "zwei"], ["un"]), (["ein"], [])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="as many rows as the first one"):
            ask(functions, NAME, *texts)


def test_only_models_of_several_sources_have_it():
    others = set(INPUTS) - {"beam_tree", "translate_with_phrases"}
    assert set(make_functions(toy_parts())) == others
    functions = make_functions(make_parts(num_sources=3))
    assert set(functions) == others | {NAME}
    names = [spec.name for spec in functions[NAME].input_signature]
    assert names == ["text", "text_2", "text_3"]


@pytest.mark.thorough
def test_unknown_words_of_any_source_are_copied():
    functions = make_functions(make_parts(num_sources=3), replace_unknown=True)
    found = ask(functions, NAME, ["rot"], ["un chien"], ["azul"])
    check_equal(found, ask(functions, "serving_default", ["rot <sep> un chien <sep> azul"]))


def test_a_tokenizer_without_the_separator_is_refused():
    model, source, target = make_parts()
    source = tokenizers.train("words", ["ein hund zwei katzen"])
    with pytest.raises(ValueError, match="have a symbol with this id. Train it with `symbols="):
        Translator.from_model(model, source=source, target=target, search=SEARCH)


@pytest.fixture(scope="module")
def version_and_requests(tmp_path_factory):
    """The version, without its warm-up file, and its requests."""
    model, source, target = make_parts()
    base = tmp_path_factory.mktemp("sources") / "two"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_warmup_requests, "replay_requests", lambda path, requests: [])
        path = export_translator(model, base, source=source, target=target, search=SEARCH)
    requests = _warmup_requests.read_requests(path)
    (path / _warmup_requests.WARMUP_FILE).unlink()
    write_manifest(path)
    return path, requests


@pytest.mark.thorough
def test_server_and_client_answer_as_python_does(version_and_requests, functions):
    path, _ = version_and_requests
    assert validate_export(path) == []
    expected = ask(functions, NAME, GERMAN, FRENCH)
    best = [text.decode() for text in expected["text"][:, 0]]
    with Server({"two": path.parent}, grpc_port=0, rest_api_port=0) as server:
        for host in (
            f"http://127.0.0.1:{server.rest_api_port}",
            f"grpc://127.0.0.1:{server.grpc_port}",
        ):
            with Client(host, "two") as client:
                found = client.translate(GERMAN, other_sources=[FRENCH])
                assert [row[0][0] for row in found] == best
                for count in (0, 2):
                    message = f"each of the 2 sources of the model.*Received: {count + 1} lists"
                    with pytest.raises(ValueError, match=message):
                        client.translate(GERMAN, other_sources=[FRENCH] * count)
        rows = [{"text": a, "text_2": b} for a, b in zip(GERMAN, FRENCH, strict=True)]
        body = json.dumps({"signature_name": NAME, "instances": rows}).encode()
        url = f"http://127.0.0.1:{server.rest_api_port}/v1/models/two:predict"
        with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
            answers = json.loads(response.read())["predictions"]
        assert [row["text"][0] for row in answers] == best


@pytest.mark.thorough
def test_an_export_describes_it_and_warms_it_up(version_and_requests, functions):
    path, requests = version_and_requests
    card = _model_card.read(path)["signatures"][NAME]
    assert set(card["inputs"]) == {"text", "text_2"}
    assert "<sep>" in card["description"]
    mine = [request for request in requests if request.signature == NAME]
    assert [len(request.inputs["text_2"]) for request in mine] == [1, 8]
    definition = _saved_model_file.read_meta_graph(path).signature_def[NAME]
    assert list_columns(definition) == [("text", "string"), ("text_2", "string")]
    loaded = tf.saved_model.load(path).signatures[NAME]
    found = loaded(**{name: tf.constant(value) for name, value in mine[1].inputs.items()})
    assert found["text"].shape == (8, 3)


def test_a_client_refuses_sources_before_it_asks():
    client = Client("http://127.0.0.1:9", "two", retries=0)
    for wrong in (["un"], "un", [["un", "deux"], []]):
        with pytest.raises(ValueError, match="each of `other_sources` to be a list of 1 texts"):
            client.translate(["ein"], other_sources=wrong)
    with pytest.raises(ValueError, match="list of 0 texts"):
        client.translate([], other_sources=[["un"]])
    with pytest.raises(ValueError, match="`phrases` or `other_sources`, not both"):
        client.translate(["ein"], [["one"]], other_sources=[["un"]])


@pytest.mark.parametrize(("newest", "message"), [(2, None), (3, "each of the 3 sources")])
def test_a_client_learns_that_a_new_version_has_other_sources(newest, message, monkeypatch):
    def definitions(count):
        inputs = dict.fromkeys(["text", "text_2", "text_3", "text_4"][:count])
        return {NAME: types.SimpleNamespace(inputs=inputs)}

    client = Client("http://127.0.0.1:9", "two")
    client._known_signatures = definitions(4)
    monkeypatch.setattr(client._transport, "signatures", lambda *_: definitions(newest))
    found = {"text": np.array([["one", ""]]), "score": np.array([[-1.0, -1e9]])}
    monkeypatch.setattr(client, "predict", lambda *_, **__: found)
    if message is None:
        assert client.translate(["ein"], other_sources=[["un"]]) == [[("one", -1.0)]]
    else:
        with pytest.raises(ValueError, match=message):
            client.translate(["ein"], other_sources=[["un"]])


def test_a_model_of_one_source_has_no_such_signature(monkeypatch):
    client = Client("http://127.0.0.1:9", "one")
    monkeypatch.setattr(client._transport, "signatures", lambda *_: {"serving_default": None})
    with pytest.raises(ServingError, match='no signature "translate_sources"') as told:
        client.translate(["ein"], other_sources=[["un"]])
    assert told.value.code == "FAILED_PRECONDITION"
