"""One loaded version of a model, run in a session as TensorFlow Serving does."""

import os
import pathlib
import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_attention.export._digest_manifest import find_manifest_problems
from keras_attention.export._warmup_requests import MAX_RECORDS, WARMUP_FILE, read_requests
from keras_attention.export.serving import _tensor_protos
from keras_attention.export.serving.errors import (
    ServingError,
    check_deadline,
    convert_tensorflow_error,
    invalid_argument,
)

DEFAULT_SIGNATURE = "serving_default"
# A SavedModel lists it among its signatures, but clients must not run it.
INITIALIZATION_SIGNATURE = "__saved_model_init_op"
MAX_OUTPUT_SETS = 16  # prepared sets of outputs of a signature; each keeps a graph of its own


class LoadedVersion:
    """The graph, variables and signatures of one SavedModel.

    It uses a session instead of a loaded `tf.Module`, as TensorFlow Serving does: the session
    computes the requested outputs only, and a deadline stops the computation.

    Args:
        path: Directory of the version.
        report: None, or a function that is called before each step with a line about it and whether
            it may take long. The first warm-up request of a signature and its outputs does.
        config: None, or the `ConfigProto` of the session.

    Raises:
        OSError: If `path` holds no readable SavedModel.
        ServingError: DATA_LOSS, if the files do not match the version's manifest. Nothing is
            loaded then, because TensorFlow may abort the process on a damaged file.
        tf.errors.OpError: If loading the variables or the initialization fails.
        ValueError: If the graph has an op that is not registered.

    Attributes:
        signatures: Dict from names to `SignatureDef` messages.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        report: Callable[[str, bool], None] | None = None,
        config: tf.compat.v1.ConfigProto | None = None,
    ):
        self.path = pathlib.Path(path)
        self._report = report or (lambda step, is_long: None)
        self._report("checking the files", True)
        problems = find_manifest_problems(self.path)
        if problems:
            raise ServingError("DATA_LOSS", "; ".join(problems))
        self._report("loading the graph and the variables", True)
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        try:
            with self._session.graph.as_default(), _SuppressDeprecations():
                graph = tf.compat.v1.saved_model.load(self._session, ["serve"], str(path))
        except BaseException:
            self._session.close()
            raise
        self._session.graph.finalize()
        self.signatures = dict(graph.signature_def)
        self._prepared: dict[str, set[frozenset]] = {}

    def run(
        self,
        signature: str,
        inputs: dict,
        outputs=(),
        deadline: float | None = None,
        prepare: bool = False,
    ) -> dict:
        """Returns the outputs of a signature for a dict of inputs.

        Args:
            signature: Name of a signature, "" for the default one.
            inputs: Dict of arrays, strings as arrays of `bytes` objects.
            outputs: Names of the outputs wanted, all of them if empty.
            deadline: Time on `time.monotonic()` after which the answer is not wanted.
            prepare: Whether to run these outputs alone, as in a warm-up. The first run of a set
                of outputs takes seconds, so a request is answered from a larger set that has
                been run before, where there is one.

        Raises:
            ServingError: If the request does not fit the signature, the deadline passes or
                the model fails.
        """
        definition = self.signature(signature)
        inputs = _complete_inputs(definition, inputs)
        wanted = _resolve_outputs(definition, outputs)
        fetched = self._choose_fetches(signature or DEFAULT_SIGNATURE, wanted, prepare)
        fetches = {name: definition.outputs[name].name for name in fetched}
        feeds = {definition.inputs[name].name: array for name, array in inputs.items()}
        options = _make_run_options(deadline)
        try:
            found = self._session.run(fetches, feeds, options=options)
        except tf.errors.OpError as error:
            raise convert_tensorflow_error(error, self.path) from None
        except (RuntimeError, TypeError, ValueError) as error:
            raise invalid_argument(convert_tensorflow_error(error, self.path).message) from None
        self._prepared.setdefault(signature or DEFAULT_SIGNATURE, set()).add(frozenset(fetched))
        return {name: _make_array(found[name]) for name in wanted}

    def _choose_fetches(self, signature, wanted, alone):
        """Returns the outputs to fetch: a prepared set that includes those wanted, or a new one."""
        prepared = self._prepared.get(signature, ())
        if frozenset(wanted) in prepared or (alone and len(prepared) < MAX_OUTPUT_SETS):
            return wanted
        larger = [outputs for outputs in tuple(prepared) if outputs.issuperset(wanted)]
        if larger:
            return sorted(min(larger, key=len))
        return (
            wanted
            if len(prepared) < MAX_OUTPUT_SETS
            else sorted(self.signatures[signature].outputs)
        )

    def signature(self, name: str):
        """Returns the `SignatureDef` named `name`; "" for the default one."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures or name == INITIALIZATION_SIGNATURE:
            message = f'Serving signature key "{name}" not found.'
            raise ServingError("FAILED_PRECONDITION", message)
        return self.signatures[name]

    def has_two_unknown_sizes(self, name: str, outputs=()) -> bool:
        """Returns whether `run` would fetch an output with two unknown sizes besides the batch.

        A prepared set of outputs may hold more of them than those wanted.
        """
        definition = self.signature(name)
        wanted = _resolve_outputs(definition, outputs)
        fetched = self._choose_fetches(name or DEFAULT_SIGNATURE, wanted, False)
        shapes = [definition.outputs[output].tensor_shape for output in fetched]
        return any(sum(dim.size < 0 for dim in shape.dim[1:]) > 1 for shape in shapes)

    def warm_up(self) -> int:
        """Runs the requests of the warm-up file, each set of outputs alone.

        Returns:
            The number of requests; 0 if there is no such file.

        Raises:
            ServingError: If the file or one of its requests is invalid. TensorFlow Serving does not
                load such a version either.
        """
        try:
            requests = read_requests(self.path)
        except ValueError as error:
            message = convert_tensorflow_error(error, self.path).message
            raise ServingError("DATA_LOSS", f"{WARMUP_FILE}: {message}") from None
        if len(requests) > MAX_RECORDS:
            raise invalid_argument(
                f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) in {WARMUP_FILE}"
            )
        kinds = set()
        for number, request in enumerate(requests, 1):
            kind = request.signature, frozenset(request.outputs)
            step = f"warm-up request {number} of {len(requests)}, {request.signature}"
            self._report(step, kind not in kinds)
            kinds.add(kind)
            try:
                self.run(request.signature, request.inputs, request.outputs, prepare=True)
            except ServingError as error:
                message = f"warm-up request {number}: {error.message}"
                raise ServingError(error.code, message) from None
        return len(requests)

    def close(self) -> None:
        """Frees the variables; `run` must not be called afterwards."""
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _complete_inputs(definition, given_inputs):
    """Returns the inputs with the signature's defaults, after checking dtypes and shapes."""
    defaults = {
        name: _tensor_protos.proto_to_array(default)
        for name, default in definition.defaults.items()
        if name not in given_inputs
    }
    inputs = {**defaults, **given_inputs}
    check_input_names(definition, inputs)
    for name, array in inputs.items():
        _check_input(name, definition.inputs[name], array)
    return inputs


