"""Bits over time, and what a Neural Turing Machine did with its memory meanwhile.

The pictures are those of Graves et al. 2014 (https://arxiv.org/abs/1410.5401): figures 4 and 5,
targets above outputs; figure 6, inputs and outputs above the weights of the heads. Time runs
from left to right, channels and slots from top to bottom.
"""

import numpy as np

from keras_attention.plotting import figures
from keras_attention.plotting.figures import LARGEST_INCHES
from keras_attention.plotting.lettering import FONT_POINTS, Lettering
from keras_attention.plotting.sheet import BAR_HEIGHT, POINTS, Sheet, draw, mark, write_above

# All in inches.
CELL = 0.22
LOWEST_CELL = 0.045  # the cells of long sequences are taller than wide
LOWEST_WEIGHTS = 0.7
NARROWEST_COLUMN = 1.2
GAP, TITLE_GAP, COLUMN_GAP = 0.1, 0.36, 0.75

IN_USE = 0.1


def plot_bits(targets, outputs, *, titles=None):
    """Draws targets above outputs, one example below the other, as the paper's figures 4 and 5.

    All cells have one size, so that a longer sequence is a longer picture.

    Args:
        targets: Sequence of arrays `(time, bits)`, one an example, of numbers from 0 to 1. Their
            lengths may differ.
        outputs: Sequence of arrays of the same shapes: probabilities, not logits.
        titles: Optional sequence of str, one an example.

    Returns:
        The matplotlib `Figure`: for each example two axes, targets and outputs; then the color
        bar.

    Raises:
        ValueError: If there is no example, the numbers of targets, outputs or titles differ, or
            an array is empty, of another shape, not finite or outside of 0 to 1.
        ImportError: If matplotlib is not installed.

    Example:

    >>> targets = [[[0, 1], [1, 1], [1, 0]]]  # one example: three steps of two bits
    >>> outputs = [[[0.1, 0.9], [0.8, 1.0], [0.5, 0.0]]]
    >>> figure = plot_bits(targets, outputs, titles=["length 3"])
    >>> [axes.images[0].get_array().shape for axes in figure.axes[:2]]
    [(2, 3), (2, 3)]
    """
    figures.require_matplotlib()
    examples, titles = _examples(targets, outputs, titles)
    letters = Lettering(titles)
    rows = 2 * sum(target.shape[1] for target, _ in examples)
    width, height = _cell(max(rows, *(len(target) for target, _ in examples)))
    sheet, top, beside = Sheet(), 0.0, 0.0
    for (target, output), title in zip(examples, titles, strict=True):
        steps, bits = target.shape
        if top < BAR_HEIGHT + GAP:
            beside = max(beside, steps * width)
        top += 0.2 if title else 0.0
        for name, array in (("targets", target), ("outputs", output)):
            axes = sheet.axes(0.0, top, steps * width, bits * height)
            image = draw(axes, array.T)
            axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=POINTS)
            if name == "targets":
                axes.set_title(letters.drawable(title), loc="left", **_title_style(letters))
            top += max(bits * height, 0.15) + GAP
        mark(axes.xaxis, range(steps), steps * width)
        top += GAP + 0.1
    axes.set_xlabel("step", fontsize=POINTS)
    sheet.bar(image, beside + GAP)
    return sheet.finished()


def plot_memory_use(
    inputs, outputs, write_weights, read_weights, *, memory=None, title=None
):  # fmt: skip
    """Draws inputs and outputs above the weights of the heads, as the paper's figure 6.

    Writing is at the left, below the inputs; reading at the right, below the outputs; both on
    the same time axis. Of the slots only those in use are drawn: all from the first to the last
    that some head ever gives a weight of 0.1 or more. The slots are a ring and the picture may
    run over its end, such as from 120 to 127 and on from 0 to 9. If no slot is in use, all are
    drawn.

    Args:
        inputs: Array `(time, input_dim)` of finite numbers.
        outputs: Array `(time, output_dim)` of numbers from 0 to 1: probabilities, not logits.
        write_weights: Array `(time, write_heads, slots)` of numbers from 0 to 1, a row of the
            history that `keras_attention.NTM` returns.
        read_weights: Array `(time, read_heads, slots)` of numbers from 0 to 1.
        memory: Optional array `(slots, slot_dim)`, drawn beside the weights: what the memory
            holds after the last step, `history["memory"][row, -1]`.
        title: Optional str.

    Returns:
        The matplotlib `Figure`. Its axes are inputs, outputs, every write head, every read head,
        the color bar of the weights; and, if there is a memory, the memory and its color bar.

    Raises:
        ValueError: If an array is empty, of another shape, or holds numbers that are not finite
            or out of range.
        ImportError: If matplotlib is not installed.

    Example:

    >>> weights = [[[1.0, 0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]]  # 2 steps, 1 head, 4 slots
    >>> figure = plot_memory_use([[1], [0]], [[0], [1]], weights, weights)
    >>> [axes.get_title(loc="left") for axes in figure.axes[:4]]
    ['inputs', 'outputs', 'write weights', 'read weights']
    >>> figure.axes[2].get_ylabel().split()
    ['slots', '0', 'to', '1', 'of', '4']
    """
    figures.require_matplotlib()
    ends, heads, memory = _checked_use(inputs, outputs, write_weights, read_weights, memory)
    slots, where = _slots_in_use([weights for _, weights in heads])
    steps, most = len(heads[0][1]), max(weights.shape[1] for _, weights in heads)
    cell = _cell(2 * steps)
    width = steps * cell[0]
    column = max(width, NARROWEST_COLUMN) + COLUMN_GAP  # from one to the next
    rows = max(LOWEST_WEIGHTS, min(len(slots) * cell[1], LARGEST_INCHES / most))
    below = max(array.shape[1] for _, array in ends) * cell[1] + TITLE_GAP
    sheet = Sheet()
    for number, (name, array) in enumerate(ends):
        draw(sheet.axes(number * column, 0.0, width, array.shape[1] * cell[1]), array.T, name)
    for number, (name, weights) in enumerate(heads):
        for head in range(weights.shape[1]):
            axes = sheet.axes(number * column, below + head * (rows + TITLE_GAP), width, rows)
            which = f", head {head + 1}" if weights.shape[1] > 1 else ""
            image = draw(axes, weights[:, head, slots].T, name + which)
            mark(axes.yaxis, slots, rows)
            axes.set_ylabel(where, fontsize=FONT_POINTS[0])
        mark(axes.xaxis, range(steps), width)
        axes.set_xlabel("step", fontsize=POINTS)
    sheet.bar(image, column + width + GAP, below)
    if memory is not None:
        left, across = 2 * column, memory.shape[1] * max(cell)
        image = draw(sheet.axes(left, below, across, rows), memory[slots], "memory at the end")
        sheet.bar(image, left + across + GAP, below)
    if title:
        write_above(sheet.figure.axes[0], title, stacklevel=4)
    return sheet.finished()


