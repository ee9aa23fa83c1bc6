"""The Neural Turing Machine, Graves et al. 2014 (https://arxiv.org/abs/1410.5401).

    y_t = sigmoid(W [h_t; r_t] + b)        a controller beside a memory of slots

The machine is `keras_attention.NTM`; the paper's sizes are the defaults. Where the heads start
matters, and the paper leaves it open: here on the first slot.
"""

from typing import Literal

import keras

from keras_attention import NTM, NTMCell, ScalarShift, SoftmaxShift

TITLE = "Neural Turing Machine: a controller with an external memory"
REFERENCE = "Graves et al. 2014, arXiv 1410.5401"
EMPTY = 1e-6  # of every element of a memory that starts constant, the cell's default
SHIFTS = {"softmax": SoftmaxShift, "scalar": ScalarShift}


def build(
    input_dim: int,
    output_dim: int,
    controller: Literal["lstm", "feed_forward"] = "lstm",
    units: int = 100,
    layers: int = 1,
    memory_size: int = 128,
    word_size: int = 20,
    read_heads: int = 1,
    write_heads: int = 1,
    shift: Literal["softmax", "scalar"] = "softmax",
    max_shift: int = 1,
    read_from: Literal["written", "previous"] = "written",
    initial_weights: Literal["first", "learned"] = "first",
    initial_memory: Literal["constant", "learned"] = "constant",
    initial_controller: Literal["zeros", "learned"] = "zeros",
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `inputs` `(batch, time, input_dim)` to logits.

    Args:
        input_dim: Channels of the inputs.
        output_dim: Channels of the outputs.
        controller: What tells the heads where to attend.
        units: Size of each layer of the controller.
        layers: Layers of the controller.
        memory_size: Slots of the memory.
        word_size: Size of a slot.
        read_heads: Heads that read.
        write_heads: Heads that write.
        shift: How a head moves along the slots, see `keras_attention.SoftmaxShift`, `ScalarShift`.
        max_shift: Slots a head can move in a step.
        read_from: Whether a step reads what it has written, or the memory before; see `NTMCell`.
        initial_weights: Where the heads start, on the first slot or where it is learned.
        initial_memory: What the slots hold at first: the same small number, or what is learned,
            so that a head can find a slot that nothing was written to.
        initial_controller: First state of the controller.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
    """
    cell = NTMCell(
        output_dim,
        memory_size,
        word_size,
        _controller(controller, units, layers, dtype),
        read_heads,
        write_heads,
        SHIFTS[shift](max_shift),
        read_from,
        activation=None,
        initial_weights=initial_weights,
        initial_memory="learned" if initial_memory == "learned" else EMPTY,
        initial_controller=initial_controller,
        dtype=dtype,
        name="cell",
    )
    inputs = keras.Input([None, input_dim], name="inputs")
    return keras.Model({"inputs": inputs}, NTM(cell, dtype=dtype, name="ntm")(inputs), name="ntm")


def _controller(kind, units, layers, dtype):
    if kind == "lstm":
        cells = [keras.layers.LSTMCell(units, dtype=dtype) for _ in range(layers)]
        return cells[0] if layers == 1 else keras.layers.StackedRNNCells(cells, dtype=dtype)
    dense = [keras.layers.Dense(units, activation="tanh", dtype=dtype) for _ in range(layers)]
    return dense[0] if layers == 1 else keras.Sequential(dense)
