"""Translates with a served model: `python -m keras_attention.export.client --url URL "text"`."""

import argparse
import sys

from keras_attention.export._argparse_types import mebibytes, positive_int, seconds
from keras_attention.export._terminal_table import print_answers
from keras_attention.export.serving.client import DEFAULT_MODEL, MAX_MESSAGE_BYTES, Client
from keras_attention.export.serving.errors import ServingError

DESCRIPTION = """\
Sends texts to a model server, over REST (http://host:8501) or gRPC (grpc://host:8500), and
prints the n-best translations. Without TEXT, it reads standard input, one text per line."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 1 on failure; exits with status 2 on wrong usage."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    if hasattr(sys.stdin, "reconfigure"):  # invalid UTF-8 becomes U+FFFD
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
        print(f"error: {_describe_error(error)}", file=sys.stderr)
        return 1
    print_answers(texts, [answer[: options.n_best] for answer in answers], sys.stdout)
    return 0


def _describe_error(error):
    if isinstance(error, KeyError):
        return f"the model is not a translator: its default signature has no output {error}"
    return str(error)


def _make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attention.export.client",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("texts", metavar="TEXT", nargs="*")
    parser.add_argument("--url", default="http://localhost:8501", help="default: %(default)s")
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="name on the server (default: %(default)s)"
    )
    parser.add_argument("--version", type=int, metavar="N", help="default: the latest")
    parser.add_argument("--label", help="label of the version to use, instead of --version")
    parser.add_argument(
        "--n-best", type=positive_int, metavar="N", help="translations to print (default: all)"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="default: %(default)g"
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=4,
        metavar="N",
        help="retries while the server is unavailable or busy (default: %(default)s)",
    )
    parser.add_argument(
        "--max-message-mib",
        type=mebibytes,
        default=MAX_MESSAGE_BYTES / 2**20,
        metavar="MIB",
        help="maximum size of a request and of a response (default: %(default)g)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