def _cell(steps):
    """Returns width and height in inches of a cell, where so many must stand in a line."""
    width = min(CELL, LARGEST_INCHES / steps)
    return width, max(width, LOWEST_CELL)


def _slots_in_use(weights):
    """Returns the slots of the shortest arc that holds all in use, and a text that names it."""
    most = np.concatenate(weights, axis=1).max(axis=(0, 1))
    total, used = len(most), np.flatnonzero(most >= IN_USE)
    slots = np.arange(total)
    if len(used):
        gaps = np.diff(used, append=used[0] + total)  # from each to the next one in use
        if gaps.max() > 1:
            first = used[(np.argmax(gaps) + 1) % len(used)]
            slots = (first + np.arange(total - gaps.max() + 1)) % total
    if len(slots) == total:
        return slots, f"all {total} slots"
    first, last = slots[0], slots[-1]
    ranges = f"{first} to {last}" if first <= last else f"{first} to {total - 1},\n0 to {last}"
    return slots, f"slots\n{ranges} of {total}"


def _examples(targets, outputs, titles):
    """Returns pairs of checked targets and outputs, and their titles."""
    targets, outputs = list(targets), list(outputs)
    titles = [""] * len(targets) if titles is None else [title or "" for title in titles]
    if not targets or not len(targets) == len(outputs) == len(titles):
        raise ValueError(
            "plot_bits expects at least one example, as many outputs as targets, and one title "
            "for each or none; a single array goes into a list. Received: "
            f"{len(targets)} targets, {len(outputs)} outputs, {len(titles)} titles"
        )
    pairs = []
    for target, output in zip(targets, outputs, strict=True):
        target = _checked("plot_bits", "targets", target, "time, bits")
        output = _checked("plot_bits", "outputs", output, "time, bits", target.shape)
        pairs.append((target, output))
    return pairs, titles


def _checked_use(inputs, outputs, write_weights, read_weights, memory):
    """Returns the named ends, the named weights and the memory, checked."""
    owner = "plot_memory_use"
    inputs = _checked(owner, "inputs", inputs, "time, input_dim", between=False)
    steps = len(inputs)
    outputs = _checked(owner, "outputs", outputs, "time, output_dim", (steps, None))
    heads = "time, write_heads, slots"
    writing = _checked(owner, "write_weights", write_weights, heads, (steps, None, None))
    slots = writing.shape[2]
    heads = "time, read_heads, slots"
    reading = _checked(owner, "read_weights", read_weights, heads, (steps, None, slots))
    if memory is not None:
        memory = _checked(owner, "memory", memory, "slots, slot_dim", (slots, None), between=False)
    ends = [("inputs", inputs), ("outputs", outputs)]
    return ends, [("write weights", writing), ("read weights", reading)], memory


def _checked(owner, name, array, axes, shape=None, between=True):
    """Returns a float array with these axes; what is not None in `shape` is known."""
    array = figures.numbers(owner, name, array)
    shape = shape or (None,) * (axes.count(",") + 1)
    if (
        array.ndim != len(shape)
        or 0 in array.shape
        or any(known not in (None, size) for known, size in zip(shape, array.shape, strict=True))
    ):
        sizes = ", ".join("any" if known is None else str(known) for known in shape)
        raise ValueError(
            f"{owner} expects `{name}` of shape ({axes}), here ({sizes}), none of them 0. Take "
            f"one row of a batch. Received: {name}.shape={array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{owner} expects `{name}` to be finite. Received: a NaN or an infinity")
    if between and (array.min() < -1e-3 or array.max() > 1 + 1e-3):
        raise ValueError(
            f"{owner} expects `{name}` to be numbers from 0 to 1; `keras.ops.sigmoid` makes "
            f"outputs of logits. Received: numbers from {array.min()} to {array.max()}"
        )
    return np.clip(array, 0.0, 1.0) if between else array


def _title_style(letters):
    return letters.style | {"fontsize": POINTS + 1, "pad": 3}
