"""The step protocol of all searches and of scoring.

    logits, state, alignment = step(ids, state, memory)

`step` is any callable, `state` any nest of tensors with flat beams on their first axis, and
`memory` any object, which is passed to `step` unchanged. Errors in a user's step are detected
here, where the message can name the argument.
"""

import numbers
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention._utils import validation

# The log-probability of an impossible event. It is finite, so that sums and comparisons stay free
# of NaN. Anything below half of it is treated as impossible and never returned as a hypothesis.
IMPOSSIBLE = -1e9
# The identity element of `max` for float32 logits.
MIN_FLOAT32 = float(np.finfo("float32").min)
INT32 = np.iinfo("int32")


class CheckedStep:
    """A step function bound to its memory, which checks everything it returns.

    Args:
        owner: Name of the function the user called, for error messages.
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`.
        state: Nest of tensors with one entry per batch element.
        memory: Passed to `step` unchanged.

    Attributes:
        batch: The batch size, an int if it is static, otherwise a scalar tensor.
        leaves: The tensors of `state`, a tuple.
    """

    def __init__(self, owner, step, state, memory):
        if not callable(step):
            raise ValueError(
                f"{owner} expects `step` to be a callable `step(ids, state, memory)` that returns "
                f"`(logits, state, alignment)`. Received: step={step!r}"
            )
        self.owner, self.step, self.memory, self.structure = owner, step, memory, state
        self.leaves = tuple(self._check_leaf(leaf) for leaf in keras.tree.flatten(state))
        self.batch = self._infer_batch_size()

    def __call__(self, ids, leaves):
        """Returns float32 logits and alignment, and the leaves of the next state."""
        state = keras.tree.pack_sequence_as(self.structure, list(leaves))
        result = self.step(ids, state, self.memory)
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            raise ValueError(
                f"{self.owner} expects `step` to return `(logits, state, alignment)`. "
                f"Received: {result!r}"
            )
        logits, state, alignment = result
        rows = ids.shape[0]
        self._check_output("logits", logits, rows, "(rows, vocabulary)")
        self._check_output("alignment", alignment, rows, "(rows, source)")
        if logits.shape[1] is None:
            raise ValueError(
                f"{self.owner} expects logits with a static vocabulary size. Set the width of the "
                f"step's last layer. Received: logits.shape={tuple(logits.shape)}"
            )
        leaves = self._next_leaves("step", leaves, state)
        return ops.cast(logits, "float32"), leaves, ops.cast(alignment, "float32")

    def reorder_leaves(self, reorder_cache, leaves, parents):
        """Returns the leaves of the user's `reorder_cache` for `parents`."""
        state = keras.tree.pack_sequence_as(self.structure, list(leaves))
        return self._next_leaves("reorder_cache", leaves, reorder_cache(state, parents))

    def _check_leaf(self, leaf):
        if isinstance(leaf, keras.KerasTensor):
            raise ValueError(
                f"{self.owner} runs on tensors, not inside a functional model. Call it in a "
                f"function or in a layer's `call`. Received: {leaf!r} in `state`"
            )
        if not ops.is_tensor(leaf) and not isinstance(leaf, (np.ndarray, np.generic)):
            raise ValueError(
                f"{self.owner} expects every leaf of `state` to be a tensor of shape (rows, ...). "
                f"Omit leaves that are None, and pass numbers as tensors with one entry per batch "
                f"element. Received: {leaf!r} in `state`"
            )
        leaf = ops.convert_to_tensor(leaf)
        if len(leaf.shape) < 1:
            raise ValueError(
                f"{self.owner} expects the batch as first axis of every leaf of `state`. "
                f"Repeat a scalar for each batch element. Received: a leaf of shape ()"
            )
        return leaf

    def _infer_batch_size(self):
        sources = self.leaves
        if not sources:
            memory = keras.tree.flatten(self.memory)
            tensors = [x for x in memory if ops.is_tensor(x) or isinstance(x, np.ndarray)]
            sources = [x for x in tensors if len(x.shape) > 0][:1]
        if not sources:
            raise ValueError(
                f"{self.owner} infers the batch size from `state` or `memory` and expects a tensor "
                f"in one of them. Received: state={self.structure!r}, memory={self.memory!r}"
            )
        if len({leaf.shape[0] for leaf in sources} - {None}) > 1:
            shapes = ", ".join(str(tuple(leaf.shape)) for leaf in sources)
            raise ValueError(
                f"{self.owner} expects every leaf of `state` to have the same first dimension. "
                f"Received: leaves of shapes {shapes}"
            )
        static = [leaf for leaf in sources if leaf.shape[0] is not None]
        return ops.shape((static or sources)[0])[0]

    def _check_output(self, name, tensor, rows, axes):
        if not ops.is_tensor(tensor):
            raise ValueError(
                f"{self.owner} expects the {name} of `step` to be a tensor of shape {axes}; a step "
                f"without attention returns zeros. Received: {name}={tensor!r}"
            )
        if (
            len(tensor.shape) != 2
            or None not in (rows, tensor.shape[0])
            and (tensor.shape[0] != rows)
        ):
            raise ValueError(
                f"{self.owner} expects the {name} of `step` of shape {axes}, here {rows} rows. "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )

    def _next_leaves(self, name, leaves, state):
        try:
            keras.tree.assert_same_structure(self.structure, state)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.owner} expects `{name}` to return a state of the structure it was passed. "
                f"Received: state={state!r}, expected the structure of {self.structure!r}"
            ) from error
        after = [self._check_leaf(leaf) for leaf in keras.tree.flatten(state)]
        return tuple(self._match_shape(name, *pair) for pair in zip(leaves, after, strict=True))

    def _match_shape(self, name, before, after):
        """Returns `after` with the static shape of `before`, which a compiled loop requires."""
        known = list(zip(before.shape, after.shape, strict=False))
        same_rank = len(before.shape) == len(after.shape)
        if not same_rank or any(None not in pair and pair[0] != pair[1] for pair in known):
            raise ValueError(
                f"{self.owner} expects `{name}` to keep the shape of every state leaf. Allocate "
                f"caches at full length from the start. Received: {tuple(before.shape)} became "
                f"{tuple(after.shape)}"
            )
        dtypes = [keras.backend.standardize_dtype(leaf.dtype) for leaf in (before, after)]
        if dtypes[0] != dtypes[1]:
            raise ValueError(
                f"{self.owner} expects `{name}` to keep the dtype of every state leaf. "
                f"Received: {dtypes[0]} became {dtypes[1]}"
            )
        lost = any(new is None and old is not None for old, new in known)
        return ops.reshape(after, ops.shape(before)) if lost else after


