"""The step protocol, as every search and the scorer see it.

    logits, state, alignment = step(ids, state, memory)

`step` is any callable, `state` any nest of tensors whose leading axis is the rows being
decoded, and `memory` whatever the step wants back untouched. What a user's step may get
wrong is checked here, where it can still be named.
"""

import numbers
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import checks

# The log-probability of what cannot happen. Finite, so that sums and comparisons of it stay
# free of NaN; anything below half of it does not exist and is never returned as a hypothesis.
IMPOSSIBLE = -1e9
# No logit is lower: what the largest of none is.
NOTHING = float(np.finfo("float32").min)
INT32 = np.iinfo("int32")


class CheckedStep:
    """A step function bound to its memory, with everything it returns checked.

    Args:
        owner: Name of the function the user called, for error messages.
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`.
        state: Nest of tensors with one row a batch row.
        memory: Passed to `step` untouched.

    Attributes:
        batch: Number of rows, an int where it is static, otherwise a scalar tensor.
        leaves: The tensors of `state`, a tuple.
    """

    def __init__(self, owner, step, state, memory):
        if not callable(step):
            raise ValueError(
                f"{owner} expects `step` to be a callable `step(ids, state, memory)` that returns "
                f"`(logits, state, alignment)`. Received: step={step!r}"
            )
        self.owner, self.step, self.memory, self.structure = owner, step, memory, state
        self.leaves = tuple(self._tensor(leaf) for leaf in keras.tree.flatten(state))
        self.batch = self._batch()

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
                f"{self.owner} expects logits with a static vocabulary size. Give the step's last "
                f"layer a fixed width. Received: logits.shape={tuple(logits.shape)}"
            )
        leaves = self._next_leaves("step", leaves, state)
        return ops.cast(logits, "float32"), leaves, ops.cast(alignment, "float32")

    def reordered(self, reorder, leaves, parents):
        """Returns the leaves of the beams that grew from `parents` as the user's `reorder` does."""
        state = keras.tree.pack_sequence_as(self.structure, list(leaves))
        return self._next_leaves("reorder", leaves, reorder(state, parents))

    def _tensor(self, leaf):
        if isinstance(leaf, keras.KerasTensor):
            raise ValueError(
                f"{self.owner} runs on tensors, not inside a functional model. Call it in a "
                f"function or in a layer's `call`. Received: {leaf!r} in `state`"
            )
        if not ops.is_tensor(leaf) and not isinstance(leaf, (np.ndarray, np.generic)):
            raise ValueError(
                f"{self.owner} expects every leaf of `state` to be a tensor of shape (rows, ...). "
                f"Leave out what is None and pass numbers as tensors with one entry a row. "
                f"Received: {leaf!r} in `state`"
            )
        leaf = ops.convert_to_tensor(leaf)
        if len(leaf.shape) < 1:
            raise ValueError(
                f"{self.owner} expects every leaf of `state` to have the rows as its first axis. "
                f"Repeat a scalar once a row. Received: a leaf of shape ()"
            )
        return leaf

    def _batch(self):
        sources = self.leaves
        if not sources:
            memory = keras.tree.flatten(self.memory)
            tensors = [x for x in memory if ops.is_tensor(x) or isinstance(x, np.ndarray)]
            sources = [x for x in tensors if len(x.shape) > 0][:1]
        if not sources:
            raise ValueError(
                f"{self.owner} reads the batch size from `state` or `memory` and expects a tensor "
                f"in one of them. Received: state={self.structure!r}, memory={self.memory!r}"
            )
        if len({leaf.shape[0] for leaf in sources} - {None}) > 1:
            shapes = ", ".join(str(tuple(leaf.shape)) for leaf in sources)
            raise ValueError(
                f"{self.owner} expects every leaf of `state` to have the same number of rows. "
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
                f"{self.owner} expects `{name}` to return a state of the structure it was given. "
                f"Received: state={state!r}, expected the structure of {self.structure!r}"
            ) from error
        after = [self._tensor(leaf) for leaf in keras.tree.flatten(state)]
        return tuple(self._matched(name, *pair) for pair in zip(leaves, after, strict=True))

    def _matched(self, name, before, after):
        """`after` with the static shape of `before`, which a compiled loop insists on."""
        known = list(zip(before.shape, after.shape, strict=False))
        same_rank = len(before.shape) == len(after.shape)
        if not same_rank or any(None not in pair and pair[0] != pair[1] for pair in known):
            raise ValueError(
                f"{self.owner} expects `{name}` to keep the shape of every state leaf. Give caches "
                f"their full length from the start. Received: {tuple(before.shape)} became "
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
    """Raises unless the three ids are ints and the end can be told from padding."""
    for name, value in (("start_id", start_id), ("end_id", end_id), ("pad_id", pad_id)):
        checks.int_at_least(owner, name, value, 0)
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


def row_limits(owner, max_length, row_max_length, batch):
    """Returns each row's own length limit, int32 of shape `(batch,)`, within `1..max_length`."""
    if row_max_length is None:
        return ops.full((batch,), max_length, dtype="int32")
    hint = "int32 with one limit a row"
    limits = int_tensor(owner, "row_max_length", row_max_length, 1, hint)
    check_rows(owner, "row_max_length", limits, batch)
    values = concrete(limits)
    if values is not None and values.size and (values.min() < 1 or values.max() > max_length):
        raise ValueError(
            f"{owner} expects `row_max_length` between 1 and max_length={max_length}. "
            f"Received: row_max_length={values.tolist()}"
        )
    return ops.clip(limits, 1, max_length)


def minimum_lengths(owner, min_length, max_length, batch):
    """Returns None where no row has a minimum, otherwise int32 of shape `(batch,)`."""
    if isinstance(min_length, numbers.Integral) and not isinstance(min_length, bool):
        checks.int_at_least(owner, "min_length", min_length, 0)
        if min_length > max_length:
            raise ValueError(
                f"{owner} expects `min_length` to be at most `max_length`. "
                f"Received: min_length={min_length}, max_length={max_length}"
            )
        return ops.full((batch,), min_length, dtype="int32") if min_length > 1 else None
    if len(getattr(min_length, "shape", (1,))) == 0:  # one for all rows, as a tensor
        min_length = ops.broadcast_to(min_length, (batch,))
    lengths = int_tensor(owner, "min_length", min_length, 1, "an int, or one int a row")
    check_rows(owner, "min_length", lengths, batch)
    values = concrete(lengths)
    if values is not None and values.size and values.max() > max_length:
        raise ValueError(
            f"{owner} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={values.tolist()}, max_length={max_length}"
        )
    return lengths


def int_tensor(owner, name, value, rank, meaning):
    """Returns `value` as an int32 tensor, or raises unless it is ints of that rank.

    What an int32 cannot hold becomes the nearest that it can: out of range it stays.
    """
    tensor = ints(owner, name, _within_int32(value), rank, meaning)
    if keras.backend.standardize_dtype(tensor.dtype) in ("int64", "uint32", "uint64"):
        tensor = ops.clip(ops.cast(tensor, "int64"), INT32.min, INT32.max)
    return ops.cast(tensor, "int32")


def _within_int32(value):
    """An array or a list of ints held to what an int32 can be; anything else as it is.

    JAX would wrap ints of 64 bits on the way to a tensor, where nothing can be asked of them.
    """
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, NotImplementedError):  # rows of several lengths, or tensors
        return value
    if array.dtype.kind not in "iu":
        return value
    return np.clip(array, INT32.min, INT32.max).astype("int32")


