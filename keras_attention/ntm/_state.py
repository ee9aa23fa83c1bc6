"""The state of a Neural Turing Machine as a dict and as a flat list for Keras.

The dict has `controller`, the list of the controller's states, `(batch, size)` each; `memory`
`(batch, memory_size, word_size)`; `reads` `(batch, num_read_heads, word_size)`; `read_weights`
`(batch, num_read_heads, memory_size)`; `write_weights` `(batch, num_write_heads, memory_size)`. In
the list, which `keras.layers.RNN` carries, they are in this order, and each is `(batch, size)`.
"""

import math

import keras
from keras import ops

NAMES = ("memory", "reads", "read_weights", "write_weights")


def state_shapes(cell, batch=None) -> dict:
    """Returns the dict of the shapes of a cell's state."""
    reads, memory_size, word_size = cell.num_read_heads, cell.memory_size, cell.word_size
    return {
        "controller": [(batch, size) for size in cell.controller_adapter.state_sizes],
        "memory": (batch, memory_size, word_size),
        "reads": (batch, reads, word_size),
        "read_weights": (batch, reads, memory_size),
        "write_weights": (batch, cell.num_write_heads, memory_size),
    }


def map_shapes(function, of_shapes) -> dict:
    """Returns a dict of shapes with a function applied to each."""
    return {
        name: [function(one) for one in shape] if isinstance(shape, list) else function(shape)
        for name, shape in of_shapes.items()
    }


def state_sizes(cell) -> list:
    """Returns the sizes of the tensors in the flat list."""
    of_shapes = state_shapes(cell)
    rest = [math.prod(of_shapes[name][1:]) for name in NAMES]
    return [*cell.controller_adapter.state_sizes, *rest]


def pack(cell, state) -> list:
    """Returns the dict of a state as the flat list."""
    parts = [state[name] for name in NAMES]
    rest = state_sizes(cell)[-len(NAMES) :]
    flat = [ops.reshape(part, (-1, size)) for part, size in zip(parts, rest, strict=True)]
    return [*state["controller"], *flat]


def unpack(cell, states) -> dict:
    """Returns the flat list of a state as the dict.

    Raises:
        ValueError: If the list has a different length, or its tensors different sizes.
    """
    states, expected = keras.tree.flatten(states), state_sizes(cell)
    found = [_shape(part) for part in states]
    if len(found) != len(expected) or any(
        not isinstance(shape, tuple) or len(shape) != 2 or shape[1] not in (None, size)
        for shape, size in zip(found, expected, strict=True)
    ):
        raise ValueError(
            f"NTMCell expects `states` to be a list of tensors (batch, size), sizes {expected}, as "
            "`get_initial_state` returns it: the controller's, memory, reads, read weights, write "
            f"weights. Received: shapes={found}"
        )
    rest = states[-len(NAMES) :]
    of_shapes = state_shapes(cell)
    state = {
        name: ops.reshape(part, (-1, *of_shapes[name][1:]))
        for name, part in zip(NAMES, rest, strict=True)
    }
    return {"controller": states[: -len(NAMES)]} | state


def check_state(owner, cell, state):
    """Raises unless `state` is the dict of a state of the cell.

    Raises:
        ValueError: If it has a different structure, or tensors of different shapes.
    """
    expected = state_shapes(cell)
    found = keras.tree.map_structure(lambda part: _shape(part, batch=None), state)
    if found != expected:
        raise ValueError(
            f"{owner} expects `initial_state` to be a dict as `NTMCell.start` returns it, with "
            f"the shapes {expected}. Received: shapes={found}"
        )


def _shape(part, **batch):
    """Returns the shape of a tensor, with `batch` replaced if passed; other values unchanged."""
    shape = getattr(part, "shape", None)
    if shape is None:
        return part
    return (batch["batch"], *shape[1:]) if batch else tuple(shape)
