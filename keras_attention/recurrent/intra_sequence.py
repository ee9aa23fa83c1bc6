"""The long short-term memory-network over a whole sequence, with its gradient written out.

An automatic gradient keeps the tape as it was at every step, `(batch, time, time, units)`
several times over. But a tape only grows: what a step read is on the last tape too, and the
weights say which slots it saw. So the forward loop gives out what each step computed, nothing
of it longer than the weights' `(batch, time, slots)`; the backward loop reads the last tape,
computes tanh again, and carries the gradient of the tape. As in `gru_sequence`, the gradients
of the matrices are one product each, after the loop. `intra_step` has equations and names.
"""

from keras import ops

from keras_attention.loop import run_loop
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.recurrent.intra_step import (
    columns,
    first_state,
    projected_sizes,
    step,
)
from keras_attention.written_gradient import custom_gradient, flat_upstream, summed_product

OUTPUTS = ("hidden", "cell", "attended", "weights")
MEMORY_OUTPUTS = ("memory_attended", "memory_weights")
SAVED = ("query", "reading", "gates")
MEMORY_SAVED = ("memory_query", "memory_reading", "memory_gate")


def intra_sequence(projected, mask, weights, memory=None, normalize=None):
    """Runs the network over time.

    Args:
        projected: Float tensor `(batch, time, projected_dim)`, see `intra_step`.
        mask: Boolean `(batch, time)`; a step that is False copies the state and gives 0.
        weights: Dict of weights, see `intra_step`.
        memory: With deep fusion, the dict that `intra_step.step` takes.
        normalize: Callable from scores and a mask to weights. By default the softmax, whose
            gradient is written out; any other has the automatic gradient.

    Returns:
        A dict of `hidden` and `cell` `(batch, time, units)`, `weights` `(batch, time,
        time + 1)`, `attended` `(batch, time, units)`, the h~ each step hands on, and with
        deep fusion `memory_weights` and `memory_attended`.
    """
    kept = ops.cast(mask, projected.dtype)[:, :, None]
    names = OUTPUTS if memory is None else OUTPUTS + MEMORY_OUTPUTS
    if normalize is not None:
        outputs, _ = _forward(projected, kept, weights, memory, names, normalize)
    else:
        outputs = _with_own_gradient(projected, kept, weights, memory, names)
    return dict(zip(names, outputs, strict=True))


def _forward(projected, kept, weights, memory, names, normalize):
    """Returns the named tensors of every step, and the last state."""

    def one(inputs, states):
        keep = inputs[:, -1:] > 0
        done, state = step(inputs[:, :-1], states[0], weights, memory, keep, normalize)
        done |= {
            name: ops.where(keep, done[name], 0)
            for name in ("hidden", "cell", "weights", "memory_weights")
            if name in done
        }
        done |= {name: state[name] for name in ("attended", "memory_attended") if name in state}
        return tuple(done[name] for name in names), [state]

    batch, time = ops.shape(projected)[:2]
    state = first_state(batch, time + 1, weights, projected.dtype)
    outputs, states = run_loop(one, ops.concatenate([projected, kept], axis=-1), [state])
    return outputs, states[0]


def _with_own_gradient(projected, kept, weights, memory, names):
    """Returns the named tensors of every step; their gradient is written out."""
    order = sorted(weights)
    source = []
    if memory is not None:
        source = [memory["key"], memory["value"], ops.cast(memory["mask"], projected.dtype)]

    @custom_gradient
    def run(projected, kept, *tensors):
        weights = dict(zip(order, tensors, strict=False))
        memory = None
        if len(tensors) > len(order):
            key, value, source_mask = tensors[len(order) :]
            memory = {"key": key, "value": value, "mask": source_mask > 0}
        saved_names = SAVED if memory is None else SAVED + MEMORY_SAVED
        results, state = _forward(
            projected, kept, weights, memory, names + saved_names, masked_softmax
        )
        done = dict(zip(names + saved_names, results, strict=True))

        def gradient(*upstream):
            upstream = dict(zip(names, flat_upstream(upstream), strict=True))
            tape = {"key": state["key"], "value": state["value"]}
            given = _backward(upstream, done, kept, weights, tape, memory)
            gradients = _weight_gradients(done, weights, given)
            results = [given["projected"], ops.zeros_like(kept), *(gradients[n] for n in order)]
            if memory is not None:
                of_value = ops.einsum(
                    "bts,btd->bsd", done["memory_weights"], given["memory_reading"]
                )
                results += [given["memory_key"], of_value, ops.zeros_like(source_mask)]
            return tuple(results)

        return results[: len(names)], gradient

    return run(projected, kept, *(weights[name] for name in order), *source)


