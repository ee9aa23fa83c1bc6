"""Blockwise computation: when it is faster, how large a block is, and the loops.

Sizes here are numbers of values, 4 bytes each in float32.

Nothing here is differentiable: functions that use these loops define a custom gradient
(`keras_attention.kernels.custom_gradients`) and recompute the blocks in it.
"""

import functools
import math
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Size, Sizes, Structure, Tensor, TensorLike
from keras_attention.kernels.execution_mode import get_execution_mode, has_gpu

#: Values in a block of a compiled function. From 2^18 to 2^22, blocks of additive scores take the
#: same time, forward and backward. Smaller ones add loop overhead, larger ones exceed the cache.
BLOCK_VALUES = 2**20
#: In eager mode, where every operation has an overhead of 20 microseconds, a block is larger: a
#: loop has at most MAX_EAGER_ITERATIONS.
EAGER_BLOCK_VALUES = 2**22
MAX_EAGER_ITERATIONS = 32
#: On a GPU a kernel launch takes 3 microseconds, the time to compute 2^21 values or more.
GPU_BLOCK_VALUES = 2**26
MAX_SMALL_BLOCK = 64  # with this many rows in a block, an empty one matters


def supports_loops() -> bool:
    """Returns whether the backend supports loops and custom gradients of tensors."""
    return keras.backend.backend() in ("tensorflow", "jax")


def count_values(*sizes: Size) -> Size:
    """Returns the product of sizes: an int, or an int64 tensor if one of them is a tensor."""
    known = math.prod(size for size in sizes if isinstance(size, int))
    unknown = [ops.cast(size, "int64") for size in sizes if not isinstance(size, int)]
    return functools.reduce(lambda product, size: product * size, unknown, known)


def smart_cond(
    condition: bool | TensorLike,
    if_true: Callable[[], Structure],
    if_false: Callable[[], Structure],
) -> Structure:
    """Returns `if_true()` or `if_false()`; traces both if the condition is a tensor."""
    if isinstance(condition, bool):
        return if_true() if condition else if_false()
    return ops.cond(condition, if_true, if_false)


