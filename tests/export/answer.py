"""Answers requests from exported versions as a server does: in a session, by tensor names.

    python answer.py REQUESTS ANSWERS

run in a process of its own, `REQUESTS` a JSON list of `[path, signature, inputs]`, `ANSWERS` a
JSON object with the outputs of each and the packages the process has loaded. Strings travel as
base64. Nothing of Keras or of this library takes part.
"""

import base64
import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops, as a model server has them


class Loaded:
    """A version that answers; unoptimized, since optimizing takes longer than all requests."""

    def __init__(self, path):
        config = tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        self.session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        logger = tf.get_logger()
        logger.setLevel("ERROR")  # that sessions are deprecated is nothing to servers
        with self.session.graph.as_default():
            graph = tf.compat.v1.saved_model.load(self.session, ["serve"], str(path))
        logger.setLevel("WARNING")
        self.signatures = graph.signature_def

    def ask(self, signature, **inputs):
        """All outputs of `signature`, a dict of NumPy arrays."""
        signature = self.signatures[signature]
        fetched = {name: info.name for name, info in sorted(signature.outputs.items())}
        fed = {signature.inputs[name].name: value for name, value in inputs.items()}
        return self.session.run(fetched, fed)


def json_of(array):
    array = np.asarray(array)
    flat, dtype = array.ravel().tolist(), array.dtype.name
    if dtype == "object":
        flat, dtype = [base64.b64encode(text).decode() for text in flat], "string"
    return {"dtype": dtype, "shape": array.shape, "flat": flat}


def array_of(value):
    flat, dtype = value["flat"], value["dtype"]
    if dtype == "string":
        flat, dtype = [base64.b64decode(text) for text in flat], object
    return np.array(flat, dtype).reshape(value["shape"])


def main():
    with open(sys.argv[1]) as file:
        requests = json.load(file)
    loaded, outputs = {}, []
    for path, signature, inputs in requests:
        if path not in loaded:
            loaded[path] = Loaded(path)
        inputs = {name: array_of(value) for name, value in inputs.items()}
        answer = loaded[path].ask(signature, **inputs)
        outputs.append({name: json_of(array) for name, array in answer.items()})
    packages = sorted({name.partition(".")[0] for name in sys.modules})
    with open(sys.argv[2], "w") as file:
        json.dump({"packages": packages, "outputs": outputs}, file)


if __name__ == "__main__":
    main()
