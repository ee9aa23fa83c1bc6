"""A small soak: versions are swapped under load, and what would be wrong is noticed.

The large one: `python tests/export/serving/soak.py --requests 100000 --clients 64`.
"""

import numpy as np
import pytest
from soak import MODEL, NUM_EXPORTS, Exports, Soak

from keras_attention.export.serving import Server


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    return Exports(tmp_path_factory.mktemp("exports"), pool=12)


@pytest.fixture
def base_and_urls(exports, tmp_path):
    """The base directory and the addresses of a server with version 1 and a short queue."""
    exports.publish(tmp_path, 1)
    settings = {"max_concurrency": 1, "max_queue": 3, "poll_seconds": 0.05}
    with Server({MODEL: tmp_path}, grpc_port=0, rest_api_port=0, **settings) as server:
        ports = {"grpc": server.grpc_port, "http": server.rest_api_port}
        yield tmp_path, [f"{scheme}://127.0.0.1:{port}" for scheme, port in ports.items()]


def test_no_answer_is_wrong_or_lost_while_versions_are_swapped(exports, base_and_urls):
    soak = Soak(base_and_urls[1], base_and_urls[0], exports)
    soak.run(300, clients=8, swaps=2)
    assert soak.failures == []
    assert soak.live >= 3 and soak.counts["requests"] >= 300
    assert soak.counts["right"] + soak.counts["refused as they must be"] == soak.counts["requests"]
    assert min(soak.counts[name] for name in ("grpc", "http", "refused as they must be")) > 0


def test_an_answer_of_another_version_is_wrong(exports, base_and_urls):
    """The server answers by version 1, and the answers of version 4 are expected."""
    shifted = type("Shifted", (), {"requests": exports.requests, "publish": exports.publish})()
    shifted.answers = exports.answers[3:] + exports.answers[:3]
    soak = Soak(base_and_urls[1], base_and_urls[0], shifted)
    soak._swap = lambda: None
    soak.run(20, clients=2)
    assert soak.counts["wrong"] == len(soak.failures) > 5


def test_a_request_without_an_answer_is_lost(exports, tmp_path):
    soak = Soak(["http://127.0.0.1:9"], tmp_path, exports, timeout=0.3)
    soak._swap = lambda: None
    soak.run(2, clients=2)
    assert soak.counts["lost"] == len(soak.failures) == 2


def test_old_and_mixed_answers_are_wrong(exports):
    soak = Soak(["http://127.0.0.1:9"], None, exports)
    (number,) = [i for i, request in enumerate(exports.requests) if request[0] == "product"][:1]
    old, new = exports.answers[1][number], exports.answers[2][number]
    assert soak.judge(number, new, 1, 2) is None and soak.judge(number, new, 2, 3) is None
    assert soak.judge(number, old, 2, 3)
    assert soak.judge(number, {**old, "sum": new["sum"]}, 1, 2)
    assert soak.judge(number, {"product": new["product"]}, 1, 2)
    assert soak.judge(number, {name: np.repeat(new[name], 2, 0) for name in new}, 1, 2)
    assert len({str(answers[number]) for answers in exports.answers}) == NUM_EXPORTS
