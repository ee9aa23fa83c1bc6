"""The page at `/`: where it is served, what its headers allow, and that the API is as before."""

import base64
import hashlib
import http.client
import pathlib
import re
import tomllib

import pytest

from keras_attention.export import serve
from keras_attention.export.serving import Server, _playground
from keras_attention.export.serving._playground import Playground, is_loopback


def get(server, path="/", method="GET", host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, server.rest_api_port, timeout=60)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response, body


def start_listening(base, **options):
    """A server that listens, and has loaded nothing."""
    server = Server({"tiny": base}, grpc_port=0, rest_api_port=0, **options)
    server.listen()
    return server


@pytest.fixture(scope="module")
def server(tiny_base):
    server = start_listening(tiny_base, playground=None)
    yield server
    server.load()
    server.stop()


def test_the_policy_allows_the_scripts_and_styles_of_the_page_alone(server):
    response, body = get(server)
    assert response.status == 200
    assert response.getheader("content-type") == "text/html; charset=utf-8"
    assert response.getheader("x-content-type-options") == "nosniff"
    policy = response.getheader("content-security-policy")
    hashes = [
        base64.b64encode(hashlib.sha256(found.encode()).digest()).decode()
        for tag in ("script", "style")
        for found in re.findall(rf"<{tag}>(.*?)</{tag}>", body, re.DOTALL)
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    assert len(hashes) == 2 and " style=" not in body
    assert re.findall(r"(?:src|href)=(\S+)", body.split("<script>")[0]) == ['"data:,">']


def test_queries_do_not_matter_and_other_paths_and_methods_are_not_found(server):
    assert get(server, "/?a=b")[0].status == 200
    for method, path in (("POST", "/"), ("GET", "/index.html"), ("GET", "//"), ("GET", "/v1/")):
        response, body = get(server, path, method)
        assert response.status in (400, 404) and body.startswith('{"error": ')
        assert response.getheader("content-type") == "application/json"
        assert response.getheader("content-security-policy") is None


def test_all_files_of_the_page_are_used_and_packaged():
    root = pathlib.Path(__file__).parents[3]
    files = {path.name for path in (root / "export" / "serving" / "playground").iterdir()}
    assert files == {*_playground.SCRIPTS, "page.html", "style.css"}
    project = tomllib.loads((root / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]
    assert data["keras_attention.export.serving"] == ["playground/*"]


def test_a_name_of_a_model_cannot_end_the_data():
    page = Playground(["</script><b>"], None).body.decode()
    assert "</script><b>" not in page and '["\\u003c/script>\\u003cb>"]' in page
    assert '"grpcPort": null' in page


@pytest.mark.parametrize(
    "address, expected",
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_loopback_addresses_are_known(address, expected):
    assert is_loopback(address) is expected


@pytest.mark.parametrize(
    "host, playground, expected",
    [
        ("localhost", None, True),
        ("0.0.0.0", None, False),
        ("0.0.0.0", True, True),
        ("127.0.0.1", False, False),
    ],
)
def test_it_is_on_for_loopback_or_if_asked_for(tiny_base, host, playground, expected):
    server = start_listening(tiny_base, host=host, playground=playground)
    try:
        response, body = get(server)
        assert server.has_playground is expected
        assert response.status == (200 if expected else 404)
        assert expected or "start it with --playground" in body
        lines = list(serve._list_addresses(host, server))
        assert any(line.startswith("Page ") for line in lines) is expected
    finally:
        server.load()
        server.stop()


@pytest.mark.parametrize(
    "flags, expected", [([], None), (["--playground"], True), (["--no-playground"], False)]
)
def test_the_command_has_a_flag(flags, expected):
    assert serve._make_parser().parse_args(flags).playground is expected


def test_a_server_in_python_has_no_page_by_default(tiny_base):
    server = start_listening(tiny_base)
    try:
        assert not server.has_playground and get(server)[0].status == 404
    finally:
        server.load()
        server.stop()
