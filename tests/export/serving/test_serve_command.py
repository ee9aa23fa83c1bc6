"""`python -m keras_attention.export.serve`: which models it serves, what it says, how it ends."""

import errno
import os
import re
import signal
import socket
import threading
import time

import pytest

from keras_attention.export import serve
from keras_attention.export.serving import Client, Server, _listening_socket


def models(*arguments):
    return serve.make_served_models(
        serve._make_parser().parse_args([str(each) for each in arguments])
    )


@pytest.fixture
def folder(tmp_path):
    """Two base directories with a version each, and one without."""
    for name in ("de-en", "fr-en"):
        (tmp_path / name / "1").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_base_directory_is_a_model_of_its_name(folder):
    (model,) = models(folder / "de-en")
    assert (model.name, model.base) == ("de-en", folder / "de-en")
    (model,) = models(folder / "de-en", "--name", "other")
    assert model.name == "other"
    (model,) = models(folder / "empty")
    assert model.name == "empty"


def test_a_folder_of_base_directories_is_several_models(folder):
    assert [model.name for model in models(folder)] == ["de-en", "fr-en"]
    found = models(folder / "de-en", "--model", f"again={folder / 'de-en'}")
    assert [model.name for model in found] == ["de-en", "again"]


def test_the_only_model_of_a_folder_may_be_named(tmp_path):
    (tmp_path / "de-en" / "1").mkdir(parents=True)
    (model,) = models(tmp_path, "--name", "other")
    assert (model.name, model.base) == ("other", tmp_path / "de-en")


@pytest.mark.parametrize("directories", [["fr-en"], []])
def test_a_name_beside_another_is_refused(folder, directories):
    arguments = ("--model", f"one={folder / 'de-en'}", "--name", "two")
    with pytest.raises(ValueError, match="--name is for a DIR; --model NAME=DIR names its model"):
        models(*(folder / each for each in directories), *arguments)


def test_a_link_to_a_base_directory_has_its_own_name(folder, monkeypatch):
    (folder / "current").symlink_to("de-en")
    (model,) = models(folder / "current")
    assert model.name == "current"
    monkeypatch.chdir(folder / "de-en" / "1")
    (model,) = models("..")
    assert model.name == "de-en"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none"], "none is not a directory"),
        ([], "expected a DIR or --model NAME=DIR"),
        (["", "--name", "one"], "--name can name only one model, but 2 were found"),
        (["de-en", "--model", "de-en={}/fr-en"], "two models have the name 'de-en'"),
        (["de-en", "--model", "none"], "expected NAME=DIR with an existing DIR"),
        (["de-en", "--label", "stable"], "expected LABEL=VERSION"),
        (
            ["de-en", "--label", "stable=9"],
            "--label stable=9: no model serves version 9; only the latest",
        ),
        (["de-en", "--versions", "newest"], 'expected "latest", "all" or numbers'),
        (["de-en", "--port", "70000"], "expected a port, 0 to 65535, got '70000'"),
        (["de-en", "--port", "8501"], "Received: grpc_port=8501, rest_api_port=8501"),
        (["de-en", "--host", ""], "expected a name or an address"),
        (["de-en", "--max-queue", "0"], "expected a positive integer, got '0'"),
        (["de-en", "--max-queue", "9" * 20], "expected a positive integer of at most 65536, got"),
        (["de-en", "--max-concurrency", "100000000"], "at most 1024, got '100000000'"),
        (["de-en", "--versions", "3," + "9" * 23], f"of at most {2**63 - 1}, got '9999"),
        (["de-en", "--versions", "9" * 5000], f"got '{'9' * 40}'...\n"),
        (["de-en", "--label", "stable=" + "9" * 23], f"of at most {2**63 - 1}, got '9999"),
        (["de-en", "--port", "9" * 5000], f"got '{'9' * 40}'...\n"),
        (["de-en", "--timeout", "9" * 5000], f"got '{'9' * 40}'...\n"),
        (["de-en", "--max-request-mib", "nan"], "a number above 0 and at most 1024, got 'nan'"),
        (["de-en", "--timeout", "inf"], "a number above 0 and at most 3600, got 'inf'"),
    ],
)
def test_wrong_usage_is_told(folder, capsys, arguments, message):
    places = [str(folder / each) for each in arguments[:1]]
    others = [each.format(folder) for each in arguments[1:]]
    with pytest.raises(SystemExit) as raised:
        serve.main([*places, *others])
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_a_taken_port_is_told(tiny_base, endpoint, capsys):
    port = str(endpoint.rest_api_port)
    assert serve.main([str(tiny_base), "--port", "0", "--rest-api-port", port]) == 1
    assert f"REST cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "place, message",
    [
        (["--host", "999.9.9.9"], "the host '999.9.9.9' cannot be resolved"),
        (["--host", "203.0.113.7"], "the host '203.0.113.7' is not an address of this machine"),
        (["--host", "a..b"], "the host 'a..b' cannot be resolved"),
        (["--host", "::1]:80"], "cannot be resolved"),
        (
            ["--port", "{taken}"],
            "gRPC cannot listen on 127.0.0.1:{taken}: another program uses port {taken}",
        ),
    ],
)
def test_an_address_is_tried_before_anything_is_loaded(
    tiny_base, endpoint, capsys, monkeypatch, place, message
):
    def load(path, report):
        raise AssertionError("it loaded a version")

    monkeypatch.setattr("keras_attention.export.serving.served_model.LoadedVersion", load)
    line = ["--port", "0", "--rest-api-port", "0"]
    line += [each.format(taken=endpoint.grpc_port) for each in place]
    try:
        assert serve.main([str(tiny_base), *line]) == 1
    except SystemExit as ended:
        assert ended.code == 2
    printed = capsys.readouterr().err
    assert message.format(taken=endpoint.grpc_port) in printed and "cannot be served" not in printed