def ints(owner, name, value, rank, meaning):
    """Returns `value` as a tensor of its dtype, or raises unless it is ints of that rank."""
    try:
        tensor = ops.convert_to_tensor(value)
        integral = "int" in keras.backend.standardize_dtype(tensor.dtype)
    except (ValueError, TypeError):
        integral = False
    if not integral:
        raise ValueError(f"{owner} expects `{name}` to be {meaning}. Received: {name}={value!r}")
    checks.rank(owner, name, tensor, (rank,))
    return tensor


def check_rows(owner, name, tensor, batch):
    """Raises if `tensor` is known to have another number of rows than the state."""
    if isinstance(batch, int) and tensor.shape[0] not in (None, batch):
        raise ValueError(
            f"{owner} expects `{name}` with one row for each of the {batch} rows of the state. "
            f"Received: {name}.shape={tuple(tensor.shape)}"
        )


def concrete(tensor):
    """Returns the tensor's value as a NumPy array, or None while a graph is being traced."""
    if isinstance(tensor, np.ndarray):
        return tensor
    if keras.backend.backend() == "tensorflow" and not hasattr(tensor, "numpy"):
        return None
    try:
        return ops.convert_to_numpy(tensor)
    except TypeError:  # a tracer of JAX
        return None


def write(history, time, value):
    """Returns `history` with `value` at index `time` of its first axis."""
    if 0 in value.shape:
        return history
    places, values = ops.reshape(time, (1, 1)), ops.expand_dims(value, 0)
    if None in value.shape:
        # TensorFlow's scatter refuses to write to a tensor without elements (no rows, no source).
        present = ops.minimum(ops.cast(ops.size(value), "int32"), 1)
        places, values = places[:present], values[:present]
    return ops.scatter_update(history, places, values)


