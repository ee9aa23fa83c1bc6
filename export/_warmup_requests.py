"""The warm-up file: requests that a server runs before a version goes live.

The first call of a graph takes a hundred times as long as the next ones. So does the first call for
another set of outputs and, with XLA, for another shape. A server replays
`assets.extra/tf_serving_warmup_requests` while it loads a version, and refuses the version if a
request fails. `replay_requests` runs the requests in the same way, so an export can test them.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_attention.export import _wire_format
from keras_attention.export._error_summary import summarize_error
from keras_attention.export._wire_format import MAX_RECORDS, WARMUP_FILE
from keras_attention.export.tokenizers.base import SPECIAL_IDS

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
            writer.write(
                _wire_format.encode_prediction_log(
                    model, request.signature, request.inputs, request.outputs
                )
            )


def read_requests(directory: str | os.PathLike[str]) -> list[WarmupRequest]:
    """Returns the requests of the version in `directory`; an empty list without a warm-up file.

    Raises:
        ValueError: If a record is damaged; the message has its number.
    """
    path = pathlib.Path(directory) / WARMUP_FILE
    if not path.is_file():
        return []
    requests = []
    records = iter(tf.data.TFRecordDataset(str(path)))
    while True:
        try:
            record = next(records).numpy()
            _, signature, inputs, outputs = _wire_format.decode_prediction_log(record)
        except StopIteration:
            return requests
        except (tf.errors.OpError, ValueError) as error:
            raise ValueError(
                f"record {len(requests) + 1} cannot be read: {summarize_error(error)}"
            ) from error
        requests.append(WarmupRequest(signature, inputs, outputs))


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

    Like a model server, the function loads the version into a session and feeds and fetches tensors
    by name. It uses neither Keras nor other code of this library.

    Args:
        directory: Directory of the version.
        requests: List of `WarmupRequest`.

    Raises:
        ValueError: If a request names a missing signature, input or output, or an output holds an
            infinity or NaN.
        tf.errors.OpError: If the version cannot be loaded, or fails to run.
    """
    with tf.Graph().as_default(), _make_session() as session, _suppress_session_warning():
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(directory))
        return [_run_request(session, graph.signature_def, request) for request in requests]


def _run_request(session, signature_def, request):
    if request.signature not in signature_def:
        raise ValueError(f"there is no signature {request.signature}")
    signature = signature_def[request.signature]
    for kind, named, known in (
        ("inputs", set(request.inputs), set(signature.inputs)),
        ("outputs", set(request.outputs) or set(signature.outputs), set(signature.outputs)),
    ):
        if named - known or (kind == "inputs" and known - named):
            raise ValueError(
                f"signature {request.signature} has the {kind} {', '.join(sorted(known))}. "
                f"Received: {', '.join(sorted(named))}"
            )
    feeds = {signature.inputs[key].name: value for key, value in request.inputs.items()}
    # Fetch all outputs: the first fetch of another set takes a second and runs no other ops.
    fetched = {name: info.name for name, info in sorted(signature.outputs.items())}
    outputs = session.run(fetched, feeds)
    for name, value in outputs.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(
                f"signature {request.signature}, output {name}: not every number is finite"
            )
    return {name: outputs[name] for name in request.outputs or outputs}


def _make_session():
    """Returns a session without graph optimization, which would take most of the time."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return tf.compat.v1.Session(config=config)


@contextlib.contextmanager
def _suppress_session_warning():
    """Suppresses the deprecation warning of sessions."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)
