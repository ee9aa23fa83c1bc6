"""A Neural Turing Machine over a whole sequence, with its gradient written out.

An automatic gradient keeps many tensors of the memory's size a step and adds up the gradients of
all kernels in every step of the backward loop. Here the forward loop gives out the memory once a
step, beside short rows. What the backward loop needs of them is computed before it, for all steps
at once; the loop carries only the gradient of the state; the gradients of the kernels are one
product each, after it. The numbers are the same.

Inside, a memory has its slots last, `(batch, slot_dim, slots)`: there are many of them, and what
a processor does with one it does with the next, while a slot is short and of an odd size.
The state is a dict of `controller` (list), `memory`, `reads` and `weights`, all heads together.
"""

import keras
from keras import ops

from keras_attention.loop import run_loop
from keras_attention.memory.addressing import interpolate, sharpen
from keras_attention.memory.gradients import (
    access_gradient,
    addressed,
    addressing_gradient,
    columns,
    over_dim,
    over_slots,
)
from keras_attention.memory.written_out import product
from keras_attention.scorers.cosine import inverse_norms
from keras_attention.written_gradient import custom_gradient, flat_upstream, summed_product

OUTPUTS = ("hidden", "reads", "weights", "memory")


def ntm_sequence(projected, kept, state, kernels, heads, controller, read_from, with_memory):
    """Runs the machine over time.

    Args:
        projected: Float tensor `(batch, time, projected_dim)`, what the controller's `project`
            returned.
        kept: Float tensor `(batch, time, 1)`; where it is 0 the step copies the state.
        state: The state before the first step.
        kernels: Dict of `heads` (kernel and bias) and `controller` (list).
        heads: A `Heads`.
        controller: One of `written_out`.
        read_from: "written" or "previous".
        with_memory: Whether the memory of every step is wanted.

    Returns:
        A dict of `hidden` `(batch, time, units)`, `reads` `(batch, time, read_heads * slot_dim)`,
        `weights` `(batch, time, heads, slots)` and, if it is wanted, `memory`
        `(batch, time, slot_dim, slots)`, the memory before each step; and the last state.
    """
    names = OUTPUTS if with_memory else OUTPUTS[:-1]
    tree = {"projected": projected, "kept": kept, "state": state, "kernels": kernels}
    structure = []

    @custom_gradient
    def run(*tensors):
        given = keras.tree.pack_sequence_as(tree, list(tensors))
        machine = _Machine(given["kernels"], heads, controller, read_from)
        done, last = machine.forward(given["projected"], given["kept"], given["state"])
        results = ({name: done[name] for name in names}, last)
        structure.append(results)

        def gradient(*upstream):
            upstream = keras.tree.pack_sequence_as(results, list(flat_upstream(upstream)))
            gradients = machine.backward(given, done, *upstream)
            return tuple(keras.tree.flatten(gradients))

        return keras.tree.flatten(results), gradient

    flat = run(*keras.tree.flatten(tree))
    return keras.tree.pack_sequence_as(structure[0], list(flat))


