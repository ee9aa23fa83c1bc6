"""`python -m examples export` for recognizing digits."""

import keras
from keras import ops

from examples.commands import arguments as shared
from examples.digits.recognition.opened import Opened, open_run
from keras_attention.export import export_model, versions

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/digits served         writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `image` (batch, 28, 28), 0 for background and 1 for ink. The answer holds `digit`,
its `probability`, the `probabilities` of all ten, and `locations` (batch, glimpses, 2), where the
model looked: x and y from -1, left and top, to 1.
"""

MEANINGS = {
    "image": "a picture of a digit, 0 for background and 1 for ink",
    "digit": "the likeliest digit",
    "probability": "its probability",
    "probabilities": "those of the digits 0 to 9",
    "locations": "x and y of each glimpse's middle, from -1 (left, top) to 1 (right, bottom)",
}


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
        version=arguments.version,
        descriptions=MEANINGS,
        run=opened.run.settings,
    )
    print(path)


def served_model(opened: Opened) -> keras.Model:
    """Returns the model from a picture to a digit, without anything random."""
    image = keras.Input(opened.model.input["image"].shape[1:], name="image")
    nothing = ops.zeros_like(image[:, 0, :2])  # (batch, 2)
    noise = ops.repeat(nothing[:, None, :], opened.glimpses - 1, axis=1)
    outputs = opened.model({"image": image, "start": nothing, "noise": noise})
    probabilities = keras.layers.Softmax(dtype="float32")(outputs["logits"])
    answers = {
        "digit": ops.argmax(probabilities, axis=-1),
        "probability": ops.max(probabilities, axis=-1),
        "probabilities": probabilities,
        "locations": outputs["locations"],
    }
    return keras.Model({"image": image}, answers, name=opened.run.settings["system"])
