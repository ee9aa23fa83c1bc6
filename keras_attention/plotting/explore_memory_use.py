"""A page to explore the heads and the memory of a Neural Turing Machine over time."""

import numpy as np
import numpy.typing as npt

from keras_attention.plotting._explorer_page import (
    ExplorerPage,
    encode_weights,
    make_page,
)
from keras_attention.plotting.ntm import validate_array


def explore_memory_use(
    write_weights: npt.ArrayLike,
    read_weights: npt.ArrayLike,
    memory_matrix: npt.ArrayLike | None = None,
    *,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with a Neural Turing Machine's heads and memory, step by step.

    Each head has a map with a row per slot and a column per step. A slider chooses a step: the
    page marks its column, lists the slots that the heads use, and shows the memory after it.

    Args:
        write_weights: Array `(time, write_heads, slots)` of numbers from 0 to 1, one batch element
            of the history that `keras_attention.NTM` returns.
        read_weights: Array `(time, read_heads, slots)` of numbers from 0 to 1.
        memory_matrix: Optional array `(time, slots, word_size)`, the memory after each step:
            `history["memory"][element]`.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`.

    Raises:
        ValueError: If an array is empty, has a different shape, or contains numbers that are not
            finite or out of range.

    Example:

    >>> weights = [[[1.0, 0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]]  # 2 steps, 1 head, 4 slots
    >>> page = explore_memory_use(weights, weights, np.zeros((2, 4, 3)))
    >>> page
    ExplorerPage('Memory', 1 view)
    """
    owner = "explore_memory_use"
    axes = "time, write_heads, slots"
    writing = validate_array(owner, "write_weights", write_weights, axes)
    steps, _, slots = writing.shape
    axes = "time, read_heads, slots"
    reading = validate_array(owner, "read_weights", read_weights, axes, (steps, None, slots))
    view = {
        "kind": "memory",
        "steps": steps,
        "slots": slots,
        "heads": [
            {"title": f"{name} head {head + 1}", "weights": encode_weights(weights[:, head])}
            for name, weights in (("Write", writing), ("Read", reading))
            for head in range(weights.shape[1])
        ],
        "memory": None,
    }
    if memory_matrix is not None:
        axes, shape = "time, slots, word_size", (steps, slots, None)
        matrix = validate_array(owner, "memory_matrix", memory_matrix, axes, shape, False)
        full = float(np.abs(matrix).max()) or 1.0
        view["memory"] = {
            "width": matrix.shape[2],
            "full": full,
            "numbers": encode_weights((matrix / full + 1.0) / 2.0),
        }
    return make_page(owner, title, "Memory", view)
