"""The server under test: ours, and the TensorFlow model server where there is one."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# The toy translator lives one folder up.
sys.path[:0] = [str(HERE), str(HERE.parent)]

import model_server  # noqa: E402


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory):
    """Base directory of the tiny model, version 3, with a warm-up file."""
    import numpy as np
    from tiny_model import write_version

    base = tmp_path_factory.mktemp("tiny")
    inputs = {"x": np.ones((2, 3), "float32"), "n": np.ones(2, "int32")}
    write_version(base, 3, "!", warm_up=[("several", inputs, ("sum",))])
    return base


SERVERS = ["ours"] + ["tensorflow_model_server"] * bool(model_server.COMMAND)


@pytest.fixture(scope="session", params=SERVERS)
def endpoint(request, tiny_base):
    """A server that answers for the model `tiny`, with its `grpc_port` and `rest_api_port`."""
    if request.param == "ours":
        from keras_attention.export.serving import Server

        with Server({"tiny": tiny_base}, grpc_port=0, rest_api_port=0, poll_seconds=0.05) as server:
            yield server
    else:
        with model_server.run_server("tiny", tiny_base) as server:
            yield server


@pytest.fixture(params=["grpc", "http"])
def url(request, endpoint):
    """Where a `Client` finds `endpoint`, over each protocol."""
    port = endpoint.grpc_port if request.param == "grpc" else endpoint.rest_api_port
    return f"{request.param}://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """The exported toy translator: its `path`, `offline` answers and the `server` it is behind."""
    import types

    from toy_export import Offline, export_shared_toy

    from keras_attention.export.serving import Server

    path = export_shared_toy(tmp_path_factory)
    with Server({"toy": path.parent}, grpc_port=0, rest_api_port=0) as server:
        _, signatures = server.core.metadata("toy", None, None)
        yield types.SimpleNamespace(
            path=path, offline=Offline(path), server=server, signatures=signatures
        )


BATCHING = "tensorflow_model_server, batching"


@pytest.fixture(scope="session", params=[*SERVERS, *[BATCHING] * bool(model_server.COMMAND)])
def toy_endpoint(request, toy, tmp_path_factory):
    """A server that answers for the model `toy`, with its `grpc_port` and `rest_api_port`.

    The model server warms the toy up; under batching it reads the configuration of the export.
    """
    from toy_export import with_warm_up

    if request.param == "ours":
        yield toy.server
        return
    path = with_warm_up(toy.path, tmp_path_factory.mktemp("warm"))
    flags = []
    if request.param == BATCHING:
        config = path / "assets.extra" / "batching.config"
        flags = ["--enable_batching", f"--batching_parameters_file={config}"]
    with model_server.run_server("toy", path.parent, *flags) as server:
        yield server
