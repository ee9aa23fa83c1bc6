"""The warm-up file of a version, replayed before the version answers anyone."""

import os
import pathlib

import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_attention.export.serving import tensors
from keras_attention.export.serving.errors import ServingError, invalid, missing_package
from keras_attention.export.wire import MOST_RECORDS, WARM_UP_FILE


def warm_up(version, path: str | os.PathLike) -> int:
    """Runs the requests of `<path>/assets.extra/tf_serving_warmup_requests`.

    Args:
        version: A `LoadedVersion`.
        path: Directory of the version.

    Returns:
        The number of requests; 0 where there is no such file.

    Raises:
        ServingError: If the file or one of its requests is wrong. The model server, too,
            does not load such a version.
    """
    file = pathlib.Path(path) / WARM_UP_FILE
    if not file.is_file():
        return 0
    count = 0
    for request in requests_of(file):
        count += 1
        if count > MOST_RECORDS:
            raise invalid(
                f"Number of warmup records exceeds the maximum ({MOST_RECORDS}) at {file}"
            )
        inputs = {name: tensors.array_of(proto) for name, proto in request.inputs.items()}
        try:
            version.run(request.model_spec.signature_name, inputs, tuple(request.output_filter))
        except ServingError as error:
            raise ServingError(error.code, f"warm-up request {count}: {error.message}") from None
    return count


def requests_of(file: str | os.PathLike):
    """Yields the `PredictRequest` of every record of a warm-up file.

    Raises:
        ServingError: If a record is damaged or is no `PredictionLog` of a Predict request.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        raise missing_package("tensorflow-serving-api") from None
    try:
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            log = prediction_log_pb2.PredictionLog.FromString(record)
            if log.WhichOneof("log_type") != "predict_log":
                raise invalid(f"{file} has a record that is no Predict request")
            yield log.predict_log.request
    except (DecodeError, tf.errors.DataLossError) as error:
        raise ServingError("DATA_LOSS", f"Failed to parse warmup record: {error}") from None
