"""`python -m examples plot` for question answering over stories."""

import pathlib

import numpy as np

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.questions.opened import add_stories, linear_text, open_run, read_part
from examples.questions.stories import Question
from keras_attention import plotting

SUMMARY = "draw which sentences each reading of a story attends to"
EPILOG = """\
examples:
  python -m examples plot runs/task1 --output-dir pictures              four test questions
  python -m examples plot runs/task1 --output-dir pictures --count 9
  python -m examples plot runs/task1 --output-dir pictures --question "Where is Mary?" \\
      --sentences "Mary went to the garden." "John went to the kitchen."

Writes story_1.png, story_2.png, ...: the sentences from the oldest to the most recent, a column a
hop. A + stands before the sentences that the question needs, where the data says so. Sentences and
words that the model cuts off are counted; the sentences have no weight.
"""
LAST_SENTENCES = 30


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    add_stories(parser)
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )
    parser.add_argument(
        "--count",
        type=shared.positive_int,
        default=4,
        metavar="N",
        help="questions to draw, spread over the part (default: %(default)s)",
    )
    parser.add_argument("--question", metavar="TEXT", help="ask this instead")
    parser.add_argument("--sentences", nargs="+", metavar="TEXT", help="about these sentences")


def run(arguments) -> None:
    """Writes the pictures and says where."""
    if bool(arguments.question) != bool(arguments.sentences):
        raise UsageError("A story of your own needs both --sentences and --question.")
    opened = open_run(arguments.run)
    if opened.reader.is_linear():
        raise ValueError(linear_text(arguments.run))
    questions = _questions(arguments, opened)
    length = opened.length(questions)
    if length.is_cut:
        print(length)
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    answers = opened.answers(questions)
    for number, (question, said, probability, weights) in enumerate(
        zip(questions, answers.said, answers.probabilities, answers.weights, strict=True), 1
    ):
        path = directory / f"story_{number}.png"
        draw(question, said, probability, weights).savefig(path, dpi=150)
        print(path)


def draw(question: Question, said: str, probability: float, weights: np.ndarray):
    """Returns the figure of one question.

    Args:
        question: The question.
        said: The answer of the model.
        probability: Its probability.
        weights: Array `(num_hops, sentences)`.
    """
    first = max(0, len(question.sentences) - LAST_SENTENCES)
    marked = [
        f"+ {text}" if place in question.support else text
        for place, text in enumerate(question.sentences)
    ]
    expected = f", expected {question.answer}" if question.answer not in ("", said) else ""
    return plotting.plot_alignment(
        np.clip(weights[:, first:].T, 0.0, 1.0),
        [f"hop {hop}" for hop in range(1, len(weights) + 1)],
        marked[first:],
        title=f"{question.question}\n{said} ({100 * probability:.0f} %){expected}",
    )


def _questions(arguments, opened):
    if arguments.question:
        return [Question("", 0, tuple(arguments.sentences), arguments.question, "")]
    found = read_part(opened.run, arguments.part, arguments.stories)
    count = min(arguments.count, len(found))
    return [found[place * len(found) // count] for place in range(count)]