def check_special_ids(owner, start_id, end_id, pad_id):
    """Raises unless the three ids are ints and EOS and padding differ."""
    for name, value in (("start_id", start_id), ("end_id", end_id), ("pad_id", pad_id)):
        validation.check_int_at_least(owner, name, value, 0)
    if end_id == pad_id:
        raise ValueError(
            f"{owner} expects `end_id` and `pad_id` to differ. "
            f"Received: end_id={end_id}, pad_id={pad_id}"
        )


def check_vocabulary(owner, logits, start_id, end_id, pad_id):
    """Raises unless `logits` are wide enough for the special ids."""
    if max(start_id, end_id, pad_id) >= logits.shape[1]:
        raise ValueError(
            f"{owner} expects logits wider than the largest special id. Received: "
            f"logits.shape={tuple(logits.shape)}, start_id={start_id}, end_id={end_id}, "
            f"pad_id={pad_id}"
        )


def check_max_lengths(owner, max_length, max_lengths, batch):
    """Returns the length limit of each element, int32 `(batch,)`, within `1..max_length`."""
    if max_lengths is None:
        return ops.full((batch,), max_length, dtype="int32")
    hint = "int32 with one limit per batch element"
    limits = to_int32_tensor(owner, "max_lengths", max_lengths, 1, hint)
    check_rows(owner, "max_lengths", limits, batch)
    values = get_static_value(limits)
    if values is not None and values.size and (values.min() < 1 or values.max() > max_length):
        raise ValueError(
            f"{owner} expects `max_lengths` between 1 and max_length={max_length}. "
            f"Received: max_lengths={values.tolist()}"
        )
    return ops.clip(limits, 1, max_length)


def check_min_length(owner, min_length, max_length, batch):
    """Returns the minimum lengths, int32 `(batch,)`, or None if there are none."""
    if isinstance(min_length, numbers.Integral) and not isinstance(min_length, bool):
        validation.check_int_at_least(owner, "min_length", min_length, 0)
        if min_length > max_length:
            raise ValueError(
                f"{owner} expects `min_length` to be at most `max_length`. "
                f"Received: min_length={min_length}, max_length={max_length}"
            )
        return ops.full((batch,), min_length, dtype="int32") if min_length > 1 else None
    if len(getattr(min_length, "shape", (1,))) == 0:  # one for the whole batch, as a tensor
        min_length = ops.broadcast_to(min_length, (batch,))
    lengths = to_int32_tensor(owner, "min_length", min_length, 1, "an int, or one int per element")
    check_rows(owner, "min_length", lengths, batch)
    values = get_static_value(lengths)
    if values is not None and values.size and values.max() > max_length:
        raise ValueError(
            f"{owner} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={values.tolist()}, max_length={max_length}"
        )
    return lengths


def to_int32_tensor(owner, name, value, rank, meaning):
    """Returns `value` as an int32 tensor, or raises unless it is ints of that rank.

    Values outside of int32 are clipped, so that they stay out of range.
    """
    tensor = to_int_tensor(owner, name, _clip_to_int32(value), rank, meaning)
    if keras.backend.standardize_dtype(tensor.dtype) in ("int64", "uint32", "uint64"):
        tensor = ops.clip(ops.cast(tensor, "int64"), INT32.min, INT32.max)
    return ops.cast(tensor, "int32")


