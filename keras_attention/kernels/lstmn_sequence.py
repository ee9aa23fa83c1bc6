"""The long short-term memory-network over a whole sequence, with its custom gradient (VJP).

An automatic gradient stores the memory cells and hidden states as they were at every step,
`(batch, time, time, units)` several times. But slots are only appended: every slot a step attended
to is also in the final state, and the weights show which slots the step saw. So the forward loop
returns the results of each step, none larger than the weights' `(batch, time, max_states)`. The
backward loop uses the final slots, recomputes tanh, and carries the gradient of the slots. As in
`gru_sequence`, the gradients of the matrices are one product each, after the loop.
`keras_attention.recurrent._lstmn_step` has equations and names.
"""

from collections.abc import Callable

from keras import ops

from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Tensor, TensorDict, TensorLike
from keras_attention.kernels.custom_gradients import (
    custom_gradient,
    flatten_cotangents,
    sum_outer_products,
)
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.recurrent._lstmn_step import (
    compute_projected_sizes,
    make_initial_state,
    split_columns,
    step,
)

OUTPUTS = ("hidden", "cell", "attended", "weights")
MEMORY_OUTPUTS = ("memory_attended", "memory_weights")
SAVED = ("query", "context", "gates")
MEMORY_SAVED = ("memory_query", "memory_context", "memory_gate")


def lstmn_sequence(
    projected: TensorLike,
    mask: TensorLike,
    weights: TensorDict,
    memory: TensorDict | None = None,
    normalize: Callable[[Tensor, Tensor], TensorLike] | None = None,
) -> TensorDict:
    """Runs the network over time.

    Args:
        projected: Float tensor `(batch, time, projected_dim)`, see `_lstmn_step`.
        mask: Boolean `(batch, time)`; steps with False copy the state and return 0.
        weights: Dict of weights, see `_lstmn_step`.
        memory: With deep fusion, the dict that `_lstmn_step.step` takes.
        normalize: Callable `(scores, mask) -> weights`. By default the softmax, which has
            a custom gradient here; any other has the automatic gradient.

    Returns:
        A dict of `hidden` and `cell` `(batch, time, units)`, `weights` `(batch, time,
        time + 1)`, `attended` `(batch, time, units)`, the h~ that each step passes on, and with
        deep fusion `memory_weights` and `memory_attended`.
    """
    valid = ops.cast(mask, projected.dtype)[:, :, None]
    names = OUTPUTS if memory is None else OUTPUTS + MEMORY_OUTPUTS
    if normalize is not None:
        outputs, _ = _forward(projected, valid, weights, memory, names, normalize)
    else:
        outputs = _run_with_custom_gradient(projected, valid, weights, memory, names)
    return dict(zip(names, outputs, strict=True))


def _forward(projected, valid, weights, memory, names, normalize):
    """Returns the named tensors of every step, and the final state."""

    def forward_step(inputs, states):
        keep = inputs[:, -1:] > 0
        step_outputs, state = step(inputs[:, :-1], states[0], weights, memory, keep, normalize)
        step_outputs |= {
            name: ops.where(keep, step_outputs[name], 0)
            for name in ("hidden", "cell", "weights", "memory_weights")
            if name in step_outputs
        }
        step_outputs |= {
            name: state[name] for name in ("attended", "memory_attended") if name in state
        }
        return tuple(step_outputs[name] for name in names), [state]

    batch, time = get_shape(projected)[:2]
    state = make_initial_state(batch, time + 1, weights, projected.dtype)
    outputs, states = run_loop(forward_step, ops.concatenate([projected, valid], axis=-1), [state])
    return outputs, states[0]


