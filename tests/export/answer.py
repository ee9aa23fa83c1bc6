"""Answers requests from exported versions; run by the tests in a process of its own.

    python answer.py REQUESTS ANSWERS

`REQUESTS` is a JSON list of `[path, signature, inputs]`, `ANSWERS` a JSON object with the
outputs of each and the packages the process has loaded. Strings travel as base64.
"""

import base64
import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops, as a model server has them


def tensor_of(value):
    if value["dtype"] == "string":
        flat = [base64.b64decode(text) for text in value["flat"]]
        return tf.reshape(tf.constant(flat, tf.string), value["shape"])
    return tf.reshape(tf.constant(value["flat"], value["dtype"]), value["shape"])


def json_of(tensor):
    flat = tf.reshape(tensor, [-1]).numpy().tolist()
    if tensor.dtype == tf.string:
        flat = [base64.b64encode(text).decode() for text in flat]
    return {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list(), "flat": flat}


def array_of(value):
    return np.asarray(tensor_of(value))


def main():
    with open(sys.argv[1]) as file:
        requests = json.load(file)
    loaded, outputs = {}, []
    for path, signature, inputs in requests:
        if path not in loaded:
            loaded[path] = tf.saved_model.load(path)
        function = loaded[path].signatures[signature]
        found = function(**{name: tensor_of(value) for name, value in inputs.items()})
        outputs.append({name: json_of(tensor) for name, tensor in found.items()})
    packages = sorted({name.partition(".")[0] for name in sys.modules})
    with open(sys.argv[2], "w") as file:
        json.dump({"packages": packages, "outputs": outputs}, file)


if __name__ == "__main__":
    main()
