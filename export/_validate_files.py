"""Checks the variables, assets and warm-up requests of a version without loading it."""

import hashlib
import pathlib

import numpy as np
import tensorflow as tf

from keras_attention.export._exception_summary import summarize_error
from keras_attention.export._warmup_requests import MAX_RECORDS, WARMUP_FILE, read_requests

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
MIN_DUPLICATE_BYTES = 1024  # smaller variables are often equal


def find_variable_problems(path, card):
    """Yields the problems of the variables.

    Args:
        path: Directory of the version.
        card: Its model card, or None.
    """
    if not (path / "variables" / "variables.index").is_file():
        yield "variables/variables.index is missing"
        return
    try:
        reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
        values = {
            name: np.asarray(reader.get_tensor(name))  # a scalar is not an array
            for name in sorted(reader.get_variable_to_shape_map())
            if name != OBJECT_GRAPH
        }
    except (tf.errors.OpError, IndexError, OSError, RuntimeError, ValueError) as error:
        yield f"variables cannot be read: {summarize_error(error)}"
        return
    size = sum(value.nbytes for value in values.values())
    expected = (card or {}).get("parameters", {}).get("bytes")
    if expected is None:  # without a size, find duplicates by content
        yield from _find_duplicate_variables(values)
    elif size != expected:
        yield f"variables hold {size} bytes, the model's parameters {expected}"


def _find_duplicate_variables(values):
    seen = {}
    for name, value in values.items():
        if (
            value.nbytes < MIN_DUPLICATE_BYTES
            or value.dtype.kind not in "fiu"
            or (value == value.flat[0]).all()
        ):
            continue
        key = (value.dtype, value.shape, hashlib.sha256(value.tobytes()).digest())
        if key in seen:
            yield f"variables {seen[key]} and {name} are equal: stored twice"
        seen.setdefault(key, name)


def find_asset_problems(path, graph):
    """Yields the assets that are missing or outside the version."""
    for asset in graph.asset_file_def:
        kinds = (pathlib.PurePosixPath, pathlib.PureWindowsPath)
        names = [kind(asset.filename) for kind in kinds]
        if any(name.is_absolute() or ".." in name.parts for name in names):
            yield f"asset {asset.filename} is outside the version"
        elif not (path / "assets" / asset.filename).is_file():
            yield f"assets/{asset.filename} is missing"


def find_warmup_problems(path, signature_def):
    """Yields the warm-up requests that would make a server refuse the version.

    Args:
        path: Directory of the version.
        signature_def: Mapping from names to `SignatureDef`.
    """
    try:
        requests = read_requests(path)
    except ValueError as error:
        yield f"{WARMUP_FILE}: {error}"
        return
    if len(requests) > MAX_RECORDS:
        yield f"{WARMUP_FILE}: {len(requests)} requests, a server reads {MAX_RECORDS}"
    for number, request in enumerate(requests, start=1):
        for problem in _find_request_problems(request, signature_def):
            yield f"{WARMUP_FILE}: request {number}, {problem}"


def _find_request_problems(request, signature_def):
    if request.signature not in signature_def:
        yield f"there is no signature {request.signature}"
        return
    signature = signature_def[request.signature]
    for name in sorted(set(request.outputs) - set(signature.outputs)):
        yield f"signature {request.signature} has no output {name}"
    for name in sorted(set(request.outputs)):
        if list(request.outputs).count(name) > 1:
            yield f"output {name} is named twice"
    for name in sorted({*request.inputs, *signature.defaults} ^ set(signature.inputs)):
        known = name in signature.inputs
        yield f"input {name} is missing" if known else f"there is no input {name}"
    for name in sorted(set(request.inputs) & set(signature.inputs)):
        value, info = request.inputs[name], signature.inputs[name]
        dtype = tf.string if value.dtype.kind in "OSU" else tf.as_dtype(value.dtype)
        if dtype != tf.as_dtype(info.dtype):
            wanted = tf.as_dtype(info.dtype).name
            yield f"input {name} is {dtype.name}, the signature takes {wanted}"
        if not tf.TensorShape(info.tensor_shape).is_compatible_with(value.shape):
            shape = tf.TensorShape(info.tensor_shape)
            yield f"input {name} has the shape {value.shape}, the signature takes {shape}"
