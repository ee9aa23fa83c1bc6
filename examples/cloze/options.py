"""What `python -m examples train` asks for cloze reading."""

import argparse

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--max-examples 64 --epochs 1 --max-words 99 --no-xla --num-buckets 1"
QUICK_EVALUATION = "--max-examples 32"
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
    shared.number(data, "--max-examples", None, "read the first N of each file (default: all)")
    shared.number(
        data, "--vocabulary-size", 20000, "words that are embedded, at most", shared.int_at_least(6)
    )
    shared.number(data, "--min-frequency", 5, "how often such a word is seen in training, at least")
    shared.number(data, "--max-words", 1000, "words of a document that are read")
    shared.number(data, "--batch-size", 32, "questions in a batch")
    shared.number(data, "--num-buckets", 4, "lengths to pad to; each is compiled once")


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    shared.number(training, "--epochs", 8, "epochs at most")
    training.add_argument(
        "--monitor",
        choices=("accuracy", "crossentropy"),
        default="accuracy",
        help="what decides which weights are best on the dev data (default: %(default)s)",
    )
    shared.number(training, "--learning-rate", 1e-3, "rate of Adam", shared.positive_number)
    shared.number(
        training, "--clip-norm", 5.0, "largest norm of the gradient", shared.positive_number
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if a file is not named."""
    for name in ("questions", "dev_questions"):
        if not getattr(arguments, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"There is nothing to read. Name a file of cloze questions with {flag}."
            )
