"""`python -m examples export` for the tasks of the Neural Turing Machine."""

import keras

from examples.algorithms.opened import open_run
from examples.commands import arguments as shared
from keras_attention import NTM
from keras_attention.export import export_model, versions

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/copy served           writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `inputs` (batch, time, channels); the answer holds `outputs`, the probability of
a 1, and for a machine with a memory `read_weights` and `write_weights` over time.
"""

MEANINGS = {
    "inputs": "the sequence that is shown, blanks where the machine answers",
    "outputs": "probabilities of a 1 at every time",
    "read_weights": "where each read head looked",
    "write_weights": "where each write head looked",
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


def served_model(opened) -> keras.Model:
    """Returns the model from inputs to probabilities and, where there are any, weights."""
    inputs = keras.Input((None, opened.task.input_dim), name="inputs")
    model, answers = opened.model, {}
    if "ntm" in [layer.name for layer in model.layers]:
        # A new layer around the trained cell: in Keras one layer cannot be called in two models
        # with different numbers of outputs.
        trained = model.get_layer("ntm")
        layer = NTM(trained.cell, dtype=trained.dtype_policy, name="ntm")
        logits, history = layer(inputs, return_auxiliary_outputs=True)
        answers = {name: history[name] for name in ("read_weights", "write_weights")}
    else:
        logits = model({"inputs": inputs})
    answers["outputs"] = keras.layers.Activation("sigmoid", dtype="float32")(logits)
    return keras.Model({"inputs": inputs}, answers, name=opened.run.settings["system"])