def _backward(upstream, done, kept, weights, tape, memory):
    """Runs the steps in reverse; returns the gradients of what each step computed."""
    units, query_units = weights["query"].shape
    batch, slots = ops.shape(tape["key"])[:2]
    wanted = {"kept": kept}
    wanted |= {f"d_{name}": tensor for name, tensor in upstream.items()}
    wanted |= {name: done[name] for name in ("cell", *SAVED)}
    if memory is not None:
        wanted |= {name: done[name] for name in MEMORY_SAVED}
    # Unknown lengths come last: slices before them stay static.
    wanted |= {name: done[name] for name in ("weights", "memory_weights") if name in done}
    wanted = dict(sorted(wanted.items(), key=lambda item: item[0].endswith("weights")))
    sizes = [ops.shape(tensor)[-1] for tensor in wanted.values()]

    def back(inputs, states):
        now = dict(zip(wanted, columns(inputs, sizes), strict=True))
        return _step_back(now, states[0], weights, tape, memory)

    carried = {
        "key": ops.zeros_like(tape["key"]),
        "value": ops.zeros_like(tape["value"]),
        "attended": ops.zeros_like(done["attended"][:, 0]),
        "position": ops.zeros((batch,), dtype="int32") + (slots - 1),
    }
    if memory is not None:
        carried["memory_attended"] = ops.zeros_like(done["memory_attended"][:, 0])
        carried["memory_key"] = ops.zeros_like(memory["key"])
    sequence = ops.concatenate(list(wanted.values()), axis=-1)
    outputs, states = run_loop(back, ops.flip(sequence, 1), [carried])
    names = ["projected", "vector", "key"]
    if memory is not None:
        names += ["memory_vector", "memory_reading"]
    given = {name: ops.flip(output, 1) for name, output in zip(names, outputs, strict=True)}
    if memory is not None:
        given["memory_key"] = states[0]["memory_key"]
    return given


def _step_back(now, carried, weights, tape, memory):
    """The gradient of one step: (what is given out), [what is carried on]."""
    units = weights["recurrent"].shape[0]
    keep = now["kept"]
    here = ops.arange(ops.shape(tape["key"])[1], dtype="int32") == carried["position"][:, None]
    here = ops.cast(here, keep.dtype)
    d_key = ops.einsum("bs,bsu->bu", here, carried["key"])
    d_hidden, d_cell = columns(ops.einsum("bs,bsd->bd", here, carried["value"]), [units, units])
    d_hidden = d_hidden + now["d_hidden"] + ops.matmul(d_key, ops.transpose(weights["key"]))
    d_hidden, d_cell = d_hidden * keep, (d_cell + now["d_cell"]) * keep

    entry, forget, candidate, exit_gate = columns(now["gates"], [units] * 4)
    tanh_cell = ops.tanh(now["cell"])
    d_cell = d_cell + d_hidden * exit_gate * (1.0 - tanh_cell * tanh_cell)
    d_gates = ops.concatenate(
        [
            d_cell * candidate * entry * (1.0 - entry),
            d_cell * now["reading"][:, units:] * forget * (1.0 - forget),
            d_cell * entry * (1.0 - candidate * candidate),
            d_hidden * tanh_cell * exit_gate * (1.0 - exit_gate),
        ],
        axis=-1,
    )
    handed = now["d_attended"] + carried["attended"]
    d_attended = handed * keep + ops.matmul(d_gates, ops.transpose(weights["recurrent"]))
    d_reading = ops.concatenate([d_attended, d_cell * forget], axis=-1)
    d_pairs, d_vector = _read_back(
        d_reading, now["d_weights"] * keep, now["weights"], now["query"], weights["vector"], tape
    )
    d_query = ops.sum(d_pairs, axis=1)
    new = {
        "key": carried["key"] + d_pairs,
        "value": carried["value"] + now["weights"][:, :, None] * d_reading[:, None, :],
        "attended": handed * (1.0 - keep) + ops.matmul(d_query, ops.transpose(weights["query"])),
        "position": carried["position"] - 1,
    }
    projected, given = [d_query, d_gates], [d_vector, d_key]
    if memory is not None:
        of_projected, of_memory, fused = _memory_back(now, carried, d_cell, weights, memory)
        projected, given, new = projected + of_projected, given + of_memory, new | fused
    return (ops.concatenate(projected, axis=-1), *given), [new]


