"""A Neural Turing Machine over a whole sequence, with its custom gradient (VJP).

An automatic gradient stores many tensors of the memory's size per step and accumulates the
gradients of all kernels in every step of the backward loop. Here the forward loop returns the
memory once per step, beside small tensors. The residuals that the backward loop needs are computed
before it, for all steps at once. The loop carries only the gradient of the state, and the
gradients of the kernels are one product each, after it. The numbers are the same.

Internally, a memory has its slots on the last axis, `(batch, word_size, memory_size)`: slots are
many and treated alike, so they vectorize well, while words are short and of odd sizes.
The state is a dict of `controller` (list), `memory`, `reads` and `weights` of all heads.
"""

from typing import TYPE_CHECKING

import keras
from keras import ops

from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import TensorDict, TensorLike
from keras_attention.kernels.custom_gradients import (
    custom_gradient,
    flatten_cotangents,
    sum_outer_products,
)
from keras_attention.kernels.ntm_controllers import FeedForwardVJP, LSTMStackVJP, matmul_float32
from keras_attention.kernels.ntm_gradients import (
    access_gradient,
    addressing_gradient,
    compute_addressing_residuals,
    dot_with_slots,
    outer_product_slots_last,
    read_slots,
)
from keras_attention.ntm.addressing import interpolate, sharpen
from keras_attention.scorers.cosine import inverse_norms

if TYPE_CHECKING:
    from keras_attention.ntm._heads import HeadLayout

OUTPUTS = ("hidden", "reads", "weights", "memory")


def ntm_sequence(
    projected: TensorLike,
    valid: TensorLike,
    state: TensorDict,
    kernels: TensorDict,
    heads: "HeadLayout",
    controller: FeedForwardVJP | LSTMStackVJP,
    read_from: str,
    return_memory: bool,
) -> TensorDict:
    """Runs the machine over time.

    Args:
        projected: Float tensor `(batch, time, projected_dim)`, the result of the controller's
            `project`.
        valid: Float tensor `(batch, time, 1)`; where it is 0 the step copies the state.
        state: The state before the first step.
        kernels: Dict of `heads` (kernel and bias) and `controller` (list).
        heads: A `HeadLayout`.
        controller: The result of `make_custom_gradient_controller`.
        read_from: "written" or "previous".
        return_memory: Whether to return the memory of every step.

    Returns:
        A dict of `hidden` `(batch, time, units)`, `reads` `(batch, time, read_heads * word_size)`,
        `weights` `(batch, time, heads, memory_size)` and, if requested, `memory`
        `(batch, time, word_size, memory_size)`, the memory before each step; and the final state.
    """
    names = OUTPUTS if return_memory else OUTPUTS[:-1]
    tree = {"projected": projected, "valid": valid, "state": state, "kernels": kernels}
    structure = []

    @custom_gradient
    def run(*tensors):
        given = keras.tree.pack_sequence_as(tree, list(tensors))
        machine = _NTMSequence(given["kernels"], heads, controller, read_from)
        step_outputs, last = machine.forward(given["projected"], given["valid"], given["state"])
        results = ({name: step_outputs[name] for name in names}, last)
        structure.append(results)

        def gradient(*cotangents):
            cotangents = keras.tree.pack_sequence_as(results, list(flatten_cotangents(cotangents)))
            gradients = machine.backward(given, step_outputs, *cotangents)
            return tuple(keras.tree.flatten(gradients))

        return keras.tree.flatten(results), gradient

    flat = run(*keras.tree.flatten(tree))
    return keras.tree.pack_sequence_as(structure[0], list(flat))