class _Machine:
    """The two loops; `kernels` are tensors, so that nothing is closed over but them."""

    def __init__(self, kernels, heads, controller, read_from):
        self.kernels, self.heads = kernels, heads
        self.controller, self.read_from = controller, read_from

    def forward(self, projected, kept, state):
        """Returns what every step computed, and the last state."""
        structure = []

        def step(inputs, states):
            done, new = self._step(inputs[:, :-1], inputs[:, -1:], states[0])
            structure.append(done)
            return tuple(keras.tree.flatten(done)), [new]

        outputs, (last,) = run_loop(step, ops.concatenate([projected, kept], axis=-1), [state])
        return keras.tree.pack_sequence_as(structure[0], list(outputs)), last

    def _step(self, projected, keep, now):
        kernel, bias = self.kernels["heads"]
        heads, memory = self.heads, now["memory"]
        hidden, states, saved = self.controller.step(
            projected, now["reads"], now["controller"], self.kernels["controller"]
        )
        row = product(hidden, kernel) + ops.cast(bias, hidden.dtype)
        parameters = heads.parameters(heads.split(row))
        similarity = over_dim(parameters["key"], memory)
        similarity = similarity * inverse_norms(parameters["key"])[:, :, None]
        scales = inverse_norms(memory, axis=1)
        similarity = similarity * scales[:, None, :]
        content = ops.softmax(parameters["strength"] * similarity)
        gated = interpolate(content, now["weights"], parameters["gate"][:, :, 0])
        shifted = heads.shift.apply(gated, parameters["shift"])
        weights = sharpen(shifted, parameters["sharpening"][:, :, 0])
        written = self._written(memory, weights[:, heads.num_read :] * keep[:, :, None], parameters)
        source = written if self.read_from == "written" else memory
        reads = over_slots(weights[:, : heads.num_read], source)
        reads = ops.reshape(reads, (-1, heads.num_read * heads.slot_dim))
        keep = keep > 0
        new = {
            "controller": [
                ops.where(keep, after, before)
                for after, before in zip(states, now["controller"], strict=True)
            ],
            "reads": ops.where(keep, reads, now["reads"]),
            "weights": ops.where(keep[:, :, None], weights, now["weights"]),
        }
        done = {"hidden": hidden, "row": row, "similarity": similarity, "saved": saved}
        done["scales"] = scales
        return done | {"memory": memory} | new, new | {"memory": written}

    def _written(self, memory, writing, parameters):
        heads = range(self.heads.num_write)
        for head in heads:
            memory = memory * (1.0 - columns(writing, parameters["erase"], head))
        for head in heads:
            memory = memory + columns(writing, parameters["addition"], head)
        return memory

    def backward(self, given, done, upstream, last_upstream):
        """Returns the gradients of all tensors that `ntm_sequence` was given."""
        kernel, bias = self.kernels["heads"]
        # Time first, as the loop wrote it: XLA then neither copies the history nor gathers steps.
        kept, done, upstream = keras.tree.map_structure(_turned, (given["kept"], done, upstream))
        state = given["state"]
        before = {
            name: keras.tree.map_structure(_before, state[name], done[name])
            for name in ("controller", "reads", "weights")
        }
        now = self._prepared(kept, done, before) | {"upstream": upstream}
        kernels = {
            "heads": ops.transpose(kernel),
            "controller": self.controller.backward_weights(self.kernels["controller"]),
        }

        def step(_, states):
            position = states[0]["position"]
            here = keras.tree.map_structure(lambda tensor: tensor[position], now)
            outputs, new = self._step_back(here, states[0], kernels)
            return outputs, [new | {"position": position - 1}]

        last = ops.cast(ops.shape(kept)[0], "int32") - 1
        outputs, (first,) = run_loop(step, given["kept"], [last_upstream | {"position": last}])
        row, *insides = [ops.flip(_turned(output), 0) for output in outputs]
        first.pop("position")
        pairs = list(zip(before["controller"], done["controller"], strict=True))
        of_heads = [
            ops.cast(summed_product(done["hidden"], row), kernel.dtype),
            ops.cast(ops.sum(row, axis=(0, 1)), bias.dtype),
        ]
        of_controller = self.controller.weight_gradients(
            insides, before["reads"], pairs, self.kernels["controller"]
        )
        return {
            "projected": _turned(insides[0]),
            "kept": ops.zeros_like(given["kept"]),
            "state": first,
            "kernels": {"heads": of_heads, "controller": of_controller},
        }

    def _prepared(self, kept, done, before):
        """Returns what the backward loop needs that does not depend on it, `(time, batch, ...)`."""
        heads = self.heads
        steps = ops.shape(kept)[:2]

        def rows(tensor):
            return ops.reshape(tensor, (-1, *tensor.shape[2:]))

        row = rows(done["row"])
        raw = heads.split(row)
        parameters = heads.parameters(raw)
        shares = heads.shift.shares(raw["shift"])
        prepared = {
            "addressed": addressed(
                parameters,
                shares,
                rows(done["similarity"]),
                rows(done["scales"]),
                rows(before["weights"]),
            ),
            "erase": parameters["erase"],
            "addition": parameters["addition"],
            "shift": raw["shift"],
            "slopes": heads.slopes(raw, parameters, row),
        }
        prepared = keras.tree.map_structure(
            lambda tensor: ops.reshape(tensor, (*steps, *tensor.shape[1:])), prepared
        )
        return prepared | {
            "kept": kept,
            "reading": done["weights"][:, :, : heads.num_read],
            "writing": done["weights"][:, :, heads.num_read :] * kept[:, :, :, None],
            "before": before["controller"],
            "after": done["controller"],
            **{name: done[name] for name in ("hidden", "saved", "weights", "memory")},
        }

    def _step_back(self, now, given, kernels):
        """One step of the backward loop: (what is given out), the state's gradient."""
        heads, keep = self.heads, now["kept"]
        keep_all, memory = keep[:, :, None], now["memory"]
        of_reads = given["reads"] + now["upstream"]["reads"]
        of_weights = given["weights"] + now["upstream"]["weights"]
        of_reading = ops.reshape(of_reads * keep, (-1, heads.num_read, heads.slot_dim))
        of_memory, of_read, of_writing, of_erase, of_addition = access_gradient(
            given["memory"], memory, now, of_reading, self.read_from
        )
        of_heads = [of_read, of_writing * keep_all]
        gradients, through_similarity, of_previous = addressing_gradient(
            of_weights * keep_all + ops.concatenate(of_heads, axis=1),
            now["addressed"],
            memory,
            now["weights"],
        )
        of_shift = heads.shift.shares_gradient(
            gradients.pop("shares"), now["shift"], now["addressed"]["shares"]
        )
        parts = gradients | {"shift": of_shift, "erase": of_erase, "addition": of_addition}
        row = heads.join(parts) * now["slopes"]
        insides, fed, controller = self.controller.step_gradient(
            product(row, kernels["heads"]) + now["upstream"]["hidden"],
            given["controller"],
            keep,
            now,
            kernels["controller"],
        )
        of_memory = of_memory + through_similarity
        if "memory" in now["upstream"]:
            of_memory = of_memory + now["upstream"]["memory"]
        return (row, *insides), {
            "controller": controller,
            "memory": of_memory,
            "reads": fed + (1.0 - keep) * of_reads,
            "weights": of_previous + (1.0 - keep_all) * of_weights,
        }


def _turned(sequence):
    """Returns `(time, batch, ...)` of `(batch, time, ...)`, and the other way round."""
    return ops.swapaxes(sequence, 0, 1)


def _before(first, sequence):
    """Returns what each step began with: the sequence one step later, `first` in front."""
    return ops.concatenate([first[None], sequence[:-1]], axis=0)
