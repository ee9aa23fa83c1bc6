"""Shape checks and output shapes of `LSTMN`."""

import keras

from keras_attention import validation

OWNER = "LSTMN"


def check_shapes(layer, inputs_shape, memory_shape=None, memory_cells_shape=None):
    """Raises `ValueError` unless the layer can be called with such tensors."""
    if len(inputs_shape) != 3 or inputs_shape[-1] is None:
        raise ValueError(
            f"{OWNER} expects `inputs` of shape (batch, time, input_dim) with a known last "
            f"dimension. Received: inputs.shape={tuple(inputs_shape)}"
        )
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
        validation.check_same_dim(OWNER, 0, inputs=inputs_shape, memory=memory_shape)


def check_memory(layer, memory_shape, memory_cells_shape):
    """Raises `ValueError` unless these hidden states and cells fit the layer."""
    shapes = {"memory": tuple(memory_shape), "memory_cells": tuple(memory_cells_shape)}
    for name, shape in shapes.items():
        if len(shape) != 3 or shape[-1] is None:
            raise ValueError(
                f"{OWNER} expects `{name}` of shape (batch, source, dim) with a known last "
                f"dimension. Received: {name}.shape={shape}"
            )
    for axis in (0, 1):
        validation.check_same_dim(OWNER, axis, "Each state has one cell.", **shapes)
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


def check_mask(inputs_shape, mask, inputs_mask):
    """Returns the mask of the inputs, or None."""
    masks = {"mask": mask, "inputs_mask": inputs_mask}
    return validation.resolve_mask(OWNER, inputs_shape[:2], "(batch, time)", **masks)


def compute_output_specs(layer, inputs, memory, cells, weights, state):
    """Returns the symbolic outputs of a call; the last three select the requested outputs."""
    batch, time = inputs.shape[:2]
    max_states = None if time is None else time + 1

    def spec(*shape, dtype=layer.compute_dtype):
        return keras.KerasTensor((batch, *shape), dtype=dtype)

    results = [spec(time, layer.units)]
    if cells:
        results.append(spec(time, layer.units))
    if weights:
        results.append(spec(time, max_states))
        results += [spec(time, memory.shape[1])] if layer.fusion else []
    if state:
        last = {
            "key": spec(max_states, layer.attention_units or layer.units),
            "value": spec(max_states, 2 * layer.units),
            "mask": spec(max_states, dtype="bool"),
            "attended": spec(layer.units),
            "position": spec(dtype="int32"),
        }
        if layer.fusion:
            last["memory_attended"] = spec(memory.shape[-1])
        results.append(last)
    return results[0] if len(results) == 1 else tuple(results)
