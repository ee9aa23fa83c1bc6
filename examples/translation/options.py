"""What `python -m examples train` asks for a translator."""

from examples.commands import arguments as shared
from examples.translation.arguments import add_files

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
        choices=("loss", "exact_match", "bleu"),
        default="loss",
        help="what decides which weights are best: the dev loss, or greedy outputs of up to "
        "500 dev pairs (default: %(default)s)",
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
