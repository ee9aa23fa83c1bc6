"""A development server for exported models, and a client for it and for TensorFlow Serving.

`Client` sends requests to a model server over gRPC or REST. `Server`, which
`python -m keras_attention.export.serve DIR` starts, has the interfaces of TensorFlow Serving, for
machines on which TensorFlow Serving is not installed.
"""

from keras_attention.export.serving.client import Client
from keras_attention.export.serving.errors import ServingError
from keras_attention.export.serving.server import Server

__all__ = ["Client", "Server", "ServingError"]
