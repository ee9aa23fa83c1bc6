"""Asks a served translator: `python -m keras_attention.export.client --url URL "text" ...`."""

import argparse
import sys

from keras_attention.export.argument_types import mebibytes, positive_int, seconds
from keras_attention.export.serving.client import DEFAULT_MODEL, MAX_MESSAGE_BYTES, Client
from keras_attention.export.serving.errors import ServingError
from keras_attention.export.serving.table import shown

DESCRIPTION = """\
Sends texts to a model server, over REST (http://host:8501) or gRPC (grpc://host:8500), and
shows the ranked answers. Without a text it reads one from each line of the standard input."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 0, 1 on failure, 2 on wrong usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if hasattr(sys.stdin, "reconfigure"):  # bytes that are no text are asked as U+FFFD
        sys.stdin.reconfigure(errors="replace")
    texts = options.texts or [line.rstrip("\n") for line in sys.stdin]
    try:
        client = Client(
            options.url,
            options.model,
            version=options.version,
            label=options.label,
            timeout=options.timeout,
            retries=options.retries,
            max_message_bytes=int(options.max_message_mib * 2**20),
        )
    except (ImportError, ValueError) as error:
        parser.error(str(error))
    try:
        with client:
            answers = client.translate(texts)
    except (ServingError, KeyError, ValueError) as error:
        print(f"error: {_reason(error)}", file=sys.stderr)
        return 1
    shown(texts, [answer[: options.best] for answer in answers], sys.stdout)
    return 0


def _reason(error):
    if isinstance(error, KeyError):
        return f"the model is no translator: its default signature has no output {error}"
    return str(error)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export.client",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("texts", metavar="TEXT", nargs="*")
    parser.add_argument("--url", default="http://localhost:8501", help="default: %(default)s")
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="its name on the server (default: %(default)s)"
    )
    parser.add_argument("--version", type=int, metavar="N", help="default: the newest")
    parser.add_argument("--label", help="a version label instead of a version")
    parser.add_argument(
        "--best", type=positive_int, metavar="N", help="answers shown (default: all)"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="default: %(default)g"
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=4,
        metavar="N",
        help="repetitions while the server is away or busy (default: %(default)s)",
    )
    parser.add_argument(
        "--max-message-mib",
        type=mebibytes,
        default=MAX_MESSAGE_BYTES / 2**20,
        metavar="MIB",
        help="longest request and answer (default: %(default)g)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
