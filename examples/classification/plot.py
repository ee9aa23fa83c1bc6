"""`python -m examples plot` for classifiers of documents."""

import pathlib

from examples.classification.documents import Document, read_documents, split_sentences
from examples.classification.opened import open_run
from examples.classification.options import folds
from examples.commands import arguments as shared
from keras_attention import plotting

SUMMARY = "shade documents by the words and sentences a model looks at"
EPILOG = """\
examples:
  python -m examples plot runs/reviews --output-dir pictures --documents D/reviews.jsonl.gz --folds 8
  python -m examples plot runs/reviews --output-dir pictures "a dull story . but what a cast !"

A TEXT is a document: its words between spaces, a sentence ends at . ! ? or the line. Writes
document_1.png and document_1.html, document_2.png, ...: words on blue and sentences beside
red, darker where they count more. What the model cuts off is not shown.
"""


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="documents to draw")
    parser.add_argument(
        "--documents", metavar="FILE", help="draw some of these documents, plain or gzip"
    )
    parser.add_argument(
        "--folds", type=folds, metavar="N-M", help="folds of them (default: all documents)"
    )
    parser.add_argument(
        "--count",
        type=shared.positive_int,
        default=4,
        metavar="N",
        help="how many, spread evenly over them (default: %(default)s)",
    )
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )


def run(arguments) -> None:
    """Writes a PNG and an HTML page a document and says where."""
    documents = _documents(arguments)
    opened = open_run(arguments.run)
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    for number, document in enumerate(documents, start=1):
        reading = opened.read(document)
        drawn = reading.tokens, reading.word_weights, reading.sentence_weights
        title = _title(opened, document, reading)
        path = directory / f"document_{number}.png"
        plotting.plot_text_weights(*drawn, title=title).savefig(path, dpi=150)
        page = path.with_suffix(".html")
        page.write_text(plotting.text_weights_html(*drawn, title=title), encoding="utf-8")
        print(f"{path}\n{page}")


def _documents(arguments):
    """The documents to draw: the texts, or some of a file."""
    if bool(arguments.texts) == bool(arguments.documents):
        raise shared.UsageError("Name what to draw: TEXT ..., or a file with --documents.")
    if arguments.documents:
        found = read_documents(arguments.documents, arguments.folds)
        count = min(arguments.count, len(found))
        return [found[place * len(found) // count] for place in range(count)]
    sentences = [split_sentences(text) for text in arguments.texts]
    if not all(sentences):
        raise shared.UsageError("A text to draw is empty. Leave it out.")
    return [Document(f"text {number}", "", each) for number, each in enumerate(sentences, start=1)]


def _title(opened, document, reading):
    """Which document it is, what the model says, and what is right if that is known."""
    best = int(reading.probabilities.argmax())
    share = f"{100 * reading.probabilities[best]:.0f} %"
    right = f", labeled {document.label}" if document.label else ""
    return f"{document.name}: {opened.classes[best]} ({share}){right}"
