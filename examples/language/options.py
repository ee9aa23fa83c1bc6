"""What `python -m examples train` asks for a language model."""

import argparse

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from keras_attention.export.tokenizers import SUBWORD_KINDS, TOKENIZER_CLASSES

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--max-texts 64 --epochs 1 --no-jit --shapes 1"
QUICK_EVALUATION = "--max-texts 32"
DESCRIPTION = (
    "It reads lines of text, plain or gzipped, and learns the probability of each next token, the "
    "end of a line included. Lines know nothing of one another."
)
EPILOG = """\
examples:
  captions, tokenized, rare words unknown:
    python -m examples train {0} --text train.lc.norm.tok.en.gz \\
        --dev-text val.lc.norm.tok.en.gz --min-frequency 2 --run runs/captions
  letters instead of words:
    python -m examples train {0} --text names.txt --dev-text dev.txt --tokens characters \\
        --units 64 --run runs/names
"""


def add_data(parser) -> None:
    """Adds the options of the data."""
    data = parser.add_argument_group("data")
    data.add_argument("--text", metavar="FILE", help="the training text, a sentence a line")
    data.add_argument("--dev-text", metavar="FILE", help="the dev text")
    shared.number(data, "--max-texts", None, "read the first N lines of each file (default: all)")
    data.add_argument(
        "--tokens",
        choices=tuple(TOKENIZER_CLASSES),
        default="words",
        help="what a token is; words are what stands between spaces (default: %(default)s)",
    )
    shared.number(
        data,
        "--vocabulary-size",
        None,
        "ids at most (default: 8000 for subwords, else no limit)",
        shared.int_at_least(5),
    )
    shared.number(data, "--min-frequency", 1, "characters or words seen less often are unknown")
    data.add_argument("--lowercase", action="store_true", help="lower-case it (default: keep)")
    shared.number(data, "--max-tokens", 200, "tokens of a line that are read, the rest is cut off")
    shared.number(data, "--batch-size", 64, "lines in a batch")
    shared.number(data, "--shapes", 4, "lengths to pad to; each is compiled once")


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    shared.number(training, "--epochs", 20, "passes over the text at most")
    training.add_argument(
        "--monitor",
        choices=("perplexity", "accuracy"),
        default="perplexity",
        help="what decides which weights are best on the dev text (default: %(default)s)",
    )
    shared.number(training, "--learning-rate", 1e-3, "rate of Adam", shared.positive_number)
    shared.number(
        training,
        "--plateau",
        None,
        "halve it after N epochs without a better dev text (default: do not)",
    )
    shared.number(
        training, "--clip-norm", 5.0, "largest norm of the gradient", shared.positive_number
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if a file is not named or options do not go together."""
    for name in ("text", "dev_text"):
        if not getattr(arguments, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"There is nothing to read. Name a file with a sentence on each line: {flag} FILE."
            )
    if arguments.tokens in SUBWORD_KINDS and arguments.min_frequency > 1:
        raise UsageError(
            f"--min-frequency is for characters and words; {SUBWORD_KINDS[arguments.tokens]} has "
            "--vocabulary-size. Leave it out, or choose --tokens words."
        )
