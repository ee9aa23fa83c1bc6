"""Requests to warm a translator up with: made from its tokenizers, so that no data is needed."""

import numpy as np

from keras_attention.export.compilation import Compilation
from keras_attention.export.signatures import INPUTS
from keras_attention.export.tokenizers.base import SPECIAL_IDS
from keras_attention.export.warmup import BATCH_SIZES, Request, text_of_length

TYPICAL_LENGTH = 16  # tokens
# What clients ask for alone, by signature: a set of outputs is warm only once it was fetched.
FETCHED = {"serving_default": (("text",),), "ids": (("ids",),), "greedy": (("text",),)}
# The signatures whose searches XLA compiles, on request.
COMPILED = ("serving_default", "translate_with_alignment", "ids", "greedy")


def translator_requests(translating, compilation: Compilation | None = None) -> list[Request]:
    """Returns requests for every signature, and for every program of a compiled export.

    Args:
        translating: A `Translating`.
        compilation: Of a compiled export; otherwise None.

    Returns:
        List of `Request`: every signature with a batch of 1 and one of 8, and sets of outputs
        that clients often fetch alone.
    """
    compiled = COMPILED if compilation else ()
    requests = []
    for name in INPUTS:
        shapes = [(batch, TYPICAL_LENGTH) for batch in BATCH_SIZES]
        if name in compiled:
            shapes = compilation.shapes()
        for batch, length in shapes:
            requests.append(Request(name, _inputs(name, translating, batch, length)))
        for outputs in FETCHED.get(name, ()):
            inputs = _inputs(name, translating, *shapes[0])
            requests.append(Request(name, inputs, outputs))
    return requests


def _inputs(signature, translating, batch, length):
    """The inputs of a request: `batch` rows of `length` source tokens, the end mark counted."""
    texts = {"text": translating.source, "target": translating.target}
    values = {
        "ids": np.full((batch, length - 1), len(SPECIAL_IDS), np.int32),
        "length": np.full((batch,), length - 1, np.int32),
        "length_penalty": np.full((batch,), 0.6, np.float32),
        "max_length": np.full((batch,), translating.max_length, np.int32),
        "seed": np.arange(batch, dtype=np.int32),
        "temperature": np.ones((batch,), np.float32),
    }
    wanted = [spec.name for spec in INPUTS[signature]]
    for name in set(wanted) & set(texts):
        text = text_of_length(texts[name], length - 1).encode()
        values[name] = np.array([text] * batch, object)
    return {name: values[name] for name in wanted}
