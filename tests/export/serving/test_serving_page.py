"""The examples of docs/serving.md work as they stand, against the toy translator."""

import http.client
import json
import pathlib
import re

import pytest

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "serving.md").read_text()
CURLS = re.findall(r"^curl (?:-d '(.+)' )?http://localhost:8501(\S+)$", PAGE, re.MULTILINE)
PROGRAMS = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)


def test_the_page_has_its_examples():
    assert len(CURLS) == PAGE.count("\ncurl ") >= 6
    assert len(PROGRAMS) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("body, path", CURLS)
def test_every_curl_is_answered(toy_endpoint, body, path):
    connection = http.client.HTTPConnection("127.0.0.1", toy_endpoint.rest_api_port, timeout=60)
    path = path.replace("de-en", "toy")
    connection.request("POST" if body else "GET", path, body.encode() or None)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == 200, answer


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_runs(toy_endpoint, program, capsys):
    program = program.replace("localhost:8500", f"127.0.0.1:{toy_endpoint.grpc_port}")
    # Our server has the toy without its warm-up: on a busy machine the first answer takes long.
    program = program.replace("timeout=5.0", "timeout=60.0")
    exec(program.replace("de-en", "toy"), {})
    assert capsys.readouterr().out