def choose_values_per_block(num_values: Size, tensor: TensorLike) -> Size:
    """Returns how many of `num_values` values a block holds, an int or an int64 tensor."""
    if has_gpu():
        return GPU_BLOCK_VALUES
    if get_execution_mode(tensor) == "eager":
        return max(EAGER_BLOCK_VALUES, 2 * num_values // MAX_EAGER_ITERATIONS)
    return BLOCK_VALUES


class Tiles:
    """How a batch is split: several rows per block, or one row in several parts.

    Args:
        batch: Int or int tensor, the number of rows.
        length: Int or int tensor, the size of the axis that is split into parts.
        values_per_position: Int or int64 tensor, the number of values per position of that axis.
        values_per_block: Int or int64 tensor, the target number of values in a block. A block
            holds up to twice as many, so that blocks have nearly equal sizes.

    Attributes:
        rows: Rows in a block, 1 if a row has several parts.
        blocks: Number of blocks of rows.
        part: Positions in a part.
        parts: Parts of a row, 1 if a block has several rows.
    """

    batch: Size
    length: Size
    rows: Size
    blocks: Size
    part: Size
    parts: Size

    def __init__(
        self, batch: Size, length: Size, values_per_position: Size, values_per_block: Size
    ) -> None:
        self.batch, self.length = batch, length
        row = count_values(length, values_per_position)
        self.rows, self.blocks = _divide(batch, count_values(batch, row) // values_per_block)
        self.part, self.parts = _divide(length, row // values_per_block)

    def split(self, tensor: TensorLike) -> Tensor:
        """Returns `(batch, length, ...)` as `(blocks, parts, rows, part, ...)`, zero-padded."""
        tensor = pad(pad(tensor, self.rows * self.blocks, 0), self.part * self.parts, 1)
        # Either `rows` or `parts` is 1, so nothing is transposed.
        shape = (self.blocks, self.parts, self.rows, self.part, *get_shape(tensor)[2:])
        return ops.reshape(tensor, shape)

    def join(self, tensor: TensorLike) -> Tensor:
        """Returns `(blocks, parts, rows, part, ...)` as `(batch, length, ...)`."""
        shape = (self.blocks * self.rows, self.parts * self.part, *get_shape(tensor)[4:])
        return ops.reshape(tensor, shape)[: self.batch, : self.length]

    def split_rows(self, tensor: TensorLike) -> Tensor:
        """Returns `(batch, ...)` as `(blocks, rows, ...)`, with zeros at the end."""
        tensor = pad(tensor, self.rows * self.blocks, 0)
        return ops.reshape(tensor, (self.blocks, self.rows, *get_shape(tensor)[1:]))

    def join_rows(self, tensor: TensorLike) -> Tensor:
        """Returns `(blocks, rows, ...)` as `(batch, ...)`."""
        shape = (self.blocks * self.rows, *get_shape(tensor)[2:])
        return ops.reshape(tensor, shape)[: self.batch]


def _divide(count, pieces):
    """Returns the size of a piece and the number of pieces, for about `pieces` of `count`.

    If the numbers are known, the size leaves little of the last piece empty.
    """
    if not (isinstance(count, int) and isinstance(pieces, int)):
        one, count = ops.ones((), "int64"), ops.cast(count, "int64")
        pieces = ops.maximum(pieces, one)
        size = ops.maximum(-(-count // pieces), one)
        pieces = ops.maximum(-(-count // size), one)
        return ops.cast(size, "int32"), ops.cast(pieces, "int32")
    size = max(1, -(-count // max(1, pieces)))
    if size < MAX_SMALL_BLOCK:
        size = min(range(size, (size - 1) // 2, -1), key=lambda size: -count % size)
    return size, max(1, -(-count // size))


def map_blocks(
    step: Callable[[Tensor], list[TensorLike]],
    count: Size,
    shapes: Sequence[Sizes],
    like: TensorLike,
) -> list[Tensor]:
    """Returns the stacked results of `step(index)` for the indices 0 to `count - 1`.

    The steps run one after the other, and only their results are stored.

    Args:
        step: Callable `index -> list of tensors`.
        count: Int or int tensor, at least 1.
        shapes: List of the shapes of these tensors.
        like: A tensor of their dtype.
    """
    if _is_python_loop(count, like):
        results = [step(index) for index in range(int(count))]
        return [ops.stack(tensors) for tensors in zip(*results, strict=True)]
    # On TensorFlow a scan stacks as many results as it carries tensors, each of the same shape.
    carry = [ops.zeros(shape, like.dtype) for shape in shapes]
    indices = ops.arange(count, dtype="int32")
    return ops.scan(lambda carry, index: (carry, step(index)), carry, indices)[1]


def fold_blocks(
    count: Size,
    step: Callable[[Tensor, list[Tensor]], list[TensorLike]],
    state: Sequence[TensorLike],
) -> list[Tensor]:
    """Returns `state` after `step(index, state)` for the indices 0 to `count - 1`.

    Args:
        count: Int or int tensor, at least 1.
        step: Callable `(index, list of tensors) -> list of tensors` of the same shapes.
        state: Tensors before the first step. A graph copies them at each step, so they should be
            small beside the tensors that a step computes; `map_blocks` copies nothing.
    """
    if _is_python_loop(count, state[0]):
        for index in range(int(count)):
            state = step(index, state)
        return state

    def body(index, *state):
        state = step(index, list(state))
        # A graph would start the next blocks before this one ends and store them all. So the
        # next index depends on a value of this block, multiplied by 0.
        value = ops.sum(state[0][(slice(0, 1),) * len(state[0].shape)])
        never = ops.logical_and(value > 0, value < 0)
        return (index + 1 + ops.cast(never, "int32"), *state)

    start = ops.zeros((), dtype="int32")
    loop = ops.while_loop(lambda index, *_: index < count, body, (start, *state))
    return list(loop[1:])


def _is_python_loop(count, tensor):
    """Whether a loop runs in Python: in eager mode, or with a single iteration."""
    return get_execution_mode(tensor) == "eager" or (isinstance(count, int) and count == 1)


def pad(tensor: TensorLike, length: Size, axis: int) -> Tensor:
    """Returns `tensor` with zeros (False) at the end of `axis`, up to `length`."""
    missing = length - get_shape(tensor)[axis]
    if isinstance(missing, int) and missing == 0:
        return tensor
    shape = list(get_shape(tensor))
    shape[axis] = missing
    return ops.concatenate([tensor, ops.zeros(shape, dtype=tensor.dtype)], axis=axis)


def split_axis(tensor: TensorLike, size: int, axis: int) -> Tensor:
    """Returns `tensor` with `axis` split into `(blocks, size)`, zeros at the end."""
    blocks = -(-get_shape(tensor)[axis] // size)
    tensor = pad(tensor, blocks * size, axis)
    shape = list(get_shape(tensor))
    return ops.reshape(tensor, (*shape[:axis], blocks, size, *shape[axis + 1 :]))


def set_row(tensor: TensorLike, index: Size, value: TensorLike) -> Tensor:
    """Returns `tensor` with `value` as `tensor[index]`."""
    index = ops.reshape(ops.cast(index, "int32"), (1, 1))
    return ops.scatter_update(tensor, index, value[None])


def get_cotangent(arguments: Sequence[TensorLike], upstream: TensorLike | None) -> Tensor:
    """Returns the gradient of the single output; backends pass it by position or by name."""
    return arguments[0] if upstream is None else upstream
