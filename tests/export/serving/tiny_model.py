"""A SavedModel that costs nothing and has one signature for every rule of serving."""

import pathlib

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from keras_attention.export import _warmup_requests
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export.serving import _tensor_protos

TEXT = tf.TensorSpec([None], tf.string, name="text")
X = tf.TensorSpec([None, None], tf.float32, name="x")
N = tf.TensorSpec([None], tf.int32, name="n")
SCALAR = tf.TensorSpec([None], tf.float32, name="x")
KINDS = [
    tf.TensorSpec([None], dtype, name=dtype.name)
    for dtype in (tf.bool, tf.float64, tf.int8, tf.int64, tf.uint8, tf.uint32, tf.uint64)
]


class TinyModel(tf.Module):
    """`serving_default` appends `mark` to a text; the other signatures are rules to be tested."""

    def __init__(self, mark):
        super().__init__()
        self.mark = tf.Variable(mark, dtype=tf.string)

    def signatures(self):
        def function(method, *inputs):
            return tf.function(method, input_signature=inputs)

        return {
            "serving_default": function(self.append_mark, TEXT),
            "several": function(self.several, X, N),
            "numbers": function(self.numbers, SCALAR),
            "kinds": function(self.kinds, *KINDS),
            "bytes": function(self.bytes, TEXT),
            "unequal": function(self.unequal, TEXT),
            "slow": function(self.slow, N),
            "failing": function(self.fail, N),
        }

    def append_mark(self, text):
        return {"text": tf.strings.join([text, self.mark])}

    def several(self, x, n):
        return {"double": 2.0 * x, "sum": tf.reduce_sum(x, axis=1) + tf.cast(n, tf.float32)}

    def numbers(self, x):
        return {"log": tf.math.log(x)}

    def kinds(self, *values):
        return {kind.name: value for kind, value in zip(KINDS, values, strict=True)}

    def bytes(self, text):
        return {"raw_bytes": text, "length": tf.strings.length(text)}

    def unequal(self, text):
        return {"one": text, "two": tf.concat([text, text], axis=0)}

    def slow(self, n):
        """Counts to `n`, one cancellable op after the other."""
        one = tf.ones_like(n)
        (count,) = tf.while_loop(
            lambda count: tf.reduce_any(count < n),
            lambda count: (count + one,),
            (tf.zeros_like(n),),
        )
        return {"count": count}

    def fail(self, n):
        with tf.control_dependencies([tf.debugging.assert_less(n, 3, message="three or more")]):
            return {"n": tf.identity(n)}


def write_version(base, version: int, mark: str, warm_up=()) -> pathlib.Path:
    """Writes `<base>/<version>` beside its name, renames it and returns its path."""
    base = pathlib.Path(base)
    model, beside = TinyModel(mark), base / f".{version}.part"
    tf.saved_model.save(model, str(beside), signatures=model.signatures())
    write_warm_up(beside, warm_up)
    beside.rename(base / str(version))
    return base / str(version)


def write_warm_up(path, requests) -> None:
    """Writes the warm-up file, if there are requests: `(signature, inputs, output_filter)` each.

    The manifest follows, and holds what the version is then.
    """
    if requests:
        requests = [_warmup_requests.WarmupRequest(*request) for request in requests]
        _warmup_requests.write_requests(path, requests, "tiny")
    write_manifest(path)


def predict_request(signature, inputs, output_filter=(), model="tiny"):
    """Returns a `PredictRequest` for arrays."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(_tensor_protos.array_to_proto(array))
    request.output_filter.extend(output_filter)
    return request
