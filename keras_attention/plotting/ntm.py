"""Plots of bits over time, and of the memory use of a Neural Turing Machine.

The plots are those of Graves et al. 2014 (https://arxiv.org/abs/1410.5401): figures 4 and 5,
targets above outputs; figure 6, inputs and outputs above the weights of the heads. Time runs
from left to right, channels and slots from top to bottom.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attention.plotting import _figures
from keras_attention.plotting._figures import LARGEST_INCHES
from keras_attention.plotting._panel_grid import (
    BAR_HEIGHT,
    POINTS,
    PanelGrid,
    draw_array,
    label_ticks,
    write_axes_title,
)
from keras_attention.plotting._text_layout import FONT_POINTS, TextLayout

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# All in inches.
CELL = 0.22
MIN_CELL_HEIGHT = 0.045  # the cells of long sequences are taller than wide
MIN_WEIGHTS_HEIGHT = 0.7
MIN_COLUMN_WIDTH = 1.2
GAP, TITLE_GAP, COLUMN_GAP = 0.1, 0.36, 0.75

IN_USE_THRESHOLD = 0.1


def plot_bits(
    targets: Sequence[npt.ArrayLike],
    outputs: Sequence[npt.ArrayLike],
    *,
    titles: Sequence[str] | None = None,
) -> "Figure":
    """Plots targets above outputs, one example below the other, as the paper's figures 4 and 5.

    All cells have the same size, so that longer sequences give longer figures.

    Args:
        targets: Sequence of arrays `(time, bits)`, one per example, of numbers from 0 to 1. Their
            lengths may differ.
        outputs: Sequence of arrays of the same shapes: probabilities, not logits.
        titles: Optional sequence of str, one per example.

    Returns:
        The matplotlib `Figure`: for each example two axes, targets and outputs; then the color
        bar.

    Raises:
        ValueError: If there is no example, the numbers of targets, outputs or titles differ, or
            an array is empty, has a different shape, is not finite or lies outside of 0 to 1.
        ImportError: If matplotlib is not installed.

    Example:

    >>> targets = [[[0, 1], [1, 1], [1, 0]]]  # one example: three steps of two bits
    >>> outputs = [[[0.1, 0.9], [0.8, 1.0], [0.5, 0.0]]]
    >>> figure = plot_bits(targets, outputs, titles=["length 3"])
    >>> [axes.images[0].get_array().shape for axes in figure.axes[:2]]
    [(2, 3), (2, 3)]
    """
    _figures.require_matplotlib()
    examples, titles = _validate_examples(targets, outputs, titles)
    text_layout = TextLayout(titles)
    rows = 2 * sum(target.shape[1] for target, _ in examples)
    width, height = _choose_cell_size(max(rows, *(len(target) for target, _ in examples)))
    grid, top, beside = PanelGrid(), 0.0, 0.0
    for (target, output), title in zip(examples, titles, strict=True):
        steps, bits = target.shape
        if top < BAR_HEIGHT + GAP:
            beside = max(beside, steps * width)
        top += 0.2 if title else 0.0
        for name, array in (("targets", target), ("outputs", output)):
            axes = grid.axes(0.0, top, steps * width, bits * height)
            image = draw_array(axes, array.T)
            axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=POINTS)
            if name == "targets":
                axes.set_title(
                    text_layout.replace_missing(title), loc="left", **_make_title_style(text_layout)
                )
            top += max(bits * height, 0.15) + GAP
        label_ticks(axes.xaxis, range(steps), steps * width)
        top += GAP + 0.1
    axes.set_xlabel("step", fontsize=POINTS)
    grid.draw_color_bar(image, beside + GAP)
    return grid.fit_to_axes()


def plot_memory_use(
    inputs: npt.ArrayLike,
    outputs: npt.ArrayLike,
    write_weights: npt.ArrayLike,
    read_weights: npt.ArrayLike,
    *,
    memory_matrix: npt.ArrayLike | None = None,
    title: str | None = None,
) -> "Figure":
    """Plots inputs and outputs above the weights of the heads, as the paper's figure 6.

    Write weights are at the left, below the inputs; read weights at the right, below the outputs;
    both share the time axis. Only slots in use are plotted: the range of slots that contains every
    weight of 0.1 or more. The slots form a ring, so the range may wrap around, such as from 120 to
    127 and on from 0 to 9. If no slot is in use, all are plotted.

    Args:
        inputs: Array `(time, input_dim)` of finite numbers.
        outputs: Array `(time, output_dim)` of numbers from 0 to 1: probabilities, not logits.
        write_weights: Array `(time, write_heads, slots)` of numbers from 0 to 1, one batch element
            of the history that `keras_attention.NTM` returns.
        read_weights: Array `(time, read_heads, slots)` of numbers from 0 to 1.
        memory_matrix: Optional array `(slots, word_size)`, plotted beside the weights: the memory
            after the last step, `history["memory"][element, -1]`.
        title: Optional str.

    Returns:
        The matplotlib `Figure`. Its axes are inputs, outputs, every write head, every read head,
        the color bar of the weights; and, if passed, the memory and its color bar.

    Raises:
        ValueError: If an array is empty, has a different shape, or contains numbers that are not
            finite or out of range.
        ImportError: If matplotlib is not installed.

    Example:

    >>> weights = [[[1.0, 0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]]  # 2 steps, 1 head, 4 slots
    >>> figure = plot_memory_use([[1], [0]], [[0], [1]], weights, weights)
    >>> [axes.get_title(loc="left") for axes in figure.axes[:4]]
    ['inputs', 'outputs', 'write weights', 'read weights']
    >>> figure.axes[2].get_ylabel().split()
    ['slots', '0', 'to', '1', 'of', '4']
    """
    _figures.require_matplotlib()
    ends, heads, memory_matrix = _validate_memory_use(
        inputs, outputs, write_weights, read_weights, memory_matrix
    )
    slots, where = _find_slots_in_use([weights for _, weights in heads])
    steps, most = len(heads[0][1]), max(weights.shape[1] for _, weights in heads)
    cell = _choose_cell_size(2 * steps)
    width = steps * cell[0]
    column = max(width, MIN_COLUMN_WIDTH) + COLUMN_GAP  # the distance between columns
    rows = max(MIN_WEIGHTS_HEIGHT, min(len(slots) * cell[1], LARGEST_INCHES / most))
    below = max(array.shape[1] for _, array in ends) * cell[1] + TITLE_GAP
    grid = PanelGrid()
    for number, (name, array) in enumerate(ends):
        draw_array(grid.axes(number * column, 0.0, width, array.shape[1] * cell[1]), array.T, name)
    for number, (name, weights) in enumerate(heads):
        for head in range(weights.shape[1]):
            axes = grid.axes(number * column, below + head * (rows + TITLE_GAP), width, rows)
            which = f", head {head + 1}" if weights.shape[1] > 1 else ""
            image = draw_array(axes, weights[:, head, slots].T, name + which)
            label_ticks(axes.yaxis, slots, rows)
            axes.set_ylabel(where, fontsize=FONT_POINTS[0])
        label_ticks(axes.xaxis, range(steps), width)
        axes.set_xlabel("step", fontsize=POINTS)
    grid.draw_color_bar(image, column + width + GAP, below)
    if memory_matrix is not None:
        left, across = 2 * column, memory_matrix.shape[1] * max(cell)
        image = draw_array(
            grid.axes(left, below, across, rows), memory_matrix[slots], "memory at the end"
        )
        grid.draw_color_bar(image, left + across + GAP, below)
    if title:
        write_axes_title(grid.figure.axes[0], title, stacklevel=4)
    return grid.fit_to_axes()


def _choose_cell_size(steps):
    """Returns width and height in inches of a cell, for this number of cells per line."""
    width = min(CELL, LARGEST_INCHES / steps)
    return width, max(width, MIN_CELL_HEIGHT)


def _find_slots_in_use(weights):
    """Returns the slots of the shortest arc with all slots in use, and its description."""
    most = np.concatenate(weights, axis=1).max(axis=(0, 1))
    total, used = len(most), np.flatnonzero(most >= IN_USE_THRESHOLD)
    slots = np.arange(total)
    if len(used):
        gaps = np.diff(used, append=used[0] + total)  # between neighboring slots in use
        if gaps.max() > 1:
            first = used[(np.argmax(gaps) + 1) % len(used)]
            slots = (first + np.arange(total - gaps.max() + 1)) % total
    if len(slots) == total:
        return slots, f"all {total} slots"
    first, last = slots[0], slots[-1]
    ranges = f"{first} to {last}" if first <= last else f"{first} to {total - 1},\n0 to {last}"
    return slots, f"slots\n{ranges} of {total}"


def _validate_examples(targets, outputs, titles):
    """Returns pairs of checked targets and outputs, and their titles."""
    targets, outputs = list(targets), list(outputs)
    titles = [""] * len(targets) if titles is None else [title or "" for title in titles]
    if not targets or not len(targets) == len(outputs) == len(titles):
        raise ValueError(
            "plot_bits expects at least one example, as many outputs as targets, and one title "
            "for each or none; pass a single array in a list. Received: "
            f"{len(targets)} targets, {len(outputs)} outputs, {len(titles)} titles"
        )
    pairs = []
    for target, output in zip(targets, outputs, strict=True):
        target = validate_array("plot_bits", "targets", target, "time, bits")
        output = validate_array("plot_bits", "outputs", output, "time, bits", target.shape)
        pairs.append((target, output))
    return pairs, titles


def _validate_memory_use(inputs, outputs, write_weights, read_weights, memory_matrix):
    """Returns inputs and outputs, the named weights and the memory, checked."""
    owner = "plot_memory_use"
    inputs = validate_array(owner, "inputs", inputs, "time, input_dim", is_fraction=False)
    steps = len(inputs)
    outputs = validate_array(owner, "outputs", outputs, "time, output_dim", (steps, None))
    heads = "time, write_heads, slots"
    writing = validate_array(owner, "write_weights", write_weights, heads, (steps, None, None))
    slots = writing.shape[2]
    heads = "time, read_heads, slots"
    reading = validate_array(owner, "read_weights", read_weights, heads, (steps, None, slots))
    if memory_matrix is not None:
        memory_matrix = validate_array(
            owner,
            "memory_matrix",
            memory_matrix,
            "slots, word_size",
            (slots, None),
            is_fraction=False,
        )
    ends = [("inputs", inputs), ("outputs", outputs)]
    return ends, [("write weights", writing), ("read weights", reading)], memory_matrix


def validate_array(
    owner: str,
    name: str,
    array: npt.ArrayLike,
    axes: str,
    shape: tuple[int | None, ...] | None = None,
    is_fraction: bool = True,
) -> np.ndarray:
    """Returns a float array with these axes; sizes in `shape` that are not None must match."""
    array = _figures.make_float_array(owner, name, array)
    shape = shape or (None,) * (axes.count(",") + 1)
    if (
        array.ndim != len(shape)
        or 0 in array.shape
        or any(known not in (None, size) for known, size in zip(shape, array.shape, strict=True))
    ):
        sizes = ", ".join("any" if known is None else str(known) for known in shape)
        raise ValueError(
            f"{owner} expects `{name}` of shape ({axes}), here ({sizes}), none of them 0. Take "
            f"one batch element. Received: {name}.shape={array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{owner} expects `{name}` to be finite. Received: a NaN or an infinity")
    if is_fraction and (array.min() < -1e-3 or array.max() > 1 + 1e-3):
        raise ValueError(
            f"{owner} expects `{name}` to be numbers from 0 to 1; `keras.ops.sigmoid` converts "
            f"logits. Received: numbers from {array.min()} to {array.max()}"
        )
    return np.clip(array, 0.0, 1.0) if is_fraction else array


def _make_title_style(text_layout):
    return text_layout.style | {"fontsize": POINTS + 1, "pad": 3}
