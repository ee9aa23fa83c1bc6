"""The warm-up file: requests that a server runs before a version goes live.

The first call of a graph takes a hundred times as long as the next ones. So does the first call for
a different set of outputs and, with XLA, for a different shape. A server replays
`assets.extra/tf_serving_warmup_requests` while it loads a version, and refuses the version if a
request fails. `replay_requests` runs the requests in the same way, so an export can test them.
"""

import dataclasses
import functools
import os
import pathlib

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from keras_attention.export._exception_summary import summarize_error
from keras_attention.export.tokenizers.base import SPECIAL_IDS

#: The path of the file in a version, and the number of records that a server reads.
WARMUP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")
MAX_RECORDS = 1000
WARMUP_BATCH_SIZES = (1, 8)


@dataclasses.dataclass(frozen=True)
class WarmupRequest:
    """One warm-up request.

    Attributes:
        signature: Name of the signature.
        inputs: Dict of NumPy arrays by input name.
        outputs: Names of the outputs to fetch; empty for all.
    """

    signature: str
    inputs: dict
    outputs: tuple[str, ...] = ()


def write_requests(directory: str | os.PathLike[str], requests, model: str) -> None:
    """Writes the warm-up file of the version in `directory`.

    Args:
        directory: Directory of the version.
        requests: List of at most 1,000 `WarmupRequest`.
        model: The model's name.

    Raises:
        ValueError: If there are more than 1,000 requests.
    """
    if len(requests) > MAX_RECORDS:
        raise ValueError(
            f"A warm-up file holds at most {MAX_RECORDS} requests; name fewer batch sizes or "
            f"source lengths. Received: {len(requests)} requests"
        )
    path = pathlib.Path(directory) / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            log = prediction_log_pb2.PredictionLog()
            message = log.predict_log.request
            message.model_spec.name = model
            message.model_spec.signature_name = request.signature
            for name, value in request.inputs.items():
                message.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            message.output_filter.extend(request.outputs)
            writer.write(log.SerializeToString(deterministic=True))


def read_requests(directory: str | os.PathLike[str]) -> list[WarmupRequest]:
    """Returns the requests of the version in `directory`; an empty list without a warm-up file.

    Raises:
        ValueError: If a record is damaged; the message has its number.
    """
    path = pathlib.Path(directory) / WARMUP_FILE
    requests = []
    if not path.is_file():
        return requests
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            requests.append(_parse_record(record))
    except (tf.errors.OpError, DecodeError, ValueError) as error:
        reason = summarize_error(error)
        raise ValueError(f"record {len(requests) + 1} cannot be read: {reason}") from error
    return requests


def _parse_record(record):
    log = prediction_log_pb2.PredictionLog.FromString(record)
    if log.WhichOneof("log_type") != "predict_log":
        raise ValueError("it is not a Predict request")
    request = log.predict_log.request
    try:
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
    except (IndexError, KeyError, OverflowError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"an input is not a tensor that has values: {reason}") from error
    signature = request.model_spec.signature_name or "serving_default"
    return WarmupRequest(signature, inputs, tuple(request.output_filter))


@functools.lru_cache(maxsize=64)
def make_text_of_length(tokenizer, tokens: int) -> str:
    """Returns a text that `tokenizer` splits into `tokens` tokens, or slightly fewer.

    Args:
        tokenizer: A `Tokenizer`.
        tokens: Int, at least 0.
    """
    # Draw twice as many ids: the tokenizer may merge the text of several tokens into one.
    ids = np.random.default_rng(0).integers(
        len(SPECIAL_IDS), tokenizer.vocabulary_size, (1, 2 * tokens + 8)
    )
    text = tokenizer.decode(ids).numpy()[0].decode()
    prefixes = [text[:end] for end in np.linspace(0, len(text), 200).astype(int)]
    lengths = tokenizer.encode(tf.constant(prefixes))[1].numpy()
    fitting = np.where(lengths <= tokens, lengths, -1)
    return prefixes[int(np.argmax(fitting))]


def replay_requests(directory: str | os.PathLike[str], requests) -> list[dict]:
    """Returns the outputs of a version for `requests`, as dicts of NumPy arrays.

    The function loads and runs the version as a server does, but without graph optimization, which
    would take most of the time.

    Args:
        directory: Directory of the version, with its manifest.
        requests: List of `WarmupRequest`.

    Raises:
        ServingError: If the version cannot be loaded, or fails to run.
        ValueError: If an output holds an infinity or NaN.
    """
    from keras_attention.export.serving._loaded_version import LoadedVersion  # it needs this module

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    found = []
    with LoadedVersion(directory, config=config) as version:
        for request in requests:
            found.append(version.run(request.signature, request.inputs, request.outputs))
            for name, value in found[-1].items():
                if value.dtype.kind == "f" and not np.isfinite(value).all():
                    where = f"signature {request.signature}, output {name}"
                    raise ValueError(f"{where}: not every number is finite")
    return found
