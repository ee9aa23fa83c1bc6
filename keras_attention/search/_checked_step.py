"""The step protocol of all searches and of scoring.

    logits, state, alignment = step(ids, state, memory)

`step` is any callable, `state` any nest of tensors with flat beams on their first axis, and
`memory` any object, which is passed to `step` unchanged. Errors in a user's step are detected
here, where the message can name the argument.
"""

import keras
import numpy as np
from keras import ops

from keras_attention._utils.shapes import get_shape


def find_capacity(step, state):
    """Returns for how many steps `state` has room, as the owner of `step` says; None for any."""
    get_capacity = getattr(getattr(step, "__self__", step), "get_capacity", None)
    return None if get_capacity is None else get_capacity(state)


def check_capacity(owner, step, state, num_steps):
    """Raises if `state` has room for fewer steps: a compiled step beyond them raises nothing."""
    capacity = find_capacity(step, state)
    if capacity is not None and capacity < num_steps:
        raise ValueError(
            f"{owner} was given a `state` for at most {capacity} steps. Pass max_length={num_steps}"
            f" to what made it, for example to `decoder.start`. Received: {num_steps} steps"
        )


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
        return get_shape((static or sources)[0])[0]

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
        return ops.reshape(after, get_shape(before)) if lost else after