def _run_with_custom_gradient(projected, valid, weights, memory, names):
    """Returns the named tensors of every step, with a custom gradient."""
    order = sorted(weights)
    source = []
    if memory is not None:
        source = [memory["key"], memory["value"], ops.cast(memory["mask"], projected.dtype)]

    @custom_gradient
    def run(projected, valid, *tensors):
        weights = dict(zip(order, tensors, strict=False))
        memory = None
        if len(tensors) > len(order):
            key, value, source_mask = tensors[len(order) :]
            memory = {"key": key, "value": value, "mask": source_mask > 0}
        saved_names = SAVED if memory is None else SAVED + MEMORY_SAVED
        results, state = _forward(
            projected, valid, weights, memory, names + saved_names, masked_softmax
        )
        step_outputs = dict(zip(names + saved_names, results, strict=True))

        def gradient(*cotangents):
            cotangents = dict(zip(names, flatten_cotangents(cotangents), strict=True))
            past_states = {"key": state["key"], "value": state["value"]}
            step_gradients = _backward(
                cotangents, step_outputs, valid, weights, past_states, memory
            )
            gradients = _compute_weight_gradients(step_outputs, weights, step_gradients)
            results = [
                step_gradients["projected"],
                ops.zeros_like(valid),
                *(gradients[n] for n in order),
            ]
            if memory is not None:
                of_value = ops.einsum(
                    "bts,btd->bsd", step_outputs["memory_weights"], step_gradients["memory_context"]
                )
                results += [step_gradients["memory_key"], of_value, ops.zeros_like(source_mask)]
            return tuple(results)

        return results[: len(names)], gradient

    return run(projected, valid, *(weights[name] for name in order), *source)


def _backward(cotangents, step_outputs, valid, weights, past_states, memory):
    """Runs the steps in reverse; returns the gradients of the results of each step."""
    units, query_units = weights["query"].shape
    batch, max_states = get_shape(past_states["key"])[:2]
    wanted = {"valid": valid}
    wanted |= {f"d_{name}": tensor for name, tensor in cotangents.items()}
    wanted |= {name: step_outputs[name] for name in ("cell", *SAVED)}
    if memory is not None:
        wanted |= {name: step_outputs[name] for name in MEMORY_SAVED}
    # Unknown lengths come last, so that slices before them stay static.
    wanted |= {
        name: step_outputs[name] for name in ("weights", "memory_weights") if name in step_outputs
    }
    wanted = dict(sorted(wanted.items(), key=lambda item: item[0].endswith("weights")))
    sizes = [get_shape(tensor)[-1] for tensor in wanted.values()]

    def backward_step(inputs, states):
        residuals = dict(zip(wanted, split_columns(inputs, sizes), strict=True))
        return _step_gradient(residuals, states[0], weights, past_states, memory)

    carried = {
        "key": ops.zeros_like(past_states["key"]),
        "value": ops.zeros_like(past_states["value"]),
        "attended": ops.zeros_like(step_outputs["attended"][:, 0]),
        "position": ops.zeros((batch,), dtype="int32") + (max_states - 1),
    }
    if memory is not None:
        carried["memory_attended"] = ops.zeros_like(step_outputs["memory_attended"][:, 0])
        carried["memory_key"] = ops.zeros_like(memory["key"])
    sequence = ops.concatenate(list(wanted.values()), axis=-1)
    outputs, states = run_loop(backward_step, ops.flip(sequence, 1), [carried])
    names = ["projected", "vector", "key"]
    if memory is not None:
        names += ["memory_vector", "memory_context"]
    step_gradients = {
        name: ops.flip(output, 1) for name, output in zip(names, outputs, strict=True)
    }
    if memory is not None:
        step_gradients["memory_key"] = states[0]["memory_key"]
    return step_gradients


