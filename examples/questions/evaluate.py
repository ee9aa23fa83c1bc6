"""`python -m examples evaluate` for question answering over stories."""

import json
import time

from examples.commands import arguments as shared
from examples.questions.opened import add_stories, linear_text, open_run, read_part

SUMMARY = "measure a run on questions it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/task1                        the test questions
  python -m examples evaluate runs/task1 --part dev             those it was chosen by
  python -m examples evaluate runs/task1-seed1 --others runs/task1-seed2 runs/task1-seed3
  python -m examples evaluate runs/mine --stories my_test.txt

what the numbers mean:
  error              share of the answers that are wrong, in %; of several tasks, their mean
  passed             tasks with at most 5 % wrong answers
  cut off            sentences beyond the most recent ones that the memory holds (--max-memories of
                     the training), and words beyond the longest sentence that was trained on

With --others, runs of the same tasks with other seeds, every run is measured, and the one with
the fewest wrong answers on its dev questions is the one that counts: the test decides nothing.
"""
PASSED = 5.0


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_stories(parser)
    parser.add_argument(
        "--others",
        nargs="+",
        default=[],
        metavar="RUN",
        help="runs with other seeds: the best by dev error counts",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints the error of each task and their mean."""
    path = shared.check_writable(arguments.json)
    began = time.monotonic()
    measured = [measure(name, arguments) for name in (arguments.run, *arguments.others)]
    if arguments.others:
        for one in measured:
            print(
                f"{one['run']}: dev error {one['dev_error']:.2f} %, {arguments.part} error "
                f"{one['error']:.2f} %"
            )
    numbers = dict(min(measured, key=lambda one: one.get("dev_error", 0.0)))  # the first if equal
    if arguments.others:
        print(f"best by dev error: {numbers['run']}")
        numbers["runs"] = measured
    numbers["seconds"] = time.monotonic() - began
    for name, error in numbers["tasks"].items():
        print(f"task {name:<13} {error:6.2f} %")
    print(f"{'error':<18} {numbers['error']:6.2f} %")
    print(f"{'passed':<18} {numbers['passed']} of {len(numbers['tasks'])}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def measure(directory: str, arguments) -> dict:
    """Returns the errors of a run in %, of each task and their mean.

    `dev_error` is measured only where there are other runs to compare with.
    """
    opened = open_run(directory)
    if opened.reader.is_linear():
        print(linear_text(directory))
    questions = read_part(opened.run, arguments.part, arguments.stories)
    length = opened.length(questions)
    print(f"{directory}: {length}")
    tasks = _percent(opened.errors(questions))
    numbers = {
        "run": directory,
        "seed": opened.run.settings.get("seed"),
        "part": arguments.part,
        "questions": len(questions),
        "cut_stories": length.cut_stories,
        "cut_sentences": length.cut_sentences,
        "cut_texts": length.cut_texts,
        "cut_words": length.cut_words,
        "tasks": tasks,
        "error": _mean(tasks),
        "passed": sum(error <= PASSED for error in tasks.values()),
    }
    if arguments.others:
        numbers["dev_error"] = _mean(_percent(opened.errors(read_part(opened.run, "dev"))))
    return numbers


def _percent(errors):
    return {task: 100 * wrong / count for task, (wrong, count) in errors.items()}


def _mean(tasks):
    return sum(tasks.values()) / len(tasks)
