"""The options of `python -m examples train`."""

import argparse

from examples import systems
from examples.commands import arguments as shared
from examples.training import workers

INTERRUPTION = """
Ctrl-C ends a run in good order: a checkpoint is written first.
"""
USAGE = "python -m examples train {} --run DIR [--resume] [options]"


def make_parser(name: str, add=argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Returns the parser of `train NAME`; `add` makes it, alone or among the subcommands."""
    system = systems.find(name)
    module, options = system.module, system.part("options")
    epilog = getattr(options, "EPILOGS", {}).get(name, options.EPILOG)
    parser = add(
        prog=f"python -m examples train {name}",
        usage=USAGE.format(name),
        description=f"{module.TITLE} ({module.REFERENCE}).\n\n{options.DESCRIPTION}",
        epilog=epilog.format(name) + INTERRUPTION,
        formatter_class=shared.formatter,
    )
    run = parser.add_argument_group("the run")
    run.add_argument("--run", required=True, metavar="DIR", help="directory of the run")
    run.add_argument(
        "--resume",
        action="store_true",
        help="go on from the newest checkpoint in --run; options not given are as they were",
    )
    shared.number(run, "--seed", 1, "seed of everything random", shared.seed)
    model = parser.add_argument_group("model")
    for option_name, option in module.OPTIONS.items():
        option.add_to(model, option_name)
    if hasattr(module, "PAPER"):
        _add_paper(model, module.PAPER)
    options.add_data(parser)
    training = parser.add_argument_group("training")
    options.add_training(training)
    _add_training(training)
    parser.set_defaults(**getattr(module, "DEFAULTS", {}))
    return parser


def parse(name: str, words: list[str], began: dict | None = None) -> argparse.Namespace:
    """Returns the options of `train NAME`.

    Args:
        name: The system.
        words: The command line after it.
        began: What a run began with, which holds for all that the words leave open. Without it
            `--paper` says that for the sizes of the model.
    """
    parser = make_parser(name)
    arguments = parser.parse_args(words)
    if began is not None:
        open_ones = {name: began[name] for name in vars(arguments) if name in began}
    elif getattr(arguments, "paper", False):
        open_ones = systems.find(name).module.PAPER
    else:
        return arguments
    parser.set_defaults(**open_ones)
    return parser.parse_args(words)


def _add_paper(model, sizes):
    flags = {name.replace("_", "-"): value for name, value in sizes.items()}
    told = [flag if value is True else f"{flag} {value}" for flag, value in flags.items()]
    model.add_argument(
        "--paper",
        action="store_true",
        help=f"the paper's {', '.join(told)}, but for those given (default: sizes for a laptop)",
    )


def _add_training(training):
    shared.number(
        training,
        "--minutes",
        None,
        "wall time at most, resumptions included (default: no limit)",
        shared.positive_number,
    )
    shared.number(
        training, "--patience", None, "stop after N epochs that were not the best (default: do not)"
    )
    text = "stop once what decides the best weights is this good (default: do not)"
    shared.number(training, "--goal", None, text, shared.finite)
    training.add_argument(
        "--average",
        type=shared.share,
        metavar="DECAY",
        help="evaluate and keep a moving average of the weights; 0.999 is usual (default: do not)",
    )
    training.add_argument(
        "--dtype",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        default="float32",
        help="dtype policy (default: %(default)s)",
    )
    training.add_argument(
        "--distribute",
        choices=workers.KINDS,
        help="train on all devices of this machine, or in the processes that TF_CONFIG names; "
        "docs/scaling.md tells more (default: on one device)",
    )
    training.add_argument(
        "--no-jit", action="store_true", help="do not compile with XLA: slower steps, quick start"
    )
    shared.number(
        training, "--checkpoint-seconds", 60.0, "time between backups", shared.positive_number
    )
    training.add_argument(
        "--tensorboard", action="store_true", help="write RUN/tensorboard (default: do not)"
    )
