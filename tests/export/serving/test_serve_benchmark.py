"""`python -m benchmarks serve` counts what it should: answers, errors, mix-ups."""

import json

import numpy as np
import pytest
from tiny_model import write_version

from benchmarks import report as reports
from benchmarks import serve
from benchmarks.__main__ import main
from keras_attention.export.serving import Client, Server, _tensor_protos

TEXTS = ["abc", "de", "", "f g"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("benchmarked")
    write_version(base, 1, "!")
    with Server({serve.MODEL: base}, grpc_port=0, rest_api_port=0) as server:
        yield server


@pytest.fixture(autouse=True)
def without_scores(monkeypatch):
    """The tiny model has a text and no score."""
    monkeypatch.setattr(
        serve,
        "same",
        lambda outputs, expected: (
            outputs["text"].tolist() == [text.decode() for text in expected["text"]]
        ),
    )


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_every_request_is_asked_once_and_checked(server, protocol):
    port = server.grpc_port if protocol == "grpc" else server.rest_api_port
    expected = [{"text": _tensor_protos.encode_strings([f"{text}!"])} for text in TEXTS]
    expected[2] = {"text": _tensor_protos.encode_strings(["another answer"])}
    load = serve.Load(f"{protocol}://127.0.0.1:{port}", TEXTS, expected)
    result = load.run(40, clients=3)
    assert (len(result["seconds"]), result["errors"], result["mixed_up"]) == (40, 0, 10)


def test_errors_are_counted(server, monkeypatch):
    monkeypatch.setattr(server.core, "predict", None)
    load = serve.Load(f"grpc://127.0.0.1:{server.grpc_port}", TEXTS, [None] * 4)
    result = load.run(6, clients=2)
    assert (result["errors"], result["mixed_up"]) == (6, 0)


@pytest.mark.thorough
def test_the_server_is_given_out_when_its_model_is_loaded(tmp_path):
    """It prints its addresses first, warms up for seconds, and refuses requests until then."""
    write_version(tmp_path, 1, "!", warm_up=[("slow", {"n": np.array([300_000], "int32")})])
    with serve.ServerProcess(tmp_path, 1) as server:
        with Client(server.urls["http"], serve.MODEL, retries=0) as client:
            assert client.predict(text=["a"])["text"].tolist() == ["a!"]


def test_the_numbers_are_told(tmp_path):
    report = reports.new_report("serve", "title", "command", {})
    report["columns"] = ["what", "clients", "requests/s", "p50", "p95", "p99", "errors", "mixed up"]
    seconds = [0.01 * number for number in range(1, 101)]
    result = {"seconds": seconds, "errors": 1, "mixed_up": 2, "elapsed_seconds": 4.0}
    serve.fill(report, "grpc", 8, result)
    first = {"first_seconds": 0.03, "median_seconds": 0.02}
    overhead = {"text": [0.2, 0.22, 0.3], "ids": [0.2]}
    serve.fill_notes(report, {1: overhead, 32: {**overhead, "ids": [0.1]}}, 7.0, first)
    shown = reports.render(report)
    assert "grpc        8        25.0  0.505 s  0.951 s  0.990 s       1         2" in shown
    assert "1 in a call: 0.220 s against 0.200 s, +10.0 %" in shown and "+120.0 %" in shown
    assert "1.50 times the median" in shown
    reports.write_json(tmp_path / "serve.json", report)
    rows = json.loads((tmp_path / "serve.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["grpc", *["text over ids"] * 2, "first answer"]


def test_made_up_words_are_different():
    words = serve._words(8000)
    assert len(set(words)) == 8000 and all(4 <= len(word) <= 6 for word in words)
    texts = serve.sentences(20, 500, 7, seed=1)
    assert len(set(texts)) == 20 and {len(text.split()) for text in texts} == set(range(1, 8))


def test_the_same_answer_is_the_same_text_and_score(monkeypatch):
    monkeypatch.undo()
    expected = {
        "text": _tensor_protos.encode_strings([["a", "ä"]]),
        "score": np.array([[-1.0, -2.0]]),
    }
    found = {"text": np.array([["a", "ä"]], object), "score": np.array([[-1.0, -2.0]])}
    assert serve.same(found, expected)
    assert not serve.same({**found, "text": np.array([["ä", "a"]], object)}, expected)
    assert not serve.same({**found, "score": np.array([[-1.0, -2.1]])}, expected)


@pytest.mark.thorough
def test_a_small_run_from_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.undo()  # a real translator, with scores
    words = "serve --requests 4 --clients 2 --width 8 --heads 2 --vocabulary 20 --length 3"
    words += " --beam-width 2 --texts 3 --words 2 --repeats 1 --threads 1 --json"
    assert main([*words.split(), str(tmp_path / "serve.json")]) == 0
    rows = json.loads((tmp_path / "serve.json").read_text())["rows"]
    loads = [row for row in rows if row["name"] in ("grpc", "http")]
    assert len(loads) == 2
    assert all((row["errors"], row["mixed_up"]) == (0, 0) for row in loads)
    assert "beam 2, up to 3 tokens" in capsys.readouterr().out
