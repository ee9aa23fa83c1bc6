"""Bodies of REST requests, read as one signature's inputs."""

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from keras_attention.export.serving import ServingError
from keras_attention.export.serving._json_requests import parse, parse_inputs, signature_name


def infos(**dtypes):
    return {
        name: meta_graph_pb2.TensorInfo(dtype=dtype.as_datatype_enum)
        for name, dtype in dtypes.items()
    }


TEXT = infos(text=tf.string)
FLOATS = infos(x=tf.float32)
SEVERAL = infos(x=tf.float32, n=tf.int32)


def arrays(body, signature):
    return parse_inputs(parse(body), signature)


def error(body, signature):
    with pytest.raises(ServingError) as raised:
        document = parse(body)
        signature_name(document)
        parse_inputs(document, signature)
    assert raised.value.code == "INVALID_ARGUMENT"
    return raised.value.message
