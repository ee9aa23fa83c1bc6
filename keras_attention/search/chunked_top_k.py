"""Top-k over a large vocabulary in two stages.

The first stage computes the maximum of each chunk of the vocabulary. Only the chunks with the
`count` largest maxima can contain the `count` largest logits, so the second stage compares only
these. This is exact, and several times faster than a plain top-k over a vocabulary of thousands.
Equal logits are in the order of their ids, as in the plain form. All searches select tokens here,
so that they break ties alike.
"""

import math

from keras import ops

from keras_attention._utils.shapes import get_shape, take_rows
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.kernels import execution_mode
from keras_attention.search._indexing import saves_launches, top_k, top_pairs
from keras_attention.search._log_probs import MIN_FLOAT32

SMALL_VOCABULARY = 512


def chunked_top_k(logits: TensorLike, count: int) -> tuple[Tensor, Tensor]:
    """Returns the `count` largest logits of each row and their ids, best first.

    Args:
        logits: Float tensor of shape `(rows, vocabulary)`, the vocabulary static.
        count: Int from 1 to the vocabulary size.

    Returns:
        Tuple of values and int32 ids, both of shape `(rows, count)`.
    """
    vocabulary = logits.shape[1]
    if count == 1 and execution_mode.has_gpu():  # one kernel
        logits = ops.where(logits == 0.0, 0.0, logits)  # as `top_k` does
        ids = ops.argmax(logits, axis=1, keepdims=True)
        return ops.max(logits, axis=1, keepdims=True), ops.cast(ids, "int32")
    mode = execution_mode.get_execution_mode(logits)
    if mode == "eager" or (mode == "graph" and count == 1):
        return top_k(logits, count)
    size = choose_chunk_size(vocabulary, count)
    chunks = vocabulary // size
    if vocabulary < SMALL_VOCABULARY or chunks < 2 * count:
        return top_k(logits, count)

    rows = get_shape(logits)[0]
    covered = chunks * size
    head = logits if covered == vocabulary else logits[:, :covered]
    head = ops.reshape(head, (rows * chunks, size))
    if saves_launches():  # maxima without zeros of both signs, and chunks in any order
        maxima = ops.max(ops.where(head == 0.0, 0.0, head), axis=-1)
        best = ops.cast(ops.top_k(ops.reshape(maxima, (rows, chunks)), count)[1], "int32")
    else:
        maxima = ops.max(head, axis=-1, initial=MIN_FLOAT32)
        best = _sort_ascending(top_k(ops.reshape(maxima, (rows, chunks)), count)[1])
    first_chunk = ops.expand_dims(ops.arange(rows, dtype="int32"), 1) * chunks
    candidates = take_rows(head, ops.reshape(first_chunk + best, (rows * count,)))
    candidates = ops.reshape(candidates, (rows, count * size))
    ids = ops.expand_dims(best * size, 2) + ops.arange(size, dtype="int32")
    ids = ops.reshape(ids, (rows, count * size))
    if covered < vocabulary:
        tail = ops.expand_dims(ops.arange(covered, vocabulary, dtype="int32"), 0)
        candidates = ops.concatenate([candidates, logits[:, covered:]], axis=1)
        ids = ops.concatenate([ids, ops.repeat(tail, rows, axis=0)], axis=1)
    if saves_launches():
        return top_pairs(candidates, ids, count)
    values, positions = top_k(candidates, count)
    width = ids.shape[1]
    row_offset = ops.expand_dims(ops.arange(rows, dtype="int32"), 1) * width
    return values, take_rows(ops.reshape(ids, (-1,)), positions + row_offset)


def choose_chunk_size(vocabulary: int, count: int) -> int:
    """Returns the chunk size with the fewest comparisons, a divisor if one is near.

    The sum of `vocabulary / size` maxima and `count * size` selected logits is smallest at
    `size = sqrt(vocabulary / count)`. With a divisor no tail has to be copied.
    """
    ideal = max(1.0, math.sqrt(vocabulary / count))
    near = range(max(1, math.ceil(ideal / 2)), int(2 * ideal) + 1)
    divisors = [size for size in near if vocabulary % size == 0]
    return min(divisors or [round(ideal)], key=lambda size: abs(math.log(size / ideal)))


def _sort_ascending(ids):
    """Returns ids sorted within each row: XLA compiles a top-k of floats faster than a sort."""
    return ops.cast(-ops.top_k(-ops.cast(ids, "float32"), ids.shape[1])[0], "int32")
