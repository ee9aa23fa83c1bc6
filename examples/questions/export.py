"""`python -m examples export` for question answering over stories."""

import keras

from examples.commands import arguments as shared
from examples.naming import Naming
from examples.questions.opened import Opened, linear_text, open_run
from keras_attention.export import TextInput, export_model, versions

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/task1 served          writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `story` (batch, sentences), texts from the oldest sentence to the most recent, ""
where a story has fewer, and `question` (batch). The answer holds `answer`, a word, its number
`answer_id` and its `probability`, `probabilities` of all words, and `attention` (batch, hops,
sentences). The model card lists the words by number.
"""

MEANINGS = {
    "story": "sentences, the oldest first, of which the last {memories} are read, and of each the "
    'first {words} words; "" is padding',
    "question": "what is asked, of which the first {words} words are read; upper case and the "
    "marks that end sentences count for nothing",
    "answer": "the word that answers",
    "answer_id": "its number in the run's `vocabulary`",
    "probability": "its probability",
    "probabilities": "those of all words",
    "attention": "how much each reading attended to each sentence, 0 where it is not read",
}


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    if opened.reader.is_linear():
        raise ValueError(linear_text(arguments.run))
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    text = TextInput(opened.tokenizer, max_length=opened.words)
    path = export_model(
        served_model(opened),
        arguments.base,
        tokenizers={"story": text, "question": text},
        version=arguments.version,
        descriptions=descriptions(opened),
        run={**opened.run.settings, "vocabulary": opened.vocabulary},
    )
    print(path)


def descriptions(opened: Opened) -> dict[str, str]:
    """Returns a line for each input and output, for the model card."""
    limits = {"memories": opened.reader.max_memories, "words": opened.words}
    return {name: text.format(**limits) for name, text in MEANINGS.items()}


def served_model(opened: Opened) -> keras.Model:
    """Returns the model from ids to the answer, its probability and the weights."""
    outputs = opened.model.output
    probabilities = keras.layers.Softmax(dtype="float32")(outputs["logits"])
    likeliest = keras.ops.argmax(outputs["logits"], axis=-1)
    answers = {
        "answer": Naming(opened.vocabulary, name="words")(likeliest),
        "answer_id": likeliest,
        "probability": keras.ops.max(probabilities, axis=-1),
        "probabilities": probabilities,
        "attention": outputs["weights"],
    }
    return keras.Model(opened.model.input, answers, name=opened.run.settings["system"])
