"""Serves exported models for development: `python -m keras_attention.export.serve DIR`."""

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import threading

from keras_attention.export import versions
from keras_attention.export._argparse_types import (
    mebibytes,
    parse_int,
    positive_int_up_to,
    quote,
    seconds,
)
from keras_attention.export.serving._listening_socket import format_address
from keras_attention.export.serving._server_core import MAX_RESPONSE_BYTES
from keras_attention.export.serving.served_model import ServedModel
from keras_attention.export.serving.server import MAX_REQUEST_BYTES, Server

# Every running or waiting request takes a thread, so both limits are bounded.
MAX_CONCURRENCY = 1024
MAX_QUEUE = 2**16
DESCRIPTION = """\
Serves models as TensorFlow Serving does, over gRPC and REST, for machines on which TensorFlow
Serving is not installed. DIR is the base directory of a model (DIR/1/saved_model.pb) or a folder of
such directories. A model has the name of its directory, and also the name "model" if it is the only
one. The server loads new versions when they appear."""
LABEL_ADVICE = {
    "latest": "; only the latest is served unless you pass --versions all",
    "all": "",
}
NOTICE = """\
This is a server for development: no batching, no encryption, no access control.
In production run TensorFlow Serving on the same directory; see docs/serving.md."""


def main(arguments: list[str] | None = None) -> int:
    """Serves until interrupted.

    Returns 0 after an interrupt and 1 on failure; exits with status 2 on wrong usage.
    """
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        models = make_served_models(options)
    except ValueError as error:
        parser.error(str(error))
    print(NOTICE, flush=True)
    try:
        server = Server(
            models,
            host=options.host,
            grpc_port=options.port,
            rest_api_port=options.rest_api_port,
            max_concurrency=options.max_concurrency,
            max_queue=options.max_queue,
            max_request_bytes=int(options.max_request_mib * 2**20),
            max_response_bytes=int(options.max_response_mib * 2**20),
            timeout=options.timeout,
            playground=options.playground,
        )
    except ValueError as error:
        parser.error(str(error))
    is_up, stopped = threading.Event(), threading.Event()
    try:
        with _stop_on_signals(is_up, stopped), contextlib.ExitStack() as stack:
            server.listen()
            stack.callback(server.stop)
            for line in _list_addresses(options.host, server):
                print(line, flush=True)
            server.load()
            is_up.set()
            for line in _describe_readiness(server):
                print(line, flush=True)
            stopped.wait()
    except KeyboardInterrupt:
        print("Stopped before the models were loaded.", flush=True)
    except (ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _stop_on_signals(is_up, stopped):
    """Sets `stopped` on SIGINT and SIGTERM.

    Until `is_up` is set, while models load, the signals raise `KeyboardInterrupt` too.
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


def make_served_models(options: argparse.Namespace) -> list[ServedModel]:
    """Returns the models that the command line names.

    Raises:
        ValueError: If a path is not a directory, two models have one name, `--name` is not for the
            only model, or no model serves the version of a label.
    """
    found = []
    for directory in options.directories:
        if not directory.is_dir():
            raise ValueError(f"{directory} is not a directory")
        is_model = versions.find_versions(directory) or not _list_models(directory)
        found += [directory] if is_model else _list_models(directory)
    if options.name and options.model:
        raise ValueError("--name is for a DIR; --model NAME=DIR names its model itself")
    if options.name and len(found) > 1:
        raise ValueError(
            f"--name can name only one model, but {len(found)} were found; use --model NAME=DIR"
        )
    bases = {}
    for base in found:
        # `resolve` would give a link the name of its target.
        _add(bases, options.name or os.path.basename(os.path.abspath(base)), base)
    for name, directory in options.model:
        _add(bases, name, directory)
    if not bases:
        raise ValueError("expected a DIR or --model NAME=DIR")
    labels = dict(options.label)
    policy = options.versions
    models = [ServedModel(name, base, policy, labels) for name, base in bases.items()]
    for label, version in labels.items():
        if not any(version in model.list_wanted_versions() for model in models):
            raise ValueError(
                f"--label {label}={version}: no model serves version {version}"
                + LABEL_ADVICE.get(policy, "; only the existing versions of --versions are served")
            )
    return models


def _list_models(directory):
    folders = sorted(path for path in directory.iterdir() if path.is_dir())
    return [path for path in folders if versions.find_versions(path)]


def _add(bases, name, directory):
    if name in bases:
        raise ValueError(f"two models have the name {name!r}: {bases[name]} and {directory}")
    bases[name] = directory


def _list_addresses(host, server):
    if server.grpc_port:
        yield f"gRPC  grpc://{format_address(host, server.grpc_port)}"
    if server.has_playground:
        yield f"Page  http://{format_address(host, server.rest_api_port)}/"
    for name in server.core.models if server.rest_api_port else ():
        yield f"REST  http://{format_address(host, server.rest_api_port)}/v1/models/{name}"


def _describe_readiness(server):
    for model in server.core.models.values():
        if not any(state == "AVAILABLE" for state, _ in model.states().values()):
            yield f"{model.name} has no version to serve yet; watching {model.base}."
    yield "Ready."


def _make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export.serve",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directories", metavar="DIR", nargs="*", type=pathlib.Path)

    def option(name, kind, metavar, default, text, **more):
        parser.add_argument(name, type=kind, metavar=metavar, default=default, help=text, **more)

    option("--model", _parse_named_model, "NAME=DIR", [], "a model and its name", action="append")
    option(
        "--name",
        str,
        "NAME",
        None,
        "name of the model, if it is the only one (default: that of its directory)",
    )
    option(
        "--host", _parse_host, "ADDRESS", "127.0.0.1", "address to listen on (default: %(default)s)"
    )
    option("--port", _parse_port, "N", 8500, "gRPC port, 0 for a free one (default: %(default)s)")
    option(
        "--rest-api-port",
        _parse_port,
        "N",
        8501,
        "REST port, 0 for a free one (default: %(default)s)",
    )
    option("--versions", _parse_policy, "WHICH", "latest", 'versions: "latest", "all" or "3,5"')
    option("--label", _parse_label, "LABEL=N", [], "a label for a version", action="append")
    option(
        "--max-concurrency",
        positive_int_up_to(MAX_CONCURRENCY),
        "N",
        None,
        "requests that run at the same time (default: number of CPU cores)",
    )
    option(
        "--max-queue",
        positive_int_up_to(MAX_QUEUE),
        "N",
        128,
        "requests that may wait in the queue (default: %(default)s)",
    )
    option(
        "--max-request-mib",
        mebibytes,
        "MIB",
        MAX_REQUEST_BYTES / 2**20,
        "maximum size of a request (default: %(default)g)",
    )
    option(
        "--max-response-mib",
        mebibytes,
        "MIB",
        MAX_RESPONSE_BYTES / 2**20,
        "maximum size of a response (default: %(default)g)",
    )
    option(
        "--timeout", seconds, "SECONDS", 30.0, "deadline of a REST request (default: %(default)g)"
    )
    parser.add_argument(
        "--playground",
        action=argparse.BooleanOptionalAction,
        help="whether there is a page at / for trying the models in a browser (default: only if "
        "--host is an address that other machines cannot reach)",
    )
    return parser


def _parse_named_model(text):
    name, equals, directory = text.partition("=")
    if not name or not equals or not pathlib.Path(directory).is_dir():
        raise argparse.ArgumentTypeError(f"expected NAME=DIR with an existing DIR, got {text!r}")
    return name, pathlib.Path(directory)


def _parse_label(text):
    label, _, version = text.partition("=")
    if not label or not version.isdecimal():
        raise argparse.ArgumentTypeError(f"expected LABEL=VERSION, got {quote(text)}")
    return label, _parse_version(version)


def _parse_policy(text):
    if text in ("latest", "all"):
        return text
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        message = f'expected "latest", "all" or numbers, got {quote(text)}'
        raise argparse.ArgumentTypeError(message)
    return tuple(map(_parse_version, numbers))


def _parse_version(text):
    version = parse_int(text, versions.MAX_VERSION)
    if version is None:
        message = f"expected a version of at most {versions.MAX_VERSION}, got {quote(text)}"
        raise argparse.ArgumentTypeError(message)
    return version


def _parse_host(text):
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "expected a name or an address, such as 127.0.0.1; 0.0.0.0 listens on all interfaces"
        )
    return text.removeprefix("[").removesuffix("]")


def _parse_port(text):
    port = parse_int(text, 65535)
    if port is None:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, got {quote(text)}")
    return port


if __name__ == "__main__":
    sys.exit(main())
