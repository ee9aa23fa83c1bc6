"""`python -m examples export` for cloze reading."""

import keras

from examples.cloze.opened import Opened, open_run
from examples.commands import arguments as shared
from keras_attention.export import TextInput, export_model, versions

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/books served          writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `document` (batch) and `query` (batch), texts whose words and marks stand apart, the
gap written XXXXX, and `candidates` (batch, candidates), words, "" where a question has fewer. The
answer holds `probabilities` (batch, candidates), `best` (batch), the place of the largest from 0
on, and `attention` (batch, document).
"""

MEANINGS = {
    "document": "the text, words and marks apart",
    "query": "a sentence with the gap XXXXX",
    "candidates": 'words that may fill it; "" is padding',
    "probabilities": "of each candidate, summed over its mentions in the document",
    "best": "place of the likeliest candidate, from 0 on",
    "attention": "how much the query attends to each word of the document",
}
QUERY_WORDS = 512


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    limits = {"document": opened.max_words, "query": QUERY_WORDS, "candidates": 1}
    path = export_model(
        served_model(opened),
        arguments.base,
        tokenizers={
            key: TextInput(opened.tokenizer, max_length=limit) for key, limit in limits.items()
        },
        version=arguments.version,
        descriptions=MEANINGS,
        run=opened.run.settings,
    )
    print(path)


def served_model(opened: Opened) -> keras.Model:
    """Returns the model with candidates of one id each, as texts give them."""
    inputs = {key: keras.Input([None], dtype="int32", name=key) for key in ("document", "query")}
    inputs["candidates"] = keras.Input([None, 1], dtype="int32", name="candidates")
    outputs = opened.model({**inputs, "candidates": inputs["candidates"][:, :, 0]})
    answers = {
        "probabilities": outputs["probabilities"],
        "best": keras.ops.argmax(outputs["probabilities"], axis=-1),
        "attention": outputs["weights"],
    }
    return keras.Model(inputs, answers, name=opened.run.settings["system"])
