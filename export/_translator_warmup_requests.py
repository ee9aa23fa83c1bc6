"""Makes the warm-up requests of a translator from its tokenizers; needs no data."""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from keras_attention.export._signatures import list_inputs
from keras_attention.export._streamed_signatures import STREAMED
from keras_attention.export._warmup_requests import (
    WARMUP_BATCH_SIZES,
    WarmupRequest,
    make_text_of_length,
)
from keras_attention.export.compilation import XLABuckets
from keras_attention.export.tokenizers.base import FIRST_TOKEN_ID

TYPICAL_LENGTH = 16  # tokens
# Outputs that clients fetch alone, by signature: a server warms up each set of outputs separately.
FETCHED_ALONE = {"serving_default": (("text",),), "ids": (("ids",),), "greedy": (("text",),)}
# The signatures whose searches XLA compiles if `xla_buckets` is given.
COMPILED_SIGNATURES = ("serving_default", "translate_with_alignment", "ids", "greedy")


def make_translator_requests(
    pipeline, signatures: Iterable[str], xla_buckets: XLABuckets | None = None
) -> list[WarmupRequest]:
    """Returns requests for every signature and for every program of a compiled export.

    Args:
        pipeline: A `TranslationPipeline`.
        signatures: Names of the signatures; streamed signatures are skipped, see
            `make_streamed_requests`.
        xla_buckets: The `XLABuckets` of a compiled export, else None.

    Returns:
        List of `WarmupRequest`. For each signature one request per batch size in
        `WARMUP_BATCH_SIZES`, or per bucket if XLA compiles it; and one for each set of outputs in
        `FETCHED_ALONE`.
    """
    compiled = COMPILED_SIGNATURES if xla_buckets else ()
    requests = []
    inputs = list_inputs(pipeline)
    for name in (name for name in signatures if name in inputs):
        shapes = [(batch, TYPICAL_LENGTH) for batch in WARMUP_BATCH_SIZES]
        if name in compiled:
            shapes = xla_buckets.shapes()
        for batch, length in shapes:
            requests.append(WarmupRequest(name, _make_inputs(name, pipeline, batch, length)))
        for outputs in FETCHED_ALONE.get(name, ()):
            values = _make_inputs(name, pipeline, *shapes[0])
            requests.append(WarmupRequest(name, values, outputs))
    return requests


def make_streamed_requests(pipeline, functions) -> list[WarmupRequest]:
    """Returns a request for each part of the streamed signatures among `functions`.

    Args:
        pipeline: A `TranslationPipeline`.
        functions: The `tf.function`s by signature name; `<name>_start` is run once to obtain a
            state.
    """
    requests = []
    for name in STREAMED:
        if f"{name}_start" not in functions:
            continue
        # Both streamed signatures take `text` alone, as `greedy` does.
        inputs = _make_inputs("greedy", pipeline, 1, TYPICAL_LENGTH)
        found = functions[f"{name}_start"](tf.constant(inputs["text"]))
        state = {key: array.numpy() for key, array in found.items() if key.startswith("state_")}
        requests.append(WarmupRequest(f"{name}_start", inputs))
        steps = {"steps": np.ones((1,), np.int32)}
        requests.append(WarmupRequest(f"{name}_advance", steps | state))
        requests.append(WarmupRequest(f"{name}_finish", state))
    return requests


def _make_inputs(signature, pipeline, batch, length):
    """Returns the inputs of a request: `batch` examples of `length` source tokens with EOS."""
    values = {
        "ids": np.full((batch, length - 1), FIRST_TOKEN_ID, np.int32),
        "length": np.full((batch,), length - 1, np.int32),
        "length_penalty": np.full((batch,), 0.6, np.float32),
        "max_length": np.full((batch,), pipeline.max_length, np.int32),
        "seed": np.arange(batch, dtype=np.int32),
        "temperature": np.ones((batch,), np.float32),
        "phrases": np.full((batch,), b"", object),
    }
    wanted = [spec.name for spec in list_inputs(pipeline)[signature]]
    for name in wanted:
        if name not in values:  # a text
            tokenizer = pipeline.target if name == "target" else pipeline.source
            text = make_text_of_length(tokenizer, length - 1).encode()
            values[name] = np.array([text] * batch, object)
    return {name: values[name] for name in wanted}
