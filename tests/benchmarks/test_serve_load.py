"""The load of `benchmarks serve` ends with a client's error, and does not wait for it."""

import pytest

from benchmarks.serve import Load
from keras_attention.export.serving import ServingError


def test_a_client_without_a_server_ends_the_load():
    with pytest.raises(ServingError):
        Load("http://127.0.0.1:9", ["a"], [{}]).run(requests=3, clients=5)
