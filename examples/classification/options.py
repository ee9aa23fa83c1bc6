"""What `python -m examples train` asks for a classifier of documents."""

import argparse

from examples.commands import arguments as shared

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--epochs 1 --max-sentences 3 --max-words 5 --no-xla --num-buckets 1"
QUICK_EVALUATION = ""
DESCRIPTION = "It learns classes of documents from a file of JSON lines."
EPILOG = """\
examples:
  movie reviews, D the folder of the data sets; folds of one file are training and dev data:
    python -m examples train {0} --run runs/reviews \\
        --documents D/movie_reviews/movie_reviews.folds0-8.jsonl.gz --folds 0-6 --dev-folds 7
  your own files, without folds:
    python -m examples train {0} --run runs/mine --documents train.jsonl --dev-documents dev.jsonl

A line is {{"label": "pos", "sentences": ["a good film .", "see it ."]}}, its words between spaces;
beside these, "fold" (a number) and "id" are read.
"""


def add_data(parser) -> None:
    """Adds the options of the data."""
    data = parser.add_argument_group("the documents")
    data.add_argument(
        "--documents", metavar="FILE", help="training documents, plain or gzip; must be named"
    )
    data.add_argument(
        "--folds",
        type=folds,
        metavar="N-M",
        help="folds of it to train on, such as 0-6 or 0,2,5 (default: all documents)",
    )
    data.add_argument(
        "--dev-documents", metavar="FILE", help="dev documents (default: --documents)"
    )
    data.add_argument(
        "--dev-folds", type=folds, metavar="N-M", help="folds of those (default: all documents)"
    )
    shared.number(
        data, "--min-frequency", 3, "words seen less often in the training documents are unknown"
    )
    data.add_argument(
        "--lowercase", action="store_true", help="lower-case the documents (default: keep)"
    )
    shared.number(
        data, "--max-sentences", 80, "sentences of a document that are read, the rest is cut off"
    )
    shared.number(data, "--max-words", 50, "words of a sentence that are read, the rest is cut off")
    shared.number(data, "--batch-size", 16, "documents in a batch")
    shared.number(data, "--num-buckets", 5, "numbers of sentences to pad to; each is compiled once")


def add_training(training) -> None:
    """Adds the options of the training that only classifiers have, or with other defaults."""
    shared.number(training, "--epochs", 20, "passes over the data at most")
    training.add_argument(
        "--monitor",
        choices=("crossentropy", "accuracy"),
        default="crossentropy",
        help="what decides which weights are best, on the dev documents (default: %(default)s)",
    )
    training.add_argument(
        "--optimizer",
        choices=("adam", "sgd"),
        default="adam",
        help="sgd is the paper's, with momentum 0.9 (default: %(default)s)",
    )
    shared.number(training, "--learning-rate", 1e-3, "its rate", shared.positive_number)
    shared.number(
        training,
        "--weight-decay",
        0.0,
        "share of each weight taken off in a step, times the rate",
        shared.not_negative,
    )
    shared.number(
        training, "--clip-norm", 1.0, "largest norm of the gradient", shared.positive_number
    )


def folds(text: str) -> list[int]:
    """Returns the folds that a text such as `0-6` or `0,2,5` names, ascending.

    Example:

    >>> folds("0-2,7")
    [0, 1, 2, 7]
    """
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        if any(len(part) > 2 or part[0] > part[-1] for part in ends):
            raise ValueError(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected folds such as 7, 0-6 or 0,2,5, got {text!r}"
        ) from None
    return sorted({fold for part in ends for fold in range(part[0], part[-1] + 1)})