class _NTMSequence:
    """Forward and backward loop; `kernels` are tensors, and nothing else is closed over."""

    def __init__(self, kernels, heads, controller, read_from):
        self.kernels, self.heads = kernels, heads
        self.controller, self.read_from = controller, read_from

    def forward(self, projected, valid, state):
        """Returns the results of every step, and the final state."""
        structure = []

        def step(inputs, states):
            step_outputs, new = self._step(inputs[:, :-1], inputs[:, -1:], states[0])
            structure.append(step_outputs)
            return tuple(keras.tree.flatten(step_outputs)), [new]

        outputs, (last,) = run_loop(step, ops.concatenate([projected, valid], axis=-1), [state])
        return keras.tree.pack_sequence_as(structure[0], list(outputs)), last

    def _step(self, projected, is_valid, residuals):
        kernel, bias = self.kernels["heads"]
        heads, memory = self.heads, residuals["memory"]
        hidden, states, saved = self.controller.step(
            projected, residuals["reads"], residuals["controller"], self.kernels["controller"]
        )
        row = matmul_float32(hidden, kernel) + ops.cast(bias, hidden.dtype)
        parameters = heads.parameters(heads.split(row))
        similarity = dot_with_slots(parameters["key"], memory)
        similarity = similarity * inverse_norms(parameters["key"])[:, :, None]
        scales = inverse_norms(memory, axis=1)
        similarity = similarity * scales[:, None, :]
        content = ops.softmax(parameters["strength"] * similarity)
        gated = interpolate(content, residuals["weights"], parameters["gate"][:, :, 0])
        shifted = heads.shift.apply(gated, parameters["shift"])
        weights = sharpen(shifted, parameters["sharpening"][:, :, 0])
        written = self._write_memory(
            memory, weights[:, heads.num_read :] * is_valid[:, :, None], parameters
        )
        source = written if self.read_from == "written" else memory
        reads = read_slots(weights[:, : heads.num_read], source)
        reads = ops.reshape(reads, (-1, heads.num_read * heads.word_size))
        is_valid = is_valid > 0
        new = {
            "controller": [
                ops.where(is_valid, after, before)
                for after, before in zip(states, residuals["controller"], strict=True)
            ],
            "reads": ops.where(is_valid, reads, residuals["reads"]),
            "weights": ops.where(is_valid[:, :, None], weights, residuals["weights"]),
        }
        step_outputs = {"hidden": hidden, "row": row, "similarity": similarity, "saved": saved}
        step_outputs["scales"] = scales
        return step_outputs | {"memory": memory} | new, new | {"memory": written}

    def _write_memory(self, memory, writing, parameters):
        heads = range(self.heads.num_write)
        for head in heads:
            memory = memory * (1.0 - outer_product_slots_last(writing, parameters["erase"], head))
        for head in heads:
            memory = memory + outer_product_slots_last(writing, parameters["addition"], head)
        return memory

    def backward(self, given, step_outputs, cotangents, last_upstream):
        """Returns the gradients of all tensors that were passed to `ntm_sequence`."""
        kernel, bias = self.kernels["heads"]
        # Time first, as the loop wrote it, so XLA neither copies the history nor gathers steps.
        valid, step_outputs, cotangents = keras.tree.map_structure(
            _transpose_time, (given["valid"], step_outputs, cotangents)
        )
        state = given["state"]
        before = {
            name: keras.tree.map_structure(_shift_right, state[name], step_outputs[name])
            for name in ("controller", "reads", "weights")
        }
        residuals = self._compute_residuals(valid, step_outputs, before) | {
            "cotangents": cotangents
        }
        kernels = {
            "heads": ops.transpose(kernel),
            "controller": self.controller.backward_weights(self.kernels["controller"]),
        }

        def step(_, states):
            position = states[0]["position"]
            here = keras.tree.map_structure(lambda tensor: tensor[position], residuals)
            outputs, new = self._step_gradient(here, states[0], kernels)
            return outputs, [new | {"position": position - 1}]

        last = ops.cast(get_shape(valid)[0], "int32") - 1
        outputs, (first,) = run_loop(step, given["valid"], [last_upstream | {"position": last}])
        row, *insides = [ops.flip(_transpose_time(output), 0) for output in outputs]
        first.pop("position")
        pairs = list(zip(before["controller"], step_outputs["controller"], strict=True))
        of_heads = [
            ops.cast(sum_outer_products(step_outputs["hidden"], row), kernel.dtype),
            ops.cast(ops.sum(row, axis=(0, 1)), bias.dtype),
        ]
        of_controller = self.controller.weight_gradients(
            insides, before["reads"], pairs, self.kernels["controller"]
        )
        return {
            "projected": _transpose_time(insides[0]),
            "valid": ops.zeros_like(given["valid"]),
            "state": first,
            "kernels": {"heads": of_heads, "controller": of_controller},
        }

    def _compute_residuals(self, valid, step_outputs, before):
        """Returns the residuals that do not depend on the backward loop, `(time, batch, ...)`."""
        heads = self.heads
        steps = get_shape(valid)[:2]

        def rows(tensor):
            return ops.reshape(tensor, (-1, *tensor.shape[2:]))

        row = rows(step_outputs["row"])
        raw = heads.split(row)
        parameters = heads.parameters(raw)
        shift_weights = heads.shift.shift_weights(raw["shift"])
        prepared = {
            "addressing": compute_addressing_residuals(
                parameters,
                shift_weights,
                rows(step_outputs["similarity"]),
                rows(step_outputs["scales"]),
                rows(before["weights"]),
            ),
            "erase": parameters["erase"],
            "addition": parameters["addition"],
            "shift": raw["shift"],
            "slopes": heads.compute_slopes(raw, parameters, row),
        }
        prepared = keras.tree.map_structure(
            lambda tensor: ops.reshape(tensor, (*steps, *tensor.shape[1:])), prepared
        )
        return prepared | {
            "valid": valid,
            "reading": step_outputs["weights"][:, :, : heads.num_read],
            "writing": step_outputs["weights"][:, :, heads.num_read :] * valid[:, :, :, None],
            "before": before["controller"],
            "after": step_outputs["controller"],
            **{name: step_outputs[name] for name in ("hidden", "saved", "weights", "memory")},
        }

    def _step_gradient(self, residuals, given, kernels):
        """Runs one step of the backward loop; returns (gradients of inputs), state gradient."""
        heads, is_valid = self.heads, residuals["valid"]
        keep_all, memory = is_valid[:, :, None], residuals["memory"]
        of_reads = given["reads"] + residuals["cotangents"]["reads"]
        of_weights = given["weights"] + residuals["cotangents"]["weights"]
        of_reading = ops.reshape(of_reads * is_valid, (-1, heads.num_read, heads.word_size))
        of_memory, of_read, of_writing, of_erase, of_addition = access_gradient(
            given["memory"], memory, residuals, of_reading, self.read_from
        )
        of_heads = [of_read, of_writing * keep_all]
        gradients, through_similarity, of_previous = addressing_gradient(
            of_weights * keep_all + ops.concatenate(of_heads, axis=1),
            residuals["addressing"],
            memory,
            residuals["weights"],
        )
        of_shift = heads.shift.shift_weights_gradient(
            gradients.pop("shift_weights"),
            residuals["shift"],
            residuals["addressing"]["shift_weights"],
        )
        parts = gradients | {"shift": of_shift, "erase": of_erase, "addition": of_addition}
        row = heads.join(parts) * residuals["slopes"]
        insides, feedback, controller = self.controller.step_gradient(
            matmul_float32(row, kernels["heads"]) + residuals["cotangents"]["hidden"],
            given["controller"],
            is_valid,
            residuals,
            kernels["controller"],
        )
        of_memory = of_memory + through_similarity
        if "memory" in residuals["cotangents"]:
            of_memory = of_memory + residuals["cotangents"]["memory"]
        return (row, *insides), {
            "controller": controller,
            "memory": of_memory,
            "reads": feedback + (1.0 - is_valid) * of_reads,
            "weights": of_previous + (1.0 - keep_all) * of_weights,
        }


def _transpose_time(sequence):
    """Swaps the batch and the time axis of `(batch, time, ...)`."""
    return ops.swapaxes(sequence, 0, 1)


def _shift_right(first, sequence):
    """Returns the sequence one step later, with `first` in front: each step's initial value."""
    return ops.concatenate([first[None], sequence[:-1]], axis=0)