def _clip_to_int32(value):
    """Returns an array or a list of ints clipped to int32; other values unchanged.

    JAX would wrap 64-bit ints on conversion to a tensor, after which they cannot be checked.
    """
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, NotImplementedError):  # ragged lists, or tensors
        return value
    if array.dtype.kind not in "iu":
        return value
    return np.clip(array, INT32.min, INT32.max).astype("int32")


def to_int_tensor(owner, name, value, rank, meaning):
    """Returns `value` as a tensor of its dtype, or raises unless it is ints of that rank."""
    try:
        tensor = ops.convert_to_tensor(value)
        integral = "int" in keras.backend.standardize_dtype(tensor.dtype)
    except (ValueError, TypeError):
        integral = False
    if not integral:
        raise ValueError(f"{owner} expects `{name}` to be {meaning}. Received: {name}={value!r}")
    validation.check_rank(owner, name, tensor, (rank,))
    return tensor


def check_rows(owner, name, tensor, batch):
    """Raises if the static batch size of `tensor` differs from that of the state."""
    if isinstance(batch, int) and tensor.shape[0] not in (None, batch):
        raise ValueError(
            f"{owner} expects `{name}` with one entry for each of the {batch} batch elements. "
            f"Received: {name}.shape={tuple(tensor.shape)}"
        )


def get_static_value(tensor):
    """Returns the tensor's value as a NumPy array, or None while tracing."""
    if isinstance(tensor, np.ndarray):
        return tensor
    if keras.backend.backend() == "tensorflow" and not hasattr(tensor, "numpy"):
        return None
    try:
        return ops.convert_to_numpy(tensor)
    except TypeError:  # a tracer of JAX
        return None


def write_at(tensor, time, value):
    """Returns `tensor` with `value` at index `time` of its first axis."""
    if 0 in value.shape:
        return tensor
    places, values = ops.reshape(time, (1, 1)), ops.expand_dims(value, 0)
    if None in value.shape:
        # TensorFlow's scatter fails for a tensor without elements (empty batch or source).
        present = ops.minimum(ops.cast(ops.size(value), "int32"), 1)
        places, values = places[:present], values[:present]
    return ops.scatter_update(tensor, places, values)


def top_k(values, count):
    """Returns the `count` largest values of each row, best first, and their indices, int32.

    Equal values are in the order of their indices. Zeros of both signs are equal, though XLA sorts
    -0.0 below 0.0. Adding 0.0 would not help, because TensorFlow and XLA simplify it away.

    Example:

    >>> ops.convert_to_numpy(top_k(ops.array([[-1.0, -0.0, 0.0]]), 2)[1]).tolist()
    [[1, 2]]
    """
    values = ops.where(values == 0.0, 0.0, values)
    if keras.backend.backend() == "torch":  # its top-k selects any of equal values
        places = ops.argsort(-values, axis=-1)[:, :count]
        return ops.take_along_axis(values, places, axis=1), ops.cast(places, "int32")
    values, places = ops.top_k(values, count)
    return values, ops.cast(places, "int32")


def gather_per_row(values, indices):
    """Returns `values[b, indices[b]]`: `(batch, n)` gathered at `(batch, m)`."""
    batch, width = ops.shape(values)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * width
    places = rows + ops.cast(indices, "int32")
    if 0 in places.shape:  # Keras' `take` on JAX loses an axis for an empty batch
        return ops.zeros(places.shape, values.dtype)
    return ops.take(ops.reshape(values, (batch * width,)), places, axis=0)


class SoftmaxDenominator(NamedTuple):
    """A softmax's denominator, `exp(largest) * exp(log_sum)`, of each row, `(rows, 1)`.

    It has two parts, because the sum would lose its digits beside a large common offset.
    """

    largest: object
    log_sum: object

    def __call__(self, logits):
        """Returns the logits minus the logarithm of the denominator."""
        return (logits - self.largest) - self.log_sum


def softmax_denominator(logits):
    """Returns the `SoftmaxDenominator` of rows of logits; finite also where all are -inf."""
    largest = ops.max(logits, axis=-1, keepdims=True, initial=IMPOSSIBLE)
    total = ops.sum(ops.exp(logits - largest), axis=-1, keepdims=True)
    # Only a row of -inf sums to 0; all other sums are at least 1, and NaN stays NaN.
    return SoftmaxDenominator(largest, ops.log(ops.where(total < 1.0, 1.0, total)))


def compute_log_probs(logits, denominator):
    """Returns log-probabilities in `[IMPOSSIBLE, 0]`; NaN becomes IMPOSSIBLE."""
    log_probs = denominator(logits)
    log_probs = ops.where(ops.isnan(log_probs), IMPOSSIBLE, log_probs)
    return ops.clip(log_probs, IMPOSSIBLE, 0.0)
