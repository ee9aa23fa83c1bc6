"""`python -m examples COMMAND`: train, evaluate, translate, score and the other `COMMANDS`."""

import argparse
import errno
import importlib
import os
import re
import signal
import sys
import threading

from examples.missing_packages import INSTALL_COMMAND
from examples.tf_logging import import_tensorflow

COMMANDS = (
    "train",
    "evaluate",
    "translate",
    "score",
    "plot",
    "export",
    "data",
    "list",
    "reproduce",
)
EPILOG = """\
in this order:
  python -m examples train rnnsearch --run runs/dates     learn to read dates
  python -m examples evaluate runs/dates                  measure it on unseen ones
  python -m examples translate runs/dates "3. Mai 1979"
  python -m examples plot runs/dates --output-dir plots
  python -m examples export runs/dates served
  python -m examples.predict served "3. Mai 1979"             ask what was exported

`python -m examples COMMAND --help` tells more; examples/README.md is the guide.
"""
REMEDIES = {
    errno.EACCES: "Name one you may write to.",
    errno.EPERM: "Name one you may write to.",
    errno.EROFS: "Name one that can be written.",
    errno.ENOTDIR: "Part of the path is a file; name a folder.",
    errno.EEXIST: "A file is in the way; name another path.",
    errno.ENOENT: "Check the path.",
    errno.ENOSPC: "Free some space and run again.",
}
#: What an error of a layer says, in bold between what Keras adds to it.
OF_A_LAYER = re.compile(r"\x1b\[1m(.+?)\x1b\[0m", re.DOTALL)
#: What an error of tf.data says of bad data, before the traceback.
OF_A_PIPELINE = re.compile(r"DataError: (.+?)\n\s*Traceback", re.DOTALL)


def main(text_arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    text_arguments = sys.argv[1:] if text_arguments is None else text_arguments
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in good order
    try:
        return _run(text_arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 1
    except Exception as error:
        if os.environ.get("KERAS_ATTENTION_DEBUG") or not _is_foreseen(error):
            raise
        print(f"error: {_one_line(error)}", file=sys.stderr)
        return getattr(error, "status", 1)


def _run(text_arguments):
    import_tensorflow(start_runtime=text_arguments[:1] != ["train"])  # it may distribute
    shared = importlib.import_module("examples.commands.arguments")
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description="Example models on keras_attention: train one, look at it, serve it.",
        epilog=EPILOG,
        formatter_class=shared.formatter,
    )
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        listed = _command(name)
        # Only the command that is given asks what kind of run is named behind it.
        module = _module(name, text_arguments if name in text_arguments[:1] else [])
        note = f"\n{listed.NOTE}\n" if module is not listed else ""
        command = parsers.add_parser(
            name,
            help=listed.SUMMARY,
            description=f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:].rstrip('.')}.",
            epilog=module.EPILOG + note,
            formatter_class=shared.formatter,
        )
        module.add_arguments(command)
    arguments, rest = parser.parse_known_args(text_arguments)
    module = _module(arguments.command, text_arguments)
    # argparse gives up on texts that follow an option: `translate RUN --all TEXT`.
    if rest and (any(text.startswith("-") for text in rest) or "texts" not in arguments):
        if hasattr(module, "check_run"):
            module.check_run(arguments)
        parsers.choices[arguments.command].error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.texts = [*arguments.texts, *rest]
    if hasattr(module, "complete_arguments"):
        arguments = module.complete_arguments(text_arguments, arguments)
    module.run(arguments)
    return 0


def _command(name):
    return importlib.import_module(f"examples.commands.{name}")


def _module(name, text_arguments):
    """The module of a command; of one that depends on a run, the module that knows that run."""
    module = _command(name)
    if hasattr(module, "for_arguments"):
        return module.for_arguments(text_arguments)
    return module


def _is_foreseen(error):
    """Whether the message of an error is all that its reader needs."""
    tensorflow = sys.modules.get("tensorflow")
    kinds = (ValueError, OSError, ArithmeticError, ImportError)
    return isinstance(error, (*kinds, tensorflow.errors.OpError) if tensorflow else kinds)


def _one_line(error):
    """The message of an error without its line breaks, with a remedy where it names none."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}. {REMEDIES.get(error.errno, '')}".rstrip()
    wrapped = OF_A_LAYER.search(str(error)) or OF_A_PIPELINE.search(str(error))
    text = " ".join((wrapped[1] if wrapped else str(error)).split())
    if isinstance(error, ModuleNotFoundError):
        return f"{text}. Install the packages of the examples: {INSTALL_COMMAND}"
    return text if len(text) < 1000 else f"{text[:1000]} ..."


if __name__ == "__main__":
    sys.exit(main())
