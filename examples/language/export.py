"""`python -m examples export` for language models."""

import keras
from keras import ops

from examples.commands import arguments as shared
from examples.data.encoding import END_ID
from examples.language.opened import Opened, open_run
from keras_attention.export import TextInput, export_model, versions
from keras_attention.export.tokenizers.base import BOS_ID

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/captions served       writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `text` (batch). The answer holds `tokens` (batch, time), the ids of the text and of
its end, `log_probabilities` (batch, time), of each given those before it, and `log_probability`
(batch), their sum: the likelier of two texts has the larger one. Of a text with more tokens than
the run's --max-tokens `is_cut` is 1: its first tokens are read, no end follows them, and the sum
is that of a beginning. An LSTMN also tells `attention` (batch, layers, time, time + 1).
"""

MEANINGS = {
    "text": "a line of text, in the tokens the run was trained on, of which the first {} are read",
    "tokens": "ids of the text's tokens and of its end, 3, which a text that is cut off has not; 0 "
    "is padding",
    "log_probabilities": "natural logarithm of the probability of each token given those before",
    "log_probability": "their sum, that of the text; where `is_cut`, that of its beginning, not to "
    "be compared with those of whole texts",
    "is_cut": "1 where a text has more than {} tokens, else 0: what stands beyond is not read",
    "attention": "how much the step that predicts a token attended to the empty state (slot 0) and "
    "to the states that read the start mark (slot 1), the first token (slot 2), ...",
}


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    model = served_model(opened)
    path = export_model(
        model,
        arguments.base,
        # A token and an end more than are read: the model takes both off again.
        tokenizers={"text": TextInput(opened.tokenizer, opened.max_tokens + 2, add_eos=True)},
        version=arguments.version,
        descriptions={
            name: MEANINGS[name].format(opened.max_tokens) for name in ("text", *model.output)
        },
        run=opened.run.settings,
    )
    print(path)


def served_model(opened: Opened) -> keras.Model:
    """Returns the model from the ids of a text and its end to what they cost.

    Of more ids than `max_tokens` and the end it reads `max_tokens`, without an end.
    """
    text, limit = keras.Input([None], dtype="int32", name="text"), opened.max_tokens
    last = text[:, limit : limit + 1]
    target = ops.concatenate([text[:, :limit], ops.where(ops.equal(last, END_ID), last, 0)], axis=1)
    is_cut = ops.any((last > 0) & ops.not_equal(last, END_ID), axis=1)
    start = ops.full_like(target[:, :1], BOS_ID)
    shifted = ops.concatenate([start, target[:, :-1]], axis=1)
    outputs = opened.model({"ids": ops.where(target > 0, shifted, 0)})
    log_probs = ops.log_softmax(outputs["logits"], axis=-1)
    chosen = ops.take_along_axis(log_probs, target[:, :, None], axis=-1)[:, :, 0]
    chosen = ops.where(target > 0, chosen, 0.0)
    answers = {
        "tokens": ops.add(target, 0),
        "log_probabilities": chosen,
        "log_probability": ops.sum(chosen, axis=1),
        "is_cut": ops.cast(is_cut, "int32"),
    }
    if opened.has_attention:
        answers["attention"] = outputs["weights"]
    return keras.Model({"text": text}, answers, name=opened.run.settings["system"])
