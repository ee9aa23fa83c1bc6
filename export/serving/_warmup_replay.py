"""Replays the warm-up file of a version before the version becomes available."""

import itertools
import os
import pathlib
from collections.abc import Callable

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_attention.export._wire_format import MAX_RECORDS, WARMUP_FILE
from keras_attention.export.serving import _tensor_protos
from keras_attention.export.serving._loaded_version import DEFAULT_SIGNATURE
from keras_attention.export.serving.errors import (
    ServingError,
    convert_tensorflow_error,
    invalid_argument,
    missing_package_error,
)


def warm_up(
    version, path: str | os.PathLike[str], report: Callable[..., None] | None = None
) -> int:
    """Runs the requests of `<path>/assets.extra/tf_serving_warmup_requests`.

    Args:
        version: A `LoadedVersion`.
        path: Directory of the version.
        report: Function that is called before each request with a line about it, and whether it is
            the first one with its signature and outputs, which takes longest.

    Returns:
        The number of requests; 0 if there is no such file.

    Raises:
        ServingError: If the file or one of its requests is invalid. TensorFlow Serving does not
            load such a version either.
    """
    file = pathlib.Path(path) / WARMUP_FILE
    if not file.is_file():
        return 0
    requests = list(itertools.islice(read_predict_requests(file), MAX_RECORDS + 1))
    if len(requests) > MAX_RECORDS:
        raise invalid_argument(
            f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) in {WARMUP_FILE}"
        )
    kinds = set()
    for number, request in enumerate(requests, 1):
        signature, outputs = request.model_spec.signature_name, tuple(request.output_filter)
        if report is not None:
            kind = signature, frozenset(outputs)
            step = f"warm-up request {number} of {len(requests)}, {signature or DEFAULT_SIGNATURE}"
            report(step, kind not in kinds)
            kinds.add(kind)
        inputs = {
            name: _tensor_protos.proto_to_array(proto) for name, proto in request.inputs.items()
        }
        try:
            version.run(signature, inputs, outputs, prepare=True)
        except ServingError as error:
            raise ServingError(error.code, f"warm-up request {number}: {error.message}") from None
    return len(requests)


def read_predict_requests(file: str | os.PathLike[str]):
    """Yields the `PredictRequest` of every record of a warm-up file.

    Raises:
        ServingError: If a record is damaged or is not a `PredictionLog` of a Predict request.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        raise missing_package_error("tensorflow-serving-api") from None
    file = pathlib.Path(file)
    try:
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if log.WhichOneof("log_type") != "predict_log":
                raise invalid_argument(f"{WARMUP_FILE} has a record that is not a Predict request")
            yield log.predict_log.request
    except (DecodeError, tf.errors.DataLossError) as error:
        message = (
            f"Failed to parse warmup record: {convert_tensorflow_error(error, file.parent).message}"
        )
        raise ServingError("DATA_LOSS", message) from None