def check_input_names(definition, names) -> None:
    """Raises INVALID_ARGUMENT unless `names` are a signature's inputs; defaults may be missing."""
    given = {*definition.defaults, *names}
    extra = sorted(given - set(definition.inputs))
    missing = sorted(set(definition.inputs) - given)
    if extra or missing:
        raise invalid_argument(
            f"input size does not match signature: {len(given)}!={len(definition.inputs)}. "
            f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
        )


def _check_input(name, info, array: np.ndarray):
    expected, received = tf.as_dtype(info.dtype), _tensor_protos.get_dtype(array)
    if expected != received:
        raise invalid_argument(
            f"input {name} is expected to be {expected.name}. Received: {received.name}"
        )
    shape = tf.TensorShape(info.tensor_shape)
    if not shape.is_compatible_with(array.shape):
        raise invalid_argument(
            f"input {name} is expected to have shape {shape}. Received: {array.shape}"
        )


def _resolve_outputs(definition, outputs):
    for name in outputs:
        if name not in definition.outputs:
            known = ",".join(sorted(definition.outputs))
            raise invalid_argument(
                f"output tensor alias not found in signature: {name} "
                f"Outputs expected to be in the set {{{known}}}."
            )
    if len(set(outputs)) < len(outputs):
        repeated = next(name for name in outputs if list(outputs).count(name) > 1)
        raise invalid_argument(f"duplicate output tensor alias: {repeated}")
    return outputs or sorted(definition.outputs)


def _make_array(value):
    """Returns an output of a session as an array; a session returns scalars as Python objects."""
    if isinstance(value, bytes):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.asarray(value)


def _make_run_options(deadline):
    if deadline is None:
        return None
    check_deadline(deadline, "before the model was run")
    left = max(1, int((deadline - time.monotonic()) * 1000))
    return tf.compat.v1.RunOptions(timeout_in_ms=min(left, 2**31 - 1))


_LOGGING = threading.Lock()


class _SuppressDeprecations:
    """Suppresses TensorFlow's deprecation warning of the loader for sessions."""

    def __enter__(self):
        _LOGGING.acquire()
        self._level = tf.get_logger().level
        tf.get_logger().setLevel("ERROR")

    def __exit__(self, *exception):
        tf.get_logger().setLevel(self._level)
        _LOGGING.release()
