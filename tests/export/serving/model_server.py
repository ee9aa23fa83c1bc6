"""The TensorFlow model server, where this machine has one: found, started, waited for."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import types

COMMAND = os.environ.get("TENSORFLOW_MODEL_SERVER") or shutil.which("tensorflow_model_server")
MISSING = (
    "tensorflow_model_server is neither on PATH nor named by TENSORFLOW_MODEL_SERVER: what it "
    "answers is NOT tested here, only what our development server does"
)


@contextlib.contextmanager
def run_server(name, base, *flags):
    """Runs it on free ports of the loopback; yields `grpc_port` and `rest_api_port`."""
    grpc_port, rest_api_port = _free_ports(2)
    command = [COMMAND, f"--port={grpc_port}", f"--rest_api_port={rest_api_port}"]
    command += ["--grpc_socket_path=", f"--model_name={name}", f"--model_base_path={base}", *flags]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_open(process, rest_api_port, log)
            yield types.SimpleNamespace(grpc_port=grpc_port, rest_api_port=rest_api_port)
        finally:
            process.terminate()
            process.wait()


def _free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _wait_until_open(process, port, log):
    """REST is the last to listen, after the model is loaded and warmed up."""
    until = time.monotonic() + 180
    while process.poll() is None and time.monotonic() < until:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
    log.seek(0)
    told = log.read().decode(errors="replace")
    raise RuntimeError(f"tensorflow_model_server did not start: ...{told[-3000:]}")
