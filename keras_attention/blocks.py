"""Loops over blocks of an array that is too large to be held at once.

Nothing here is differentiated: the functions that use these loops write their gradient out
(`keras.ops.custom_gradient`) and compute the blocks again in it.
"""

import contextlib
import contextvars

from keras import ops

_FEW = contextvars.ContextVar("few_queries", default=False)


@contextlib.contextmanager
def few_queries():
    """Says of what is called inside that its queries are few, though their number is unknown.

    Beams are: a step of a search would run a loop of blocks for what one operation does.
    """
    token = _FEW.set(True)
    try:
        yield
    finally:
        _FEW.reset(token)


def queries_are_few() -> bool:
    """Returns whether this is called inside `few_queries`."""
    return _FEW.get()


def run_blocks(count, step, state):
    """Runs `state = step(index, state)` for the indices 0 to `count - 1`, one after the other.

    Args:
        count: Int or int tensor.
        step: Callable `(index, list of tensors) -> list of tensors` of the same shapes.
        state: Tensors before the first step.

    Returns:
        The tensors after the last step.
    """

    def body(index, *state):
        state = step(index, list(state))
        # A graph would start the next blocks while this one is at work and hold them all. So the
        # next index waits for a number of this block: it is always one more.
        number = ops.sum(state[0][(slice(0, 1),) * len(state[0].shape)])
        return (index + ops.where(number > 0, 1, 1), *state)

    start = ops.zeros((), dtype="int32")
    loop = ops.while_loop(lambda index, *_: index < count, body, (start, *state))
    return list(loop[1:])


def padded(tensor, size: int, axis: int):
    """Returns `tensor` with zeros (False) at the end of `axis`, to a multiple of `size`."""
    length = ops.shape(tensor)[axis]
    missing = -length % size
    if isinstance(missing, int) and missing == 0:
        return tensor
    shape = list(ops.shape(tensor))
    shape[axis] = missing
    return ops.concatenate([tensor, ops.zeros(shape, dtype=tensor.dtype)], axis=axis)


def split_axis(tensor, size: int, axis: int):
    """Returns `tensor` padded, with `axis` split into `(blocks, size)`."""
    tensor = padded(tensor, size, axis)
    shape = list(ops.shape(tensor))
    return ops.reshape(tensor, (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :]))


def with_row(tensor, index, value):
    """Returns `tensor` with `value` as `tensor[index]`, in place where the backend can."""
    return ops.scatter_update(tensor, ops.reshape(index, (1, 1)), value[None])


def with_added(tensor, index, value):
    """Returns `tensor` with `value` added to `tensor[index]`, in place where the backend can."""
    value = ops.cast(value, tensor.dtype)[None]
    return ops.scatter_update(tensor, ops.reshape(index, (1, 1)), value, reduction="add")


def upstream_gradient(arguments, upstream):
    """Returns the gradient of the one output; backends pass it by position or by name."""
    return arguments[0] if upstream is None else upstream
