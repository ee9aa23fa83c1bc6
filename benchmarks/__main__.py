"""The command line of the benchmarks: `python -m benchmarks SUITE [--json FILE] ...`."""

import argparse
import importlib
import shlex
import sys

from benchmarks import report as reports
from benchmarks.arguments import add_shared
from benchmarks.harness import BenchmarkError

SUITES = {
    "train": "a training step of a system, beside the same model in PyTorch",
    "decode": "greedy and beam search of the Transformer, beside CTranslate2",
    "attention": "one attention layer, forward and backward, beside Keras' own: time and memory",
    "heads": "multi-head attention, forward and backward, beside Keras' and PyTorch's",
    "windows": "windowed attention at two lengths: how time and memory grow",
    "gpu": "layers, training steps and searches on JAX on a GPU, beside Keras' and PyTorch",
    "ntm": "a training step of the Neural Turing Machine, beside eager PyTorch; how it grows",
    "serve": "latency and throughput of the development server, every answer checked",
    "scaling": "training on 1, 2 and 4 processes beside a model of its time, and that for 64 GPUs",
    "choices": "what the library chooses by itself, beside the plain form, on sampled sizes",
    "pieces": "what each of our own optimizations brings, beside the form it replaced",
}
DESCRIPTION = """\
Measures this project side by side with its peers and prints a table.

All sides of a comparison are built and warmed up first, each in a process of its own, and then
take turns, so that what slows the machine down for a while slows all of them: trust the ratios
before the seconds, and neither on a machine that is busy with other work.
Peers are optional: pip install --group benchmarks. One that is not installed is
named in the table.
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one suite; returns 0, or 1 if a side failed (wrong arguments exit with 2)."""
    parser = build_parser()
    words = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(words)
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {arguments.json.parent}; create it first")
    command = shlex.join(["python", "-m", "benchmarks", *words])
    suite = importlib.import_module(f"benchmarks.{arguments.suite}")
    try:
        report = suite.run(arguments, command, progress)
        progress("")
        print(getattr(suite, "render", reports.render)(report))
        if arguments.json:
            reports.write_json(arguments.json, report)
    except (BenchmarkError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchmarks: interrupted, no numbers", file=sys.stderr)
        return 1
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser with one subcommand a suite."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=DESCRIPTION, formatter_class=raw
    )
    subparsers = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    for name, text in SUITES.items():
        module = importlib.import_module(f"benchmarks.{name}")
        suite = subparsers.add_parser(
            name, help=text, description=module.__doc__, formatter_class=raw
        )
        add_shared(suite, module.REPEATS)
        module.add_arguments(suite)
    return parser


def progress(message: str) -> None:
    """Says on a terminal what is being done, in place; silent elsewhere. "" clears the line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{message}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
