"""Computing an array in blocks: when it is worth it, how large a block is, and the loops.

The sizes named here are numbers of values, 4 bytes each in float32.

Nothing here is differentiated: functions that use these loops bring a custom gradient
(`keras_attention.written_gradient`) and compute the blocks again in it.
"""

import functools
import math
import sys

import keras
from keras import ops

from keras_attention.products import compiled_by_xla

#: Values in a block of a compiled function. From 2^18 to 2^22 blocks of additive scores take the
#: same time, forward and backward: below, the loop shows, above, the cache is too small.
BLOCK = 2**20
#: Eagerly, where an operation costs 20 microseconds before it begins, a block is larger, and so
#: large that a loop has MAX_EAGER_TURNS at most.
EAGER_BLOCK = 2**22
MAX_EAGER_TURNS = 32
#: On a GPU a launch takes 3 microseconds, in which it would compute 2^21 values and more.
GPU_BLOCK = 2**26
FEW = 64  # of so many rows in a block, one that is left empty is noticed


def execution(tensor) -> str:
    """Returns how an operation on this tensor would be run: "eager", "graph" or "xla"."""
    if keras.backend.backend() == "jax":
        return "xla" if isinstance(tensor, sys.modules["jax"].core.Tracer) else "eager"
    if keras.backend.backend() != "tensorflow" or sys.modules["tensorflow"].executing_eagerly():
        return "eager"
    return "xla" if compiled_by_xla() else "graph"


@functools.lru_cache
def on_gpu() -> bool:
    """Returns whether there is a GPU, which then does the work."""
    return any("gpu" in device for device in keras.distribution.list_devices())


def have_loops() -> bool:
    """Returns whether the backend has what blocks need: loops and custom gradients of tensors."""
    return keras.backend.backend() in ("tensorflow", "jax")


def count_values(*sizes):
    """Returns the product of sizes, an int or, where one is a tensor, an int64 tensor."""
    known = math.prod(size for size in sizes if isinstance(size, int))
    unknown = [ops.cast(size, "int64") for size in sizes if not isinstance(size, int)]
    return functools.reduce(lambda product, size: product * size, unknown, known)


def choose(condition, if_true, if_false):
    """Returns `if_true()` or `if_false()`; both are traced where the condition is a tensor."""
    if isinstance(condition, bool):
        return if_true() if condition else if_false()
    return ops.cond(condition, if_true, if_false)


