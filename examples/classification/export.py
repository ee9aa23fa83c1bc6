"""`python -m examples export` for classifiers of documents."""

import keras
from keras import ops

from examples.classification.opened import open_run
from examples.commands import arguments as shared
from examples.naming import Naming
from keras_attention.export import TextInput, export_model, versions

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/reviews served        writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `sentences`, texts `(batch, sentences)`, "" where a document has fewer; the
answer holds `class`, the name of the likeliest class, its number `class_id`, `probabilities`,
`word_weights` and `sentence_weights`. Sentences and words beyond the run's --max-sentences and
--max-words are cut off, as `evaluate` does, and have no weights.
"""


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    path = export_model(
        served_model(opened),
        arguments.base,
        tokenizers={"sentences": TextInput(opened.tokenizer, max_length=opened.max_words)},
        version=arguments.version,
        descriptions=describe_outputs(opened),
        run=opened.run.settings,
    )
    print(path)


def served_model(opened) -> keras.Model:
    """Returns the model from ids to class, probabilities and both levels' weights.

    Of more than `max_sentences` sentences it reads the first, and the weights are of those.
    """
    sentences = keras.Input([None, None], dtype="int32", name="sentences")
    outputs = opened.model({"sentences": sentences[:, : opened.max_sentences]})
    probabilities = keras.layers.Softmax(dtype="float32")(outputs["logits"])
    likeliest = ops.argmax(probabilities, axis=-1)
    answers = {
        "class": Naming(opened.classes, name="class_names")(likeliest),
        "class_id": likeliest,
        "probabilities": probabilities,
        "word_weights": outputs["word_weights"],
        "sentence_weights": outputs["sentence_weights"],
    }
    return keras.Model({"sentences": sentences}, answers, name=opened.run.settings["system"])


def describe_outputs(opened) -> dict[str, str]:
    """Returns a line for each input and output, for the model card."""
    named = ", ".join(f"{number} {name}" for number, name in enumerate(opened.classes))
    return {
        "sentences": f"the sentences of each document, of which the first {opened.max_sentences} "
        f"are read, their words between spaces, of which the first {opened.max_words} are; "
        '"" is none',
        "class": "name of the likeliest class",
        "class_id": f"its number: {named}",
        "probabilities": f"of the classes, in this order: {', '.join(opened.classes)}",
        "word_weights": "how much each word that is read counts in its sentence",
        "sentence_weights": "how much each sentence that is read counts in its document",
    }