def top_k(values, count):
    """Returns the `count` largest values of each row, best first, and their places, int32.

    Of equal values the first comes first. Zeros of both signs are equal, though XLA sorts -0.0
    below 0.0; adding 0.0 would not help, which TensorFlow and XLA both simplify away.

    Example:

    >>> ops.convert_to_numpy(top_k(ops.array([[-1.0, -0.0, 0.0]]), 2)[1]).tolist()
    [[1, 2]]
    """
    values = ops.where(values == 0.0, 0.0, values)
    if keras.backend.backend() == "torch":  # whose own takes any of equal values
        places = ops.argsort(-values, axis=-1)[:, :count]
        return ops.take_along_axis(values, places, axis=1), ops.cast(places, "int32")
    values, places = ops.top_k(values, count)
    return values, ops.cast(places, "int32")


def pick(values, indices):
    """Returns `values[row, indices[row]]`: `(batch, n)` read at `(batch, m)`."""
    batch, width = ops.shape(values)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * width
    places = rows + ops.cast(indices, "int32")
    if 0 in places.shape:  # Keras' `take` on JAX loses an axis where there is no row
        return ops.zeros(places.shape, values.dtype)
    return ops.take(ops.reshape(values, (batch * width,)), places, axis=0)


class Normalizer(NamedTuple):
    """A softmax's denominator, `exp(largest) * exp(log_sum)`, of each row, `(rows, 1)`.

    In two parts: beside a large offset that all logits share, the sum would lose its digits.
    """

    largest: object
    log_sum: object

    def __call__(self, logits):
        """Returns logits of these rows less the logarithm of the denominator."""
        return (logits - self.largest) - self.log_sum


def normalizers(logits):
    """Returns the `Normalizer` of rows of logits; finite also where all are -inf."""
    largest = ops.max(logits, axis=-1, keepdims=True, initial=IMPOSSIBLE)
    total = ops.sum(ops.exp(logits - largest), axis=-1, keepdims=True)
    # Nothing but -inf adds up to 0; all other sums are at least 1, and a NaN stays one.
    return Normalizer(largest, ops.log(ops.where(total < 1.0, 1.0, total)))


def log_probs_of(logits, normalizer):
    """Returns log-probabilities in `[IMPOSSIBLE, 0]`; a NaN is as impossible as can be."""
    log_probs = normalizer(logits)
    log_probs = ops.where(ops.isnan(log_probs), IMPOSSIBLE, log_probs)
    return ops.clip(log_probs, IMPOSSIBLE, 0.0)
