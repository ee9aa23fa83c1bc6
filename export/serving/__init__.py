"""A development server for exported models, and a client for it and for TensorFlow Serving.

`Client` asks a model server over gRPC or REST. `Server` answers as a TensorFlow model server
would, for a laptop that has none: `python -m keras_attention.export.serve DIR`.
"""

from keras_attention.export.serving.client import Client
from keras_attention.export.serving.errors import ServingError
from keras_attention.export.serving.server import Server

__all__ = ["Client", "Server", "ServingError"]
