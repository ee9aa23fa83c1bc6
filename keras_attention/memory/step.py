"""One step of a Neural Turing Machine's memory, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3 and figure 2).

All heads address the memory that the step before left. By default the write heads then write and
the read heads read what is written, M_t; `read_from="previous"` reads M_{t-1} instead, as two
well-known implementations do.
"""

from keras import ops

from keras_attention.memory.access import read, write
from keras_attention.memory.addressing import interpolate, sharpen, similarities


def address(parameters, memory, previous, shift):
    """Returns the weights of all heads and the similarities they come from.

    Args:
        parameters: Dict, see `Heads.parameters`.
        memory: Float tensor `(batch, slots, slot_dim)`.
        previous: Float tensor `(batch, heads, slots)`, the weights of the step before.
        shift: A `Shift`.
    """
    similarity = similarities(parameters["key"], memory)
    content = ops.softmax(parameters["strength"] * similarity)
    gated = interpolate(content, previous, parameters["gate"][:, :, 0])
    shifted = shift.apply(gated, parameters["shift"])
    return sharpen(shifted, parameters["sharpening"][:, :, 0]), similarity


def access(parameters, memory, weights, num_read, read_from, keep=None):
    """Returns what was read, `(batch, read_heads, slot_dim)`, and the new memory.

    Args:
        parameters: Dict, see `Heads.parameters`.
        memory: The memory before, `(batch, slots, slot_dim)`.
        weights: The weights of all heads, read heads first.
        num_read: The number of read heads.
        read_from: "written" or "previous".
        keep: Optional `(batch, 1)`, 0 where nothing may be written.
    """
    writing = weights[:, num_read:]
    if keep is not None:
        writing = writing * keep[:, :, None]
    written = write(memory, writing, parameters["erase"], parameters["addition"])
    source = written if read_from == "written" else memory
    return read(source, weights[:, :num_read]), written
