"""`python -m examples evaluate` for cloze reading."""

import json
import time

from examples.cloze.opened import open_run, said
from examples.cloze.reading import read_cloze
from examples.commands import arguments as shared

SUMMARY = "measure a run on questions it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/books --questions books_ne.test.txt.gz

what the numbers mean:
  accuracy           share of the gaps that are filled rightly, in %
  most frequent      the same of the candidate that stands most often in the text
  out of reach       share of the questions whose answer is not in the text that is read
"""


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    parser.add_argument("--questions", required=True, metavar="FILE", help="the questions")
    parser.add_argument(
        "--max-examples", type=shared.positive_int, metavar="N", help="the first N (default: all)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints the accuracy beside that of the most frequent candidate."""
    opened = open_run(arguments.run)
    path = shared.check_writable(arguments.json)
    questions = read_cloze(arguments.questions, arguments.max_examples)
    began = time.monotonic()
    numbers = {"questions": len(questions), **measure(opened, questions)}
    numbers["seconds"] = time.monotonic() - began
    for name, value in numbers.items():
        shown = f"{value:.2f}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<18} {shown}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def measure(opened, questions) -> dict:
    """Returns the numbers of a run, in %."""
    answers = opened.answers(questions)
    right = frequent = absent = 0
    for question, answer in zip(questions, answers, strict=True):
        read = question.document.split()[: opened.max_words]
        counts = [read.count(candidate) for candidate in question.candidates]
        best = question.candidates[counts.index(max(counts))]  # the first of several
        right += said(question, answer) == question.answer
        frequent += best == question.answer
        absent += question.answer not in read
    count = len(questions)
    return {
        "accuracy": 100 * right / count,
        "most_frequent": 100 * frequent / count,
        "out_of_reach": 100 * absent / count,
    }