@pytest.mark.parametrize(
    "number, message",
    [
        (errno.EACCES, "port 80 requires administrator rights"),
        (errno.EADDRINUSE, "another program uses port 80"),
        (errno.EAFNOSUPPORT, "Address family not supported"),
    ],
)
def test_why_a_socket_cannot_be_bound_is_told(monkeypatch, number, message):
    class Refusing(socket.socket):
        def bind(self, address):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(OSError, match=f"REST cannot listen on 127.0.0.1:80: {message}"):
        _listening_socket.listen("REST", "127.0.0.1", 80)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_ipv6_may_stand_in_brackets(tiny_base):
    try:
        _listening_socket.listen("REST", "::1", 0).close()
    except OSError as error:
        pytest.skip(f"this machine has no address of IPv6: {error}")
    options = serve._make_parser().parse_args([str(tiny_base), "--host", "[::1]"])
    with Server({"tiny": tiny_base}, host=options.host, grpc_port=0, rest_api_port=0) as server:
        for line in serve._list_addresses(options.host, server):
            url = re.search(r"(grpc|http)://\[::1\]:\d+", line)[0]
            with Client(url, "tiny") as client:
                assert client.predict(text=["a"])["text"].tolist() == ["a!"]


def test_it_says_where_it_is_and_ends_when_interrupted(tiny_base, capsys):
    answers = []

    def ask_and_interrupt():
        until, printed = time.monotonic() + 30, ""
        while "Ready." not in printed and time.monotonic() < until:
            time.sleep(0.02)
            printed += capsys.readouterr().out
        url = re.search(r"http://[^/]+", printed)
        if url:
            with Client(url[0]) as client:  # the only model there is
                answers.append(client.predict(text=["a"])["text"].tolist())
        answers.append(printed)
        os.kill(os.getpid(), signal.SIGINT)

    asking = threading.Thread(target=ask_and_interrupt)
    before = signal.getsignal(signal.SIGINT)
    asking.start()
    try:
        assert serve.main([str(tiny_base), "--port", "0", "--rest-api-port", "0"]) == 0
    finally:
        asking.join()
    text, printed = answers
    assert text == ["a!"]
    assert "This is a server for development" in printed
    assert re.search(r"^gRPC  grpc://127.0.0.1:\d+$", printed, re.MULTILINE)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_it_ends_politely_while_models_are_loading(tiny_base, capsys, monkeypatch, name):
    before = signal.getsignal(signal.SIGTERM)

    def load(path, report):
        os.kill(os.getpid(), signal.Signals[name])
        raise AssertionError("it went on loading")

    monkeypatch.setattr("keras_attention.export.serving.served_model.LoadedVersion", load)
    assert serve.main([str(tiny_base), "--port", "0", "--rest-api-port", "0"]) == 0
    assert "Stopped before the models were loaded." in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_label_names_a_version_that_is_served(folder):
    (folder / "de-en" / "2").mkdir()
    (model,) = models(folder / "de-en", "--label", "new=2")
    assert model.list_wanted_versions() == {2}
    with pytest.raises(ValueError, match="version 1; only the latest is served unless you pass"):
        models(folder / "de-en", "--label", "old=1")
    with pytest.raises(ValueError, match="version 1; only the existing versions of --versions"):
        models(folder / "de-en", "--label", "old=1", "--versions", "2")
    with pytest.raises(ValueError, match="version 9$"):
        models(folder / "de-en", "--label", "old=9", "--versions", "all")
    models(folder / "de-en", "--label", "old=1", "--versions", "all")


def test_an_empty_base_is_watched(tmp_path, capsys):
    server = serve.Server({"tiny": tmp_path}, grpc_port=0, rest_api_port=None, poll_seconds=30)
    with server:
        (line,) = serve._list_addresses("127.0.0.1", server)
        watched, ready = serve._describe_readiness(server)
    assert line.startswith("gRPC") and watched.startswith("tiny has no version to serve yet")
    assert ready == "Ready."
