"""`python -m examples COMMAND`: train, evaluate, translate, plot, export, list."""

import argparse
import importlib
import os
import sys

from examples.quiet import import_tensorflow

COMMANDS = ("train", "evaluate", "translate", "plot", "export", "list")


def main(text_arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    text_arguments = sys.argv[1:] if text_arguments is None else text_arguments
    import_tensorflow()
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description="Example systems on keras_attention: train one, look at it, serve it.",
    )
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = _module(name)
        command = parsers.add_parser(name, help=module.SUMMARY, description=module.__doc__)
        module.add_arguments(command)
    arguments = parser.parse_args(text_arguments)
    module = _module(arguments.command)
    try:
        if hasattr(module, "resumed"):
            arguments = module.resumed(text_arguments, arguments)
        module.run(arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 1
    except (ValueError, OSError, ArithmeticError) as error:
        if os.environ.get("KERAS_ATTENTION_DEBUG"):
            raise
        print(f"error: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _module(name):
    return importlib.import_module(f"examples.commands.{name}")


def _one_line(error):
    """The message of an error without its line breaks; an OSError says file and reason."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
