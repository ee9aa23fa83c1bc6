"""The options of `python -m examples train`."""

import argparse

from examples import systems
from examples.commands import arguments as shared

USAGE = "python -m examples train {} --run DIR [--resume] [options]"
EPILOG = """\
examples:
  the embedded dates, a small model, in some minutes:
    python -m examples train {0} --run runs/dates --units 128 --embedding-dim 64
  a quick look, on a few of them:
    python -m examples train {0} --run runs/try --units 32 --max-pairs 2000 --epochs 2
  your own sentence pairs, in SentencePiece subwords:
    python -m examples train {0} --run runs/mine --source train.de --target train.en \\
        --dev-source dev.de --dev-target dev.en --dropout 0.3 --minutes 60
  go on after an interruption, or train longer:
    python -m examples train {0} --run runs/mine --resume
    python -m examples train {0} --run runs/mine --resume --minutes 120

Ctrl-C ends a run in good order: a checkpoint is written first.
"""


def make_parser(name: str, add=argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Returns the parser of `train NAME`; `add` makes it, alone or among the subcommands."""
    module = systems.find(name).module
    parser = add(
        prog=f"python -m examples train {name}",
        usage=USAGE.format(name),
        description=f"{module.TITLE} ({module.REFERENCE}).\n\n"
        "Without data it learns to write dates as ISO 8601.",
        epilog=EPILOG.format(name),
        formatter_class=shared.formatter,
    )
    run = parser.add_argument_group("the run")
    run.add_argument("--run", required=True, metavar="DIR", help="directory of the run")
    run.add_argument(
        "--resume",
        action="store_true",
        help="go on from the newest checkpoint in --run; options not given are as they were",
    )
    run.add_argument(
        "--seed",
        type=shared.seed,
        default=1,
        metavar="N",
        help="seed of everything random (default: %(default)s)",
    )
    model = parser.add_argument_group("model")
    for option_name, option in module.OPTIONS.items():
        option.add_to(model, option_name)
    shared.add_files(parser, "training", hint=" (default: the embedded dates)")
    shared.add_files(parser, "dev", "dev-", hint=" (default: a share of the training data)")
    _add_data(parser.add_argument_group("reading the data"))
    _add_training(parser.add_argument_group("training"))
    return parser


def _add_data(data):
    data.add_argument(
        "--dev-share",
        type=shared.share,
        default=0.02,
        metavar="X",
        help="share of the training pairs held out where no dev files are named "
        "(default: %(default)s)",
    )
    data.add_argument(
        "--max-pairs",
        type=shared.positive_int,
        metavar="N",
        help="take only the first N pairs of each part, to try things out (default: all)",
    )
    data.add_argument(
        "--on-bad-line",
        choices=("skip", "refuse"),
        default="skip",
        help="what to do with empty, overlong or undecodable lines; all are told by line "
        "number (default: %(default)s)",
    )
    data.add_argument(
        "--tokens",
        choices=("characters", "words", "sentencepiece"),
        help="what a token is; words are what stands between spaces (default: characters for "
        "the dates, sentencepiece for your files)",
    )
    data.add_argument(
        "--vocabulary-size",
        type=shared.int_at_least(5),
        metavar="N",
        help="ids of each side at most (default: 8000 for sentencepiece, else no limit)",
    )
    data.add_argument(
        "--minimum-count",
        type=shared.positive_int,
        default=1,
        metavar="N",
        help="characters or words seen less often are unknown (default: %(default)s)",
    )
    data.add_argument(
        "--lowercase", action="store_true", help="lower-case both sides (default: keep)"
    )
    for side in ("source", "target"):
        data.add_argument(
            f"--max-{side}-tokens",
            type=shared.positive_int,
            metavar="N",
            help=f"leave out pairs with a longer {side}, and say so (default: no limit)",
        )
    data.add_argument(
        "--batch-size",
        type=shared.positive_int,
        default=64,
        metavar="N",
        help="pairs in a batch (default: %(default)s)",
    )
    data.add_argument(
        "--shapes",
        type=shared.positive_int,
        default=6,
        metavar="N",
        help="batch shapes at most; each is compiled once, more have less padding "
        "(default: %(default)s)",
    )


def _add_training(training):
    training.add_argument(
        "--epochs",
        type=shared.positive_int,
        default=10,
        metavar="N",
        help="passes over the data at most (default: %(default)s)",
    )
    training.add_argument(
        "--minutes",
        type=shared.positive_number,
        metavar="X",
        help="wall time at most, resumptions included (default: no limit)",
    )
    training.add_argument(
        "--monitor",
        choices=("loss", "exact_match", "bleu"),
        default="loss",
        help="what decides which weights are best: the dev loss, or greedy outputs of up to "
        "500 dev pairs (default: %(default)s)",
    )
    training.add_argument(
        "--patience",
        type=shared.positive_int,
        metavar="N",
        help="stop after N epochs that were not the best (default: do not)",
    )
    training.add_argument(
        "--learning-rate",
        type=shared.positive_number,
        default=1e-3,
        metavar="X",
        help="of Adam (default: %(default)s)",
    )
    training.add_argument(
        "--schedule",
        choices=("constant", "plateau"),
        default="constant",
        help="plateau halves the rate when --monitor stops improving (default: %(default)s)",
    )
    training.add_argument(
        "--clip-norm",
        type=shared.positive_number,
        default=1.0,
        metavar="X",
        help="largest norm of the gradient (default: %(default)s)",
    )
    training.add_argument(
        "--label-smoothing",
        type=shared.fraction,
        default=0.0,
        metavar="X",
        help="share of the target given to all other tokens; 0.1 is usual (default: %(default)s)",
    )
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
        "--no-jit", action="store_true", help="do not compile with XLA: slower steps, quick start"
    )
    training.add_argument(
        "--checkpoint-seconds",
        type=shared.positive_number,
        default=60.0,
        metavar="X",
        help="time between checkpoints (default: %(default)s)",
    )
    training.add_argument(
        "--tensorboard", action="store_true", help="write RUN/tensorboard (default: do not)"
    )