def _step_gradient(residuals, carried, weights, past_states, memory):
    """Returns the gradients of one step: (outputs of the loop), [carried state]."""
    units = weights["recurrent"].shape[0]
    keep = residuals["valid"]
    here = (
        ops.arange(get_shape(past_states["key"])[1], dtype="int32") == carried["position"][:, None]
    )
    here = ops.cast(here, keep.dtype)
    d_key = ops.einsum("bs,bsu->bu", here, carried["key"])
    d_hidden, d_cell = split_columns(
        ops.einsum("bs,bsd->bd", here, carried["value"]), [units, units]
    )
    d_hidden = d_hidden + residuals["d_hidden"] + ops.matmul(d_key, ops.transpose(weights["key"]))
    d_hidden, d_cell = d_hidden * keep, (d_cell + residuals["d_cell"]) * keep

    input_gate, forget_gate, candidate, output_gate = split_columns(residuals["gates"], [units] * 4)
    tanh_cell = ops.tanh(residuals["cell"])
    d_cell = d_cell + d_hidden * output_gate * (1.0 - tanh_cell * tanh_cell)
    d_gates = ops.concatenate(
        [
            d_cell * candidate * input_gate * (1.0 - input_gate),
            d_cell * residuals["context"][:, units:] * forget_gate * (1.0 - forget_gate),
            d_cell * input_gate * (1.0 - candidate * candidate),
            d_hidden * tanh_cell * output_gate * (1.0 - output_gate),
        ],
        axis=-1,
    )
    handed = residuals["d_attended"] + carried["attended"]
    d_attended = handed * keep + ops.matmul(d_gates, ops.transpose(weights["recurrent"]))
    d_reading = ops.concatenate([d_attended, d_cell * forget_gate], axis=-1)
    d_pairs, d_vector = _attention_gradient(
        d_reading,
        residuals["d_weights"] * keep,
        residuals["weights"],
        residuals["query"],
        weights["vector"],
        past_states,
    )
    d_query = ops.sum(d_pairs, axis=1)
    new = {
        "key": carried["key"] + d_pairs,
        "value": carried["value"] + residuals["weights"][:, :, None] * d_reading[:, None, :],
        "attended": handed * (1.0 - keep) + ops.matmul(d_query, ops.transpose(weights["query"])),
        "position": carried["position"] - 1,
    }
    projected, step_gradients = [d_query, d_gates], [d_vector, d_key]
    if memory is not None:
        of_projected, of_memory, fused = _fusion_gradient(
            residuals, carried, d_cell, weights, memory
        )
        projected, step_gradients, new = (
            projected + of_projected,
            step_gradients + of_memory,
            new | fused,
        )
    return (ops.concatenate(projected, axis=-1), *step_gradients), [new]


def _fusion_gradient(residuals, carried, d_cell, weights, memory):
    """Returns the contribution of deep fusion to the gradient of a step."""
    memory_dim = weights["memory_query"].shape[0]
    keep, gate = residuals["valid"], residuals["memory_gate"]
    d_gate = d_cell * residuals["memory_context"][:, memory_dim:] * gate * (1.0 - gate)
    handed = residuals["d_memory_attended"] + carried["memory_attended"]
    d_attended = handed * keep + ops.matmul(d_gate, ops.transpose(weights["memory_gate"]))
    d_reading = ops.concatenate([d_attended, d_cell * gate], axis=-1)
    d_pairs, d_vector = _attention_gradient(
        d_reading,
        residuals["d_memory_weights"] * keep,
        residuals["memory_weights"],
        residuals["memory_query"],
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


def _attention_gradient(d_reading, d_weights, weights, query, vector, source):
    """Returns the gradient of `_lstmn_step.attend` with one query per batch element.

    Returns:
        The gradients of every pair's pre-activation, `(batch, max_states, query_units)`, and of
        the vector, per batch element.
    """
    d_weights = d_weights + ops.einsum("bd,bsd->bs", d_reading, source["value"])
    mean = ops.sum(weights * d_weights, axis=-1, keepdims=True)
    d_scores = weights * (d_weights - mean)
    pairs = ops.tanh(query[:, None, :] + source["key"])
    d_vector = ops.einsum("bs,bsu->bu", d_scores, pairs)
    return d_scores[:, :, None] * (vector * (1.0 - pairs * pairs)), d_vector


def _compute_weight_gradients(step_outputs, weights, step_gradients):
    """Returns the gradients of the weights from those of all steps."""
    units = weights["recurrent"].shape[0]
    query, gates, *of_memory = split_columns(
        step_gradients["projected"], compute_projected_sizes(weights)
    )
    gradients = {
        "query": sum_outer_products(_shift_right(step_outputs["attended"]), query),
        "key": sum_outer_products(step_outputs["hidden"], step_gradients["key"]),
        "vector": ops.sum(step_gradients["vector"], axis=(0, 1)),
        "recurrent": sum_outer_products(step_outputs["context"][:, :, :units], gates),
    }
    if of_memory:
        query, gate = of_memory
        attended = step_outputs["memory_context"][:, :, : weights["memory_query"].shape[0]]
        gradients |= {
            "memory_query": sum_outer_products(
                _shift_right(step_outputs["memory_attended"]), query
            ),
            "memory_vector": ops.sum(step_gradients["memory_vector"], axis=(0, 1)),
            "memory_gate": sum_outer_products(attended, gate),
        }
    return gradients


def _shift_right(sequence):
    """Returns the sequence one step later, with zeros first: the input state of each step."""
    return ops.concatenate([ops.zeros_like(sequence[:, :1]), sequence[:, :-1]], axis=1)
