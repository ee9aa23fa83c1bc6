"""`python -m examples plot` for cloze reading."""

import pathlib

import numpy as np

from examples.cloze.opened import open_run, said
from examples.cloze.reading import Cloze, read_cloze
from examples.commands import arguments as shared
from keras_attention import plotting

SUMMARY = "draw which words of a text a query attends to"
EPILOG = """\
examples:
  python -m examples plot runs/books --questions books_ne.test.txt.gz --output-dir pictures

Writes question_1.png and question_1.html, ...: the text, each word shaded by its weight, and where
the query has weights of its own, query_1.png. The weights of all mentions of a candidate add up to
its probability.
"""


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    parser.add_argument("--questions", required=True, metavar="FILE", help="the questions")
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )
    parser.add_argument(
        "--count",
        type=shared.positive_int,
        default=4,
        metavar="N",
        help="questions to draw, spread over the file (default: %(default)s)",
    )


def run(arguments) -> None:
    """Writes the pictures and says where."""
    opened = open_run(arguments.run)
    found = read_cloze(arguments.questions)
    count = min(arguments.count, len(found))
    questions = [found[place * len(found) // count] for place in range(count)]
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    for number, (question, answer) in enumerate(
        zip(questions, opened.answers(questions), strict=True), 1
    ):
        sentences, weights = weighted_sentences(question, answer["weights"])
        title = title_of(question, answer)
        path = directory / f"question_{number}.png"
        plotting.plot_text_weights(sentences, weights, title=title).savefig(path, dpi=150)
        print(path)
        page = plotting.text_weights_html(sentences, weights, title=title)
        path.with_suffix(".html").write_text(page, encoding="utf-8")
        print(path.with_suffix(".html"))
        if "query_weights" in answer:
            path = directory / f"query_{number}.png"
            query = question.query.split()
            of_query = [answer["query_weights"][: len(query)]]
            figure = plotting.plot_text_weights([query], of_query, title="the query's words")
            figure.savefig(path, dpi=150)
            print(path)


def weighted_sentences(question: Cloze, weights: np.ndarray):
    """Returns the words of each sentence and of the query, and their weights.

    What was not read has weight 0, and so has the query, which stands last to be seen.
    """
    sentences = [sentence.split() for sentence in question.sentences]
    length = sum(map(len, sentences))
    weights = np.pad(weights[:length], (0, max(0, length - len(weights))))
    ends = np.cumsum([len(words) for words in sentences])[:-1]
    query = question.query.split()
    return [*sentences, query], [*np.split(weights, ends), np.zeros(len(query))]


def title_of(question: Cloze, answer: dict) -> str:
    """Returns what was said, and what is right."""
    best = said(question, answer)
    expected = "" if best == question.answer else f", expected {question.answer}"
    probability = answer["probabilities"].max()
    return f"{best} ({100 * probability:.0f} %){expected}"
