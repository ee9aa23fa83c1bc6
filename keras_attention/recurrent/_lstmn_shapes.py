"""Shape checks and output shapes of `LSTMN`."""

import keras

from keras_attention import validation
from keras_attention._utils.base_layer import select_outputs

OWNER = "LSTMN"


def check_shapes(layer, inputs_shape, memory_shape=None, memory_cells_shape=None):
    """Raises `ValueError` unless the layer can be called with such tensors."""
    validation.check_axes(OWNER, "inputs", inputs_shape, "(batch, time, input_dim)")
    if layer.built and inputs_shape[-1] != layer.input_dim:
        raise ValueError(
            f"{OWNER} was built for inputs of width {layer.input_dim}. "
            f"Received: inputs.shape={tuple(inputs_shape)}"
        )
    given = [shape is not None for shape in (memory_shape, memory_cells_shape)]
    if given != [layer.fusion is not None] * 2:
        raise ValueError(
            f"{OWNER} expects `memory` and `memory_cells` with fusion='deep', and neither without "
            "it. For shallow fusion, attend to the memory with an attention layer whose queries "
            f"are the outputs. Received: fusion={layer.fusion!r}, memory.shape={memory_shape}, "
            f"memory_cells.shape={memory_cells_shape}"
        )
    if layer.fusion:
        check_memory(layer, memory_shape, memory_cells_shape)
        validation.check_same_size(OWNER, 0, inputs=inputs_shape, memory=memory_shape)


def check_memory(layer, memory_shape, memory_cells_shape):
    """Raises `ValueError` unless these hidden states and cells fit the layer."""
    shapes = {"memory": tuple(memory_shape), "memory_cells": tuple(memory_cells_shape)}
    for name, shape in shapes.items():
        validation.check_axes(OWNER, name, shape, "(batch, source, dim)")
    for axis in (0, 1):
        validation.check_same_size(OWNER, axis, "Each state has one cell.", **shapes)
    if shapes["memory_cells"][-1] != layer.units:
        raise ValueError(
            f"{OWNER} adds `memory_cells` to its own cell of width {layer.units}; project with "
            f"`keras.layers.Dense`. Received: memory_cells.shape={shapes['memory_cells']}"
        )
    if layer.built and shapes["memory"][-1] != layer.memory_dim:
        raise ValueError(
            f"{OWNER} was built for `memory` of width {layer.memory_dim}. "
            f"Received: memory.shape={shapes['memory']}"
        )


def compute_output_specs(layer, call):
    """Returns the symbolic outputs of a call."""
    batch, time = call.inputs.shape[:2]
    max_states = None if time is None else time + 1

    def spec(*shape, dtype=layer.compute_dtype):
        return keras.KerasTensor((batch, *shape), dtype=dtype)

    weights = [spec(time, max_states)]
    state = {
        "key": spec(max_states, layer.attention_units or layer.units),
        "value": spec(max_states, 2 * layer.units),
        "mask": spec(max_states, dtype="bool"),
        "attended": spec(layer.units),
        "position": spec(dtype="int32"),
    }
    if layer.fusion:
        weights.append(spec(time, call.memory.shape[1]))
        state["memory_attended"] = spec(call.memory.shape[-1])
    return select_outputs(
        spec(time, layer.units),
        (call.return_cells, spec(time, layer.units)),
        *((call.return_attention_scores, one) for one in weights),
        (call.return_state, state),
    )
