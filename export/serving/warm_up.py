"""The warm-up file of a version, replayed before the version answers anyone."""

import itertools
import os
import pathlib
from collections.abc import Callable

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_attention.export.serving import tensors
from keras_attention.export.serving.errors import (
    ServingError,
    invalid,
    missing_package,
    of_tensorflow,
)
from keras_attention.export.serving.loaded import DEFAULT_SIGNATURE
from keras_attention.export.wire import MOST_RECORDS, WARM_UP_FILE


def warm_up(version, path: str | os.PathLike, report: Callable[..., None] | None = None) -> int:
    """Runs the requests of `<path>/assets.extra/tf_serving_warmup_requests`.

    Args:
        version: A `LoadedVersion`.
        path: Directory of the version.
        report: Called before each request with a line that says which it is, and whether it is
            the first of its signature and outputs, which takes the longest.

    Returns:
        The number of requests; 0 where there is no such file.

    Raises:
        ServingError: If the file or one of its requests is wrong. The model server, too,
            does not load such a version.
    """
    file = pathlib.Path(path) / WARM_UP_FILE
    if not file.is_file():
        return 0
    requests = list(itertools.islice(requests_of(file), MOST_RECORDS + 1))
    if len(requests) > MOST_RECORDS:
        raise invalid(
            f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) in {WARM_UP_FILE}"
        )
    kinds = set()
    for number, request in enumerate(requests, 1):
        signature, outputs = request.model_spec.signature_name, tuple(request.output_filter)
        if report is not None:
            kind = signature, frozenset(outputs)
            step = f"warm-up request {number} of {len(requests)}, {signature or DEFAULT_SIGNATURE}"
            report(step, kind not in kinds)
            kinds.add(kind)
        inputs = {name: tensors.array_of(proto) for name, proto in request.inputs.items()}
        try:
            version.run(signature, inputs, outputs, prepare=True)
        except ServingError as error:
            raise ServingError(error.code, f"warm-up request {number}: {error.message}") from None
    return len(requests)


def requests_of(file: str | os.PathLike):
    """Yields the `PredictRequest` of every record of a warm-up file.

    Raises:
        ServingError: If a record is damaged or is no `PredictionLog` of a Predict request.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        raise missing_package("tensorflow-serving-api") from None
    file = pathlib.Path(file)
    try:
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if log.WhichOneof("log_type") != "predict_log":
                raise invalid(f"{WARM_UP_FILE} has a record that is no Predict request")
            yield log.predict_log.request
    except (DecodeError, tf.errors.DataLossError) as error:
        message = f"Failed to parse warmup record: {of_tensorflow(error, file.parent).message}"
        raise ServingError("DATA_LOSS", message) from None