def block_size(values, tensor):
    """Returns how many of `values` numbers a block holds, an int or an int64 tensor."""
    if on_gpu():
        return GPU_BLOCK
    if execution(tensor) == "eager":
        return max(EAGER_BLOCK, 2 * values // MAX_EAGER_TURNS)
    return BLOCK


class Tiles:
    """How the rows of a batch are taken: several in a block, or one in several parts.

    Args:
        batch: Int or int tensor, the rows.
        length: Int or int tensor, the axis of a row that is cut into parts.
        values: Int or int64 tensor, the values that one position of that axis takes.
        block: Int or int64 tensor, the values that a block holds. It holds up to twice as many,
            so that blocks are of nearly one size.

    Attributes:
        rows: Rows in a block, 1 where a row has several parts.
        blocks: Blocks of rows.
        part: Positions in a part.
        parts: Parts of a row, 1 where a block has several rows.
    """

    def __init__(self, batch, length, values, block):
        self.batch, self.length = batch, length
        row = count_values(length, values)
        self.rows, self.blocks = _share(batch, count_values(batch, row) // block)
        self.part, self.parts = _share(length, row // block)

    def split(self, tensor):
        """Returns `(batch, length, ...)` as `(blocks, parts, rows, part, ...)`, 0 at the end."""
        tensor = pad(pad(tensor, self.rows * self.blocks, 0), self.part * self.parts, 1)
        # Either `rows` or `parts` is 1, so nothing is transposed.
        shape = (self.blocks, self.parts, self.rows, self.part, *ops.shape(tensor)[2:])
        return ops.reshape(tensor, shape)

    def join(self, tensor):
        """Returns `(blocks, parts, rows, part, ...)` as `(batch, length, ...)`."""
        shape = (self.blocks * self.rows, self.parts * self.part, *ops.shape(tensor)[4:])
        return ops.reshape(tensor, shape)[: self.batch, : self.length]

    def split_rows(self, tensor):
        """Returns `(batch, ...)` as `(blocks, rows, ...)`, with zeros at the end."""
        tensor = pad(tensor, self.rows * self.blocks, 0)
        return ops.reshape(tensor, (self.blocks, self.rows, *ops.shape(tensor)[1:]))

    def join_rows(self, tensor):
        """Returns `(blocks, rows, ...)` as `(batch, ...)`."""
        shape = (self.blocks * self.rows, *ops.shape(tensor)[2:])
        return ops.reshape(tensor, shape)[: self.batch]


def _share(count, pieces):
    """Returns the size of a piece and how many there are, for about so many pieces of `count`.

    Where the numbers are known, the size is one that leaves little of the last piece empty.
    """
    if not (isinstance(count, int) and isinstance(pieces, int)):
        one, count = ops.ones((), "int64"), ops.cast(count, "int64")
        pieces = ops.maximum(pieces, one)
        size = ops.maximum(-(-count // pieces), one)
        pieces = ops.maximum(-(-count // size), one)
        return ops.cast(size, "int32"), ops.cast(pieces, "int32")
    size = max(1, -(-count // max(1, pieces)))
    if size < FEW:
        size = min(range(size, (size - 1) // 2, -1), key=lambda size: -count % size)
    return size, max(1, -(-count // size))


def map_blocks(step, count, shapes, like):
    """Returns what `step(index)` returns for the indices 0 to `count - 1`, stacked.

    One index is taken after the other, and nothing is held but the results.

    Args:
        step: Callable `index -> list of tensors`.
        count: Int or int tensor, at least 1.
        shapes: List of the shapes of these tensors.
        like: A tensor of their dtype.
    """
    if _is_short(count, like):
        results = [step(index) for index in range(int(count))]
        return [ops.stack(tensors) for tensors in zip(*results, strict=True)]
    # On TensorFlow a scan stacks as many results as it carries tensors, each of one's shape.
    carried = [ops.zeros(shape, like.dtype) for shape in shapes]
    indices = ops.arange(count, dtype="int32")
    return ops.scan(lambda carried, index: (carried, step(index)), carried, indices)[1]


def run_blocks(count, step, state):
    """Returns what `step(index, state)` makes of `state` for the indices 0 to `count - 1`.

    Args:
        count: Int or int tensor, at least 1.
        step: Callable `(index, list of tensors) -> list of tensors` of the same shapes.
        state: Tensors before the first step. A graph copies them at each step, so they are
            small beside what a step computes; `map_blocks` copies nothing.
    """
    if _is_short(count, state[0]):
        for index in range(int(count)):
            state = step(index, state)
        return state

    def body(index, *state):
        state = step(index, list(state))
        # A graph would start the next blocks while this one is at work and hold them all. So the
        # next index waits for a value of this block, which adds nothing.
        value = ops.sum(state[0][(slice(0, 1),) * len(state[0].shape)])
        never = ops.logical_and(value > 0, value < 0)
        return (index + 1 + ops.cast(never, "int32"), *state)

    start = ops.zeros((), dtype="int32")
    loop = ops.while_loop(lambda index, *_: index < count, body, (start, *state))
    return list(loop[1:])


def _is_short(count, tensor):
    """Whether a loop is one of Python: eagerly, or of a single turn."""
    return execution(tensor) == "eager" or (isinstance(count, int) and count == 1)


def pad(tensor, length, axis: int):
    """Returns `tensor` with zeros (False) at the end of `axis`, up to `length`."""
    missing = length - ops.shape(tensor)[axis]
    if isinstance(missing, int) and missing == 0:
        return tensor
    shape = list(ops.shape(tensor))
    shape[axis] = missing
    return ops.concatenate([tensor, ops.zeros(shape, dtype=tensor.dtype)], axis=axis)


def split_axis(tensor, size: int, axis: int):
    """Returns `tensor` with `axis` split into `(blocks, size)`, zeros at the end."""
    blocks = -(-ops.shape(tensor)[axis] // size)
    tensor = pad(tensor, blocks * size, axis)
    shape = list(ops.shape(tensor))
    return ops.reshape(tensor, (*shape[:axis], blocks, size, *shape[axis + 1 :]))


def with_row(tensor, index, value):
    """Returns `tensor` with `value` as `tensor[index]`."""
    index = ops.reshape(ops.cast(index, "int32"), (1, 1))
    return ops.scatter_update(tensor, index, value[None])


def upstream_gradient(arguments, upstream):
    """Returns the gradient of the one output; backends pass it by position or by name."""
    return arguments[0] if upstream is None else upstream
