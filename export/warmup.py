"""The warm-up file: requests that a model server answers before it takes the version live.

The first call of a graph takes a hundred times as long as the next ones, and so does the first
call for another set of outputs or, compiled, of another shape. A server replays
`assets.extra/tf_serving_warmup_requests` while it loads. If one of the requests fails the
version is not loaded at all; hence `replay`, which answers them as a server does.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_attention.export import wire
from keras_attention.export.reasons import reason
from keras_attention.export.tokenizers.base import SPECIAL_IDS
from keras_attention.export.wire import MOST_RECORDS, WARM_UP_FILE

BATCH_SIZES = (1, 8)


@dataclasses.dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        signature: Name of the signature.
        inputs: Dict of NumPy arrays, as the signature names them.
        outputs: Names of the outputs to fetch, none for all.
    """

    signature: str
    inputs: dict
    outputs: tuple[str, ...] = ()


def write_requests(directory: str | os.PathLike, requests, model: str) -> None:
    """Writes the warm-up file of the version in `directory`.

    Args:
        directory: Of the version.
        requests: List of `Request`, at most 1,000.
        model: The model's name.

    Raises:
        ValueError: If there are more than 1,000.
    """
    if len(requests) > MOST_RECORDS:
        raise ValueError(
            f"A warm-up file holds at most {MOST_RECORDS} requests; name fewer batch sizes or "
            f"source lengths. Received: {len(requests)} requests"
        )
    path = pathlib.Path(directory) / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            writer.write(
                wire.prediction_log(model, request.signature, request.inputs, request.outputs)
            )


def read_requests(directory: str | os.PathLike) -> list[Request]:
    """Returns the requests of the version in `directory`, none if it has no warm-up file.

    Raises:
        ValueError: If the file is damaged, with the number of the record.
    """
    path = pathlib.Path(directory) / WARM_UP_FILE
    if not path.is_file():
        return []
    requests = []
    records = iter(tf.data.TFRecordDataset(str(path)))
    while True:
        try:
            record = next(records).numpy()
            _, signature, inputs, outputs = wire.read_prediction_log(record)
        except StopIteration:
            return requests
        except (tf.errors.OpError, ValueError) as error:
            raise ValueError(
                f"record {len(requests) + 1} cannot be read: {reason(error)}"
            ) from error
        requests.append(Request(signature, inputs, outputs))


@functools.lru_cache(maxsize=64)
def text_of_length(tokenizer, tokens: int) -> str:
    """Returns a text that `tokenizer` splits into `tokens` tokens, or a few less.

    Args:
        tokenizer: A `Tokenizer`.
        tokens: Int, at least 0.
    """
    # Twice the tokens: what was several tokens may, written out, be one.
    ids = np.random.default_rng(0).integers(
        len(SPECIAL_IDS), tokenizer.vocabulary_size, (1, 2 * tokens + 8)
    )
    text = tokenizer.decode(ids).numpy()[0].decode()
    beginnings = [text[:end] for end in np.linspace(0, len(text), 200).astype(int)]
    lengths = tokenizer.encode(tf.constant(beginnings))[1].numpy()
    fitting = np.where(lengths <= tokens, lengths, -1)
    return beginnings[int(np.argmax(fitting))]


def replay(directory: str | os.PathLike, requests) -> list[dict]:
    """Returns the answers of a version to `requests`: dicts of NumPy arrays.

    The version is loaded and asked as a model server does it, by the names of its tensors in a
    session; nothing of Keras or of this library takes part.

    Args:
        directory: Of the version.
        requests: List of `Request`.

    Raises:
        ValueError: If a request names what the version lacks, or an answer holds an infinite
            number or a NaN.
        tf.errors.OpError: If the version cannot be loaded, or cannot answer.
    """
    with tf.Graph().as_default(), _session() as session, _quiet():
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(directory))
        return [_answer(session, graph.signature_def, request) for request in requests]


def _answer(session, signature_def, request):
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
    fed = {signature.inputs[key].name: value for key, value in request.inputs.items()}
    # All outputs, whatever was asked for: a set of them that was not fetched before costs a
    # second, and its ops are among these.
    fetched = {name: info.name for name, info in sorted(signature.outputs.items())}
    answer = session.run(fetched, fed)
    for name, value in answer.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(
                f"signature {request.signature}, output {name}: not every number is finite"
            )
    return {name: answer[name] for name in request.outputs or answer}


def _session():
    """A session that runs the graph as it stands: to optimize it first takes most of the time."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return tf.compat.v1.Session(config=config)


@contextlib.contextmanager
def _quiet():
    """Without the remark that sessions belong to TensorFlow 1: servers use nothing else."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(level)
