"""One loaded version of a model, run the way the model server runs it: a session and fetches."""

import os
import pathlib
import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_attention.export import text_ops  # noqa: F401  registers TensorFlow Text's ops
from keras_attention.export.manifest import check_manifest
from keras_attention.export.serving import tensors
from keras_attention.export.serving.errors import (
    ServingError,
    check_deadline,
    invalid,
    of_tensorflow,
)

DEFAULT_SIGNATURE = "serving_default"
# Listed among the signatures of a SavedModel, but not for clients to run.
INITIALIZATION = "__saved_model_init_op"
FEW_ROWS = 16  # for which outputs that nobody asked for cost little
MOST_SETS = 16  # of outputs of a signature that are prepared: each keeps a graph of its own


def _no_report(step: str) -> None:
    pass


class LoadedVersion:
    """The graph, variables and signatures of one SavedModel.

    A session rather than a loaded `tf.Module`, because the model server has one: only the
    outputs asked for are computed, and a deadline ends the computation itself.

    Args:
        path: Directory of the version.
        report: Called with a line that says what is done next.

    Raises:
        OSError: If `path` holds no readable SavedModel.
        ServingError: DATA_LOSS, if the files are not those of the version's manifest. Nothing is
            loaded then: TensorFlow may end the process over a damaged file.
        tf.errors.OpError: If the variables or the initialization fail.
        ValueError: If the graph has an op that is not registered.

    Attributes:
        signatures: Dict from names to `SignatureDef` messages.
    """

    def __init__(self, path: str | os.PathLike, report: Callable[[str], None] = _no_report):
        self.path = pathlib.Path(path)
        report("checking the files")
        findings = check_manifest(self.path)
        if findings:
            raise ServingError("DATA_LOSS", "; ".join(findings))
        report("loading the graph and the variables")
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        try:
            with self._session.graph.as_default(), _without_deprecations():
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
                of outputs takes seconds; a request of few rows is answered from a larger set
                that has been run before, where there is one.

        Raises:
            ServingError: If the request does not fit the signature, the deadline passes or
                the model fails.
        """
        definition = self.signature(signature)
        inputs = _complete_inputs(definition, inputs)
        wanted = _wanted(definition, outputs)
        many = max((len(array) for array in inputs.values() if array.ndim), default=0) > FEW_ROWS
        fetched = self._fetched(signature or DEFAULT_SIGNATURE, wanted, prepare or many)
        fetches = {name: definition.outputs[name].name for name in fetched}
        feeds = {definition.inputs[name].name: array for name, array in inputs.items()}
        options = _options(deadline)
        try:
            found = self._session.run(fetches, feeds, options=options)
        except tf.errors.OpError as error:
            raise of_tensorflow(error, self.path) from None
        except (RuntimeError, TypeError, ValueError) as error:
            raise invalid(of_tensorflow(error, self.path).message) from None
        self._prepared.setdefault(signature or DEFAULT_SIGNATURE, set()).add(frozenset(fetched))
        return {name: _array(found[name]) for name in wanted}

    def _fetched(self, signature, wanted, alone):
        """The outputs to run for those wanted: a set that is prepared, or a new one."""
        prepared = self._prepared.get(signature, ())
        if frozenset(wanted) in prepared or (alone and len(prepared) < MOST_SETS):
            return wanted
        larger = [outputs for outputs in tuple(prepared) if outputs.issuperset(wanted)]
        if larger:
            return sorted(min(larger, key=len))
        return wanted if len(prepared) < MOST_SETS else sorted(self.signatures[signature].outputs)

    def signature(self, name: str):
        """Returns the `SignatureDef` called `name`, "" for the default one."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures or name == INITIALIZATION:
            message = f'Serving signature key "{name}" not found.'
            raise ServingError("FAILED_PRECONDITION", message)
        return self.signatures[name]

    def has_two_lengths(self, name: str, outputs=()) -> bool:
        """Returns whether an output of a signature has two unknown sizes beside its rows."""
        definition = self.signature(name)
        shapes = [
            definition.outputs[output].tensor_shape for output in _wanted(definition, outputs)
        ]
        return any(sum(dim.size < 0 for dim in shape.dim[1:]) > 1 for shape in shapes)

    def close(self) -> None:
        """Frees the variables; nothing may run any more."""
        self._session.close()


def _complete_inputs(definition, given):
    """The inputs as arrays of the signature's dtypes and ranks, defaults filled in."""
    defaults = {
        name: tensors.array_of(default)
        for name, default in definition.defaults.items()
        if name not in given
    }
    inputs = {**defaults, **given}
    extra = sorted(set(inputs) - set(definition.inputs))
    missing = sorted(set(definition.inputs) - set(inputs))
    if extra or missing:
        raise invalid(
            f"input size does not match signature: {len(inputs)}!={len(definition.inputs)}. "
            f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
        )
    for name, array in inputs.items():
        _check(name, definition.inputs[name], array)
    return inputs


def _check(name, info, array: np.ndarray):
    expected, received = tf.as_dtype(info.dtype), tensors.dtype_of(array)
    if expected != received:
        raise invalid(f"input {name} is expected to be {expected.name}. Received: {received.name}")
    shape = tf.TensorShape(info.tensor_shape)
    if not shape.is_compatible_with(array.shape):
        raise invalid(f"input {name} is expected to have shape {shape}. Received: {array.shape}")


def _wanted(definition, outputs):
    for name in outputs:
        if name not in definition.outputs:
            known = ",".join(sorted(definition.outputs))
            raise invalid(
                f"output tensor alias not found in signature: {name} "
                f"Outputs expected to be in the set {{{known}}}."
            )
    if len(set(outputs)) < len(outputs):
        repeated = next(name for name in outputs if list(outputs).count(name) > 1)
        raise invalid(f"duplicate output tensor alias: {repeated}")
    return outputs or sorted(definition.outputs)


def _array(value):
    """What a session gives for one output: not an array where it is a scalar."""
    if isinstance(value, bytes):
        array = np.empty((), dtype=object)
        array[()] = value
        return array
    return np.asarray(value)


def _options(deadline):
    if deadline is None:
        return None
    check_deadline(deadline, "before the model was run")
    left = max(1, int((deadline - time.monotonic()) * 1000))
    return tf.compat.v1.RunOptions(timeout_in_ms=min(left, 2**31 - 1))


_LOGGING = threading.Lock()


class _without_deprecations:
    """Keeps TensorFlow from advising a loader that has no session."""

    def __enter__(self):
        _LOGGING.acquire()
        self._level = tf.get_logger().level
        tf.get_logger().setLevel("ERROR")

    def __exit__(self, *exception):
        tf.get_logger().setLevel(self._level)
        _LOGGING.release()
