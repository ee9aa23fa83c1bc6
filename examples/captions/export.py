"""`python -m examples export` for captioners of scenes."""

import keras
import tensorflow as tf

from examples.captions.opened import Opened, add_beam, open_run
from examples.captions.words import GUIDE_WORDS
from examples.commands import arguments as shared
from examples.naming import Naming
from keras_attention.export import TextInput, export_model, versions
from keras_attention.export.tokenizers import WordTokenizer

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/captions served       writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `image` (batch, side, side, 1), 0 for background to 255 for ink, and, where a
sentence says where to look, `guide` (batch), that text. The answer holds `caption` (batch), text,
its `score`, `words` (batch, time) and `length`, and `attention` (batch, time, rows, columns): what
was looked at for each word. A guided captioner looks once, (batch, 1, rows, columns).
"""

MEANINGS = {
    "image": "pictures, 0 to 255",
    "guide": "a sentence that names what the caption is to be about",
    "caption": "what the picture shows",
    "words": 'its words, the end mark "</s>" and "" behind it',
    "length": "how many words there are, without the end mark",
    "score": "log-probability of the caption",
    "attention": "how much each location was attended to",
}


class Spelling(keras.layers.Layer):
    """Turns ids into text and words, in an exported graph.

    Args:
        tokenizer: A `WordTokenizer`.
    """

    def __init__(self, tokenizer: WordTokenizer, **kwargs):
        super().__init__(**kwargs)
        words = [word.decode() for word in _all_words(tokenizer)]
        self._name, self._end = Naming(words, name="words"), words[3]
        self.built = True

    def call(self, ids):
        words = self._name(ids)
        spoken = tf.where(words == self._end, "", words)
        return {
            "caption": tf.strings.strip(tf.strings.reduce_join(spoken, axis=1, separator=" ")),
            "words": words,
        }

    def compute_output_spec(self, ids):
        return {
            "caption": keras.KerasTensor(ids.shape[:1], "string"),
            "words": keras.KerasTensor(ids.shape, "string"),
        }


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)
    add_beam(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run, arguments.beam_width)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    model = served_model(opened)
    guide = {"guide": TextInput(opened.tokenizer, max_length=GUIDE_WORDS)}
    path = export_model(
        model,
        arguments.base,
        tokenizers=guide if opened.guided else None,
        version=arguments.version,
        descriptions={
            name: text for name, text in MEANINGS.items() if opened.guided or name != "guide"
        },
        run=opened.run.settings,
    )
    print(path)


def served_model(opened: Opened) -> keras.Model:
    """Returns the model from pictures to captions as text, their scores and the weights."""
    model = opened.captioner
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in model.input.items()
    }
    found = model(inputs)
    looks = found["weights"].shape[1]
    grid = keras.layers.Reshape((looks, *opened.locations), dtype="float32", name="grid")
    outputs = Spelling(opened.tokenizer, name="spelling")(found["ids"])
    outputs |= {name: found[name] for name in ("length", "score")}
    outputs["attention"] = grid(found["weights"])
    return keras.Model(inputs, outputs, name=opened.run.settings["system"])


def _all_words(tokenizer):
    """The word of each id, "" for padding."""
    return tokenizer.ids_to_tokens([range(tokenizer.vocabulary_size)]).numpy()[0]
