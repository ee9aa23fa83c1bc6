"""Serves exported models for development: `python -m keras_attention.export.serve DIR`."""

import argparse
import contextlib
import pathlib
import signal
import sys
import threading

from keras_attention.export import versions
from keras_attention.export.argument_types import mebibytes, positive_int, seconds
from keras_attention.export.serving.addresses import join
from keras_attention.export.serving.models import ServedModel
from keras_attention.export.serving.server import MAX_REQUEST_BYTES, Server
from keras_attention.export.serving.service import MAX_RESPONSE_BYTES

DESCRIPTION = """\
Answers as a TensorFlow model server would, over gRPC and REST, on a machine that has none.
DIR is the base directory of a model (DIR/1/saved_model.pb) or a folder of such directories; a
model is called by its directory's name, and also "model" if it is the only one. New versions
are loaded as they appear."""
NOTICE = """\
This is a server for development: no batching, no encryption, no access control.
In production run the TensorFlow model server on the same directory; docs/serving.md says how."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line until it is interrupted; 0 then, 1 on failure, 2 on wrong usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        models = served_models(options)
    except ValueError as error:
        parser.error(str(error))
    print(NOTICE, flush=True)
    try:
        server = Server(
            models,
            host=options.host,
            grpc_port=options.port,
            rest_port=options.rest_port,
            running=options.running,
            waiting=options.waiting,
            max_request_bytes=int(options.max_request_mib * 2**20),
            max_response_bytes=int(options.max_response_mib * 2**20),
            seconds=options.timeout,
        )
    except ValueError as error:
        parser.error(str(error))
    is_up, stopped = threading.Event(), threading.Event()
    try:
        with _interruptible(is_up, stopped), contextlib.ExitStack() as stack:
            server.listen()
            stack.callback(server.stop)
            for line in _addresses(options.host, server):
                print(line, flush=True)
            server.load()
            is_up.set()
            for line in _ready(server):
                print(line, flush=True)
            stopped.wait()
    except KeyboardInterrupt:
        print("Stopped before the models were loaded.", flush=True)
    except (ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _interruptible(is_up, stopped):
    """Sets `stopped` where Control-C or a polite end would raise or kill.

    Until `is_up`, while models are loaded, nobody waits for that: it raises `KeyboardInterrupt`.
    """

    def stop(*_):
        stopped.set()
        if not is_up.is_set():
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, stop) for name in signals]
    try:
        yield
    finally:
        for name, handler in zip(signals, before, strict=True):
            signal.signal(name, handler)


def served_models(options) -> list[ServedModel]:
    """Returns the models the command line names.

    Raises:
        ValueError: If a directory is none, a name comes twice, or no model serves the version of
            a label.
    """
    bases = {}
    for directory in options.directories:
        if not directory.is_dir():
            raise ValueError(f"{directory} is not a directory")
        if versions.existing_versions(directory) or not _models_in(directory):
            _add(bases, options.name or directory.resolve().name, directory)
        else:
            for base in _models_in(directory):
                _add(bases, base.name, base)
    for name, directory in options.model:
        _add(bases, name, directory)
    if not bases:
        raise ValueError("expected a DIR or --model NAME=DIR")
    if options.name and len(bases) > 1:
        raise ValueError(f"--name names one model, there are {len(bases)}; use --model NAME=DIR")
    labels = dict(options.label)
    policy = options.versions
    models = [ServedModel(name, base, policy, labels) for name, base in bases.items()]
    for label, version in labels.items():
        if not any(version in model.wanted_versions() for model in models):
            raise ValueError(
                f"--label {label}={version}: no model serves version {version} now; --versions all "
                "serves more than the latest"
            )
    return models


def _models_in(directory):
    folders = sorted(path for path in directory.iterdir() if path.is_dir())
    return [path for path in folders if versions.existing_versions(path)]


def _add(bases, name, directory):
    if name in bases:
        raise ValueError(f"two models are called {name!r}: {bases[name]} and {directory}")
    bases[name] = directory


def _addresses(host, server):
    if server.grpc_port:
        yield f"gRPC  grpc://{join(host, server.grpc_port)}"
    for name in server.service.models if server.rest_port else ():
        yield f"REST  http://{join(host, server.rest_port)}/v1/models/{name}"


def _ready(server):
    for model in server.service.models.values():
        if not any(state == "AVAILABLE" for state, _ in model.states().values()):
            yield f"{model.name} has no version to serve yet; {model.base} is watched."
    yield "Ready."


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export.serve",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directories", metavar="DIR", nargs="*", type=pathlib.Path)

    def option(name, kind, metavar, default, text, **more):
        parser.add_argument(name, type=kind, metavar=metavar, default=default, help=text, **more)

    option("--model", _named, "NAME=DIR", [], "a model under another name", action="append")
    option("--name", str, "NAME", None, "what the one model is called (default: its directory)")
    option("--host", _host, "ADDRESS", "127.0.0.1", "address to listen on (default: %(default)s)")
    option("--port", _port, "N", 8500, "port of gRPC, 0 for a free one (default: %(default)s)")
    option("--rest-port", _port, "N", 8501, "port of REST, likewise (default: %(default)s)")
    option("--versions", _policy, "WHICH", "latest", 'versions: "latest", "all" or "3,5"')
    option("--label", _label, "LABEL=N", [], "a label for a version", action="append")
    option("--running", positive_int, "N", None, "requests that run at once (default: the cores)")
    option(
        "--waiting", positive_int, "N", 128, "requests that wait for them (default: %(default)s)"
    )
    option(
        "--max-request-mib",
        mebibytes,
        "MIB",
        MAX_REQUEST_BYTES / 2**20,
        "longest request (default: %(default)g)",
    )
    option(
        "--max-response-mib",
        mebibytes,
        "MIB",
        MAX_RESPONSE_BYTES / 2**20,
        "longest answer (default: %(default)g)",
    )
    option("--timeout", seconds, "SECONDS", 30.0, "time a REST request has (default: %(default)g)")
    return parser


def _named(text):
    name, equals, directory = text.partition("=")
    if not name or not equals or not pathlib.Path(directory).is_dir():
        raise argparse.ArgumentTypeError(f"expected NAME=DIR with an existing DIR, got {text!r}")
    return name, pathlib.Path(directory)


def _label(text):
    label, _, version = text.partition("=")
    if not label or not version.isdecimal():
        raise argparse.ArgumentTypeError(f"expected LABEL=VERSION, got {text!r}")
    return label, int(version)


def _policy(text):
    if text in ("latest", "all"):
        return text
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f'expected "latest", "all" or numbers, got {text!r}')
    return tuple(int(number) for number in numbers)


def _host(text):
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "expected a name or an address, such as 127.0.0.1; 0.0.0.0 is every one of this machine"
        )
    return text.removeprefix("[").removesuffix("]")


def _port(text):
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
