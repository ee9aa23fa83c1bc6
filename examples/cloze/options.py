"""What `python -m examples train` asks for cloze reading."""

import argparse

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError

DESCRIPTION = (
    "It reads cloze questions in the format of the Children's Book Test, plain or gzipped, and "
    "fills the gap with a word of the text."
)
EPILOG = """\
examples:
  names in books:
    python -m examples train {0} --questions books_ne.train.txt.gz \\
        --dev-questions books_ne.valid.txt.gz --run runs/books
  the Children's Book Test, names read as words, in the paper's sizes:
    python -m examples train {0} --questions cbtest_NE_train.txt \\
        --dev-questions cbtest_NE_valid_2000ex.txt --names words --units 256 \\
        --embedding-dim 384 --run runs/cbt
"""


def add_data(parser) -> None:
    """Adds the options of the data."""
    data = parser.add_argument_group("data")
    data.add_argument("--questions", metavar="FILE", help="the training questions")
    data.add_argument("--dev-questions", metavar="FILE", help="the dev questions")
    data.add_argument(
        "--max-questions",
        type=shared.positive_int,
        metavar="N",
        help="read the first N of each file (default: all)",
    )
    data.add_argument(
        "--vocabulary-size",
        type=shared.int_at_least(6),
        default=20000,
        metavar="N",
        help="words that are embedded, at most (default: %(default)s)",
    )
    data.add_argument(
        "--minimum-count",
        type=shared.positive_int,
        default=5,
        metavar="N",
        help="how often such a word is seen in training, at least (default: %(default)s)",
    )
    data.add_argument(
        "--max-words",
        type=shared.positive_int,
        default=1000,
        metavar="N",
        help="words of a document that are read (default: %(default)s)",
    )
    data.add_argument(
        "--batch-size",
        type=shared.positive_int,
        default=32,
        metavar="N",
        help="questions in a batch (default: %(default)s)",
    )
    data.add_argument(
        "--shapes",
        type=shared.positive_int,
        default=4,
        metavar="N",
        help="lengths to pad to; each is compiled once (default: %(default)s)",
    )


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    training.add_argument(
        "--epochs",
        type=shared.positive_int,
        default=8,
        metavar="N",
        help="epochs at most (default: %(default)s)",
    )
    training.add_argument(
        "--monitor",
        choices=("accuracy", "loss"),
        default="accuracy",
        help="what decides which weights are best on the dev data (default: %(default)s)",
    )
    training.add_argument(
        "--learning-rate",
        type=shared.positive_number,
        default=1e-3,
        metavar="X",
        help="rate of Adam (default: %(default)s)",
    )
    training.add_argument(
        "--clip-norm",
        type=shared.positive_number,
        default=5.0,
        metavar="X",
        help="largest norm of the gradient (default: %(default)s)",
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if a file is not named."""
    for name in ("questions", "dev_questions"):
        if not getattr(arguments, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"There is nothing to read. Name a file of cloze questions with {flag}."
            )
