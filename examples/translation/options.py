"""What `python -m examples train` asks for a translator."""

from examples.commands import arguments as shared
from examples.translation.arguments import add_files
from examples.translation.optimizing import OPTIMIZERS, SCHEDULES
from keras_attention.export.tokenizers.training import KINDS

DESCRIPTION = "Without data it learns to write dates as ISO 8601."
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
"""


def add_data(parser) -> None:
    """Adds the options of the data."""
    add_files(parser, "training", hint=" (default: the embedded dates)")
    add_files(parser, "dev", "dev-", hint=" (default: a share of the training data)")
    _add_reading(parser.add_argument_group("reading the data"))


def _add_reading(data):
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
        choices=tuple(KINDS),
        help="what a token is; words are what stands between spaces (default: characters for "
        "the dates, sentencepiece for your files)",
    )
    for side in ("source", "target"):
        data.add_argument(
            f"--{side}-tokens",
            choices=tuple(KINDS),
            help=f"what a token of the {side} is (default: what --tokens says)",
        )
    data.add_argument(
        "--joint-vocabulary",
        action="store_true",
        help="one tokenizer made from both sides, for both (default: one each)",
    )
    data.add_argument(
        "--vocabulary-size",
        type=shared.int_at_least(5),
        metavar="N",
        help="ids of each side at most (default: 8000 for subwords, else no limit)",
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
        "--batch-tokens",
        type=shared.positive_int,
        metavar="N",
        help="as many pairs in a batch as have N tokens on their longer side, padding counted, "
        "instead of --batch-size (default: do not)",
    )
    data.add_argument(
        "--shapes",
        type=shared.positive_int,
        default=6,
        metavar="N",
        help="batch shapes at most; each is compiled once, more have less padding "
        "(default: %(default)s)",
    )


def add_training(training) -> None:
    """Adds the options of the training that only a translator has, or with other defaults."""
    training.add_argument(
        "--epochs",
        type=shared.positive_int,
        default=10,
        metavar="N",
        help="passes over the data at most (default: %(default)s)",
    )
    training.add_argument(
        "--monitor",
        choices=("loss", "exact_match", "bleu", "wer"),
        default="loss",
        help="what decides which weights are best: the dev loss, or greedy outputs of up to "
        "500 dev texts (default: %(default)s)",
    )
    _add_optimizer(training)
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


def _add_optimizer(training):
    training.add_argument(
        "--optimizer",
        choices=tuple(OPTIMIZERS),
        default="adam",
        help="sgd is plain, nesterov has momentum 0.99 (default: %(default)s)",
    )
    rates = ", ".join(f"{rate:g} for {name}" for name, rate in OPTIMIZERS.items())
    training.add_argument(
        "--learning-rate",
        type=shared.positive_number,
        metavar="X",
        help=f"the first one; for --schedule noam a factor on it (default: {rates}; 1 for noam)",
    )
    training.add_argument(
        "--beta-2",
        type=shared.fraction,
        metavar="X",
        help="of adam (default: 0.999; 0.98 for --schedule noam)",
    )
    training.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="constant",
        help="plateau halves the rate when --monitor stops improving, halving after so many "
        "epochs; noam is the Transformer's, for a system with --units (default: %(default)s)",
    )
    training.add_argument(
        "--warmup",
        type=shared.positive_int,
        metavar="N",
        help="updates until noam's highest rate (default: 4000)",
    )
    training.add_argument(
        "--halve-after",
        type=shared.positive_number,
        metavar="X",
        help="epochs at the full rate of --schedule halving (default: 5)",
    )
    training.add_argument(
        "--halve-every",
        type=shared.positive_number,
        metavar="X",
        help="epochs from one halving to the next (default: 1)",
    )
