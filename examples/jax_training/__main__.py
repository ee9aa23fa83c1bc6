"""`python -m examples.jax_training pack|fit|finish`; see `examples.jax_training`."""

import argparse
import pathlib
import sys

DESCRIPTION = """\
Trains a translator on JAX, on a machine that need not have TensorFlow.

    python -m examples.jax_training pack rnnsearch --run runs/g2p --pairs train.tsv --epochs 20
    KERAS_BACKEND=jax python -m examples.jax_training fit runs/g2p --seeds 1 2 3
    python -m examples.jax_training finish runs/g2p --seed 1
"""


def main(words: list[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        "python -m examples.jax_training",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    pack = commands.add_parser("pack", help="write a run with training.npz", add_help=False)
    pack.add_argument("model", metavar="MODEL")
    fit = commands.add_parser("fit", help="train seeds; needs JAX, and TensorFlow not")
    fit.add_argument("run", type=pathlib.Path, metavar="RUN", help="a folder with training.npz")
    fit.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    fit.add_argument("--keep", choices=("best", "last"), default="best")
    fit.add_argument("--float16", action="store_true", help="write weights in half precision")
    finish = commands.add_parser("finish", help="make the run of a trained seed complete")
    finish.add_argument("run", type=pathlib.Path, metavar="RUN")
    finish.add_argument("--seed", type=int, default=1, metavar="N")
    arguments, rest = parser.parse_known_args(words)
    if rest and arguments.command != "pack":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return _run(arguments, rest)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(arguments, rest):
    if arguments.command == "fit":
        from examples.jax_training.fit import fit
        from examples.jax_training.packed_training import FILE, PackedTraining

        packed = PackedTraining.read(arguments.run / FILE)
        fit(packed, arguments.seeds, arguments.run, arguments.keep, arguments.float16)
    elif arguments.command == "pack":
        from examples.commands.arguments import UsageError
        from examples.jax_training.pack import pack, parse

        try:
            given = parse(arguments.model, rest)
            pack(given, pathlib.Path(given.run))
        except UsageError as error:
            print(error, file=sys.stderr)
            return 2
    else:
        from examples.jax_training.finish import finish

        finish(arguments.run, arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
