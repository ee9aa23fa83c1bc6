"""The Neural Turing Machine, Graves et al. 2014 (https://arxiv.org/abs/1410.5401).

    y_t = sigmoid(W [h_t; r_t] + b)        a controller beside a memory of slots

The machine is `keras_attention.NTM`; the paper's sizes are the defaults. Where the heads start
matters, and the paper leaves it open: here on the first slot.
"""

import keras

from examples.options import Option
from keras_attention import NTM, NTMCell, ScalarShift, SoftmaxShift

TITLE = "Neural Turing Machine: a controller with an external memory"
REFERENCE = "Graves et al. 2014, arXiv 1410.5401"
SHIFTS = {"softmax": SoftmaxShift, "scalar": ScalarShift}
OPTIONS = {
    "controller": Option("lstm", "what tells the heads", str, ("lstm", "feed_forward")),
    "units": Option(100, "size of a layer of the controller"),
    "layers": Option(1, "layers of the controller"),
    "memory_size": Option(128, "slots of the memory"),
    "word_size": Option(20, "size of a slot"),
    "read_heads": Option(1, "heads that read"),
    "write_heads": Option(1, "heads that write"),
    "shift": Option("softmax", "how a head moves along the slots", str, tuple(SHIFTS)),
    "max_shift": Option(1, "slots a head can move in a step"),
    "read_from": Option(
        "written", "read what this step has written, or not", str, ("written", "previous")
    ),
    "initial_weights": Option(
        "first", "where the heads start: on slot 0, or learned", str, ("first", "learned")
    ),
    "initial_controller": Option(
        "zeros", "the controller's first state", str, ("zeros", "learned")
    ),
}


def build(
    input_dim: int,
    output_dim: int,
    controller: str = "lstm",
    units: int = 100,
    layers: int = 1,
    memory_size: int = 128,
    word_size: int = 20,
    read_heads: int = 1,
    write_heads: int = 1,
    shift: str = "softmax",
    max_shift: int = 1,
    read_from: str = "written",
    initial_weights: str = "first",
    initial_controller: str = "zeros",
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `inputs` `(batch, time, input_dim)` to logits.

    Args:
        input_dim: Channels of the inputs.
        output_dim: Channels of the outputs.
        controller: "lstm" or "feed_forward".
        units: Size of each layer of the controller.
        layers: Its layers.
        memory_size: Slots of the memory.
        word_size: Size of a slot.
        read_heads: Heads that read.
        write_heads: Heads that write.
        shift: "softmax" or "scalar", see `keras_attention.SoftmaxShift`, `ScalarShift`.
        max_shift: Slots a head can move in a step.
        read_from: "written" or "previous", see `NTMCell`.
        initial_weights: "first" or "learned".
        initial_controller: "zeros" or "learned".
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
