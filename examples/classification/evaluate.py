"""`python -m examples evaluate` for classifiers of documents."""

import json
import math
import time

import numpy as np

from examples.classification import naive_bayes
from examples.classification.documents import is_same_file, read_documents
from examples.classification.opened import open_run
from examples.classification.options import folds
from examples.classification.train import check_labels
from examples.commands import arguments as shared
from examples.data.report import DataError

SUMMARY = "measure a run on documents it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/reviews --documents D/reviews.jsonl.gz --folds 8
  and naive Bayes, trained on folds 0 to 7 of the same file, on the same documents:
  python -m examples evaluate runs/reviews --documents D/reviews.jsonl.gz --folds 8 \\
      --naive-bayes-folds 0-7

what the numbers mean:
  accuracy        percent of the documents whose class is right, with its standard error
  loss            -log of the probability of the right class, a document
  by fold, class  the accuracy of each
  naive bayes     the accuracy of naive Bayes on the presence of words
"""


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    parser.add_argument(
        "--documents", required=True, metavar="FILE", help="labeled documents, plain or gzip"
    )
    parser.add_argument(
        "--folds", type=folds, metavar="N-M", help="folds of them (default: all documents)"
    )
    parser.add_argument(
        "--naive-bayes-folds",
        type=folds,
        metavar="N-M",
        help="train naive Bayes on these folds of the same file and measure it too (default: do "
        "not)",
    )
    parser.add_argument(
        "--batch-size",
        type=shared.positive_int,
        default=16,
        metavar="N",
        help="documents in a batch (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints accuracy and loss, of all documents and by fold and class."""
    baseline = arguments.naive_bayes_folds
    if baseline and (arguments.folds is None or set(baseline) & set(arguments.folds)):
        raise shared.UsageError(
            "--naive-bayes-folds are trained on: they must differ from those that are measured, "
            "which --folds names."
        )
    opened = open_run(arguments.run)
    learned = learned_folds(opened.run.settings, arguments.documents, arguments.folds)
    documents = read_documents(arguments.documents, arguments.folds)
    check_labels(documents, opened.classes)
    path = shared.check_writable(arguments.json)
    began = time.monotonic()
    batches = opened.batches(documents, arguments.batch_size)
    print(f"documents: {batches.encoded}")
    if learned:
        print(f"The run has learned from fold {', '.join(map(str, learned))}.")
    numbers = measured(opened.probabilities(batches), documents, opened.classes)
    if baseline:
        classify = naive_bayes.train(read_documents(arguments.documents, baseline))
        numbers["naive_bayes"] = 100 * naive_bayes.accuracy(classify, documents)
    numbers["seconds"] = time.monotonic() - began
    for name, value in numbers.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}: {number:.2f}" for key, number in value.items())
        shown = f"{value:.6g}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<15} {shown}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def learned_folds(settings: dict, path: str, folds: list[int] | None) -> list[int]:
    """Returns which folds of a file the run has learned from, of those that are asked for.

    Raises:
        DataError: If it has learned from some and none are asked for by number.
    """
    training = settings.get("training") or {}
    if not is_same_file(training.get("documents") or "", path):
        return []
    known = training.get("folds")
    if folds is None:
        which = "this file" if known is None else f"fold {', '.join(map(str, known))} of this file"
        raise DataError(
            f"{path}: the run has learned from {which}. Name documents that it has not seen, or "
            "with --folds those folds that are to be measured."
        )
    return [fold for fold in folds if known is None or fold in known]


def measured(probabilities, documents, classes) -> dict:
    """Returns the numbers of `probabilities` `(documents, classes)`; accuracies in percent.

    Example:

    >>> from examples.classification.documents import Document
    >>> films = [Document("1", "a", (".",), 3), Document("2", "b", (".",), 3)]
    >>> numbers = measured(np.array([[0.5, 0.5], [0.75, 0.25]]), films, ["a", "b"])
    >>> numbers["accuracy"], numbers["by_class"]
    (50.0, {'a': 100.0, 'b': 0.0})
    """
    labels = np.array([classes.index(document.label) for document in documents])
    right = probabilities.argmax(axis=1) == labels
    given = probabilities[np.arange(len(labels)), labels]
    numbers = {
        "documents": len(labels),
        "accuracy": 100 * float(right.mean()),
        "standard_error": 100 * math.sqrt(right.mean() * (1 - right.mean()) / len(labels)),
        "loss": float(-np.log(np.maximum(given, 1e-300)).mean()),
    }
    found = np.array([-1 if document.fold is None else document.fold for document in documents])
    if len(set(found)) > 1:
        numbers["by_fold"] = {
            ("none" if fold < 0 else str(fold)): 100 * float(right[found == fold].mean())
            for fold in sorted(set(found))
        }
    numbers["by_class"] = {
        name: 100 * float(right[labels == number].mean())
        for number, name in enumerate(classes)
        if (labels == number).any()
    }
    return numbers