def _memory_back(now, carried, d_cell, weights, memory):
    """The part of deep fusion in the gradient of a step."""
    memory_dim = weights["memory_query"].shape[0]
    keep, gate = now["kept"], now["memory_gate"]
    d_gate = d_cell * now["memory_reading"][:, memory_dim:] * gate * (1.0 - gate)
    handed = now["d_memory_attended"] + carried["memory_attended"]
    d_attended = handed * keep + ops.matmul(d_gate, ops.transpose(weights["memory_gate"]))
    d_reading = ops.concatenate([d_attended, d_cell * gate], axis=-1)
    d_pairs, d_vector = _read_back(
        d_reading,
        now["d_memory_weights"] * keep,
        now["memory_weights"],
        now["memory_query"],
        weights["memory_vector"],
        memory,
    )
    d_query = ops.sum(d_pairs, axis=1)
    through_query = ops.matmul(d_query, ops.transpose(weights["memory_query"]))
    new = {
        "memory_key": carried["memory_key"] + d_pairs,
        "memory_attended": handed * (1.0 - keep) + through_query,
    }
    return [d_query, d_gate], [d_vector, d_reading], new


def _read_back(d_reading, d_weights, weights, query, vector, source):
    """The gradient of `intra_step.read` for one row a source.

    Returns:
        The gradients of every pair's pre-activation, `(batch, slots, query_units)`, and, a row
        each, of the vector.
    """
    d_weights = d_weights + ops.einsum("bd,bsd->bs", d_reading, source["value"])
    mean = ops.sum(weights * d_weights, axis=-1, keepdims=True)
    d_scores = weights * (d_weights - mean)
    pairs = ops.tanh(query[:, None, :] + source["key"])
    d_vector = ops.einsum("bs,bsu->bu", d_scores, pairs)
    return d_scores[:, :, None] * (vector * (1.0 - pairs * pairs)), d_vector


def _weight_gradients(done, weights, given):
    """Returns the gradients of the weights from those of all steps."""
    units = weights["recurrent"].shape[0]
    query, gates, *of_memory = columns(given["projected"], projected_sizes(weights))
    gradients = {
        "query": summed_product(_before(done["attended"]), query),
        "key": summed_product(done["hidden"], given["key"]),
        "vector": ops.sum(given["vector"], axis=(0, 1)),
        "recurrent": summed_product(done["reading"][:, :, :units], gates),
    }
    if of_memory:
        query, gate = of_memory
        attended = done["memory_reading"][:, :, : weights["memory_query"].shape[0]]
        gradients |= {
            "memory_query": summed_product(_before(done["memory_attended"]), query),
            "memory_vector": ops.sum(given["memory_vector"], axis=(0, 1)),
            "memory_gate": summed_product(attended, gate),
        }
    return gradients


def _before(sequence):
    """Returns what each step was handed: the sequence one step later, zeros first."""
    return ops.concatenate([ops.zeros_like(sequence[:, :1]), sequence[:, :-1]], axis=1)
