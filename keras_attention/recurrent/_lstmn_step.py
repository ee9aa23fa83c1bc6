"""One step of the long short-term memory-network, Cheng et al. 2016
(https://arxiv.org/abs/1601.06733, sections 3.2 and 4).

    a_i    = v . tanh(W_h h_i + W_x x_t + W_t h~_{t-1})           i = 0 .. t-1, h_0 = c_0 = 0
    h~_t   = sum_i s_i h_i      c~_t = sum_i s_i c_i              s = softmax(a)
    i,f,o  = sigmoid(W [h~_t; x_t] + b)      g = tanh(...)
    c_t    = f * c~_t + i * g                h_t = o * tanh(c_t)

Deep fusion with an encoder's hidden states Y and cells A:

    b_j    = u . tanh(W_g Y_j + W_x' x_t + W_g' y~_{t-1})
    y~_t   = sum_j p_j Y_j      m~_t = sum_j p_j A_j              p = softmax(b)
    r      = sigmoid(W_r [y~_t; x_t] + b_r)
    c_t    = r * m~_t + f * c~_t + i * g

Slot i of the state holds the memory cell and hidden state of step i: `value` is [h_i; c_i], `key`
is W_h h_i, and `mask` is True at written slots. Code name -> paper name: `attended` -> h~_{t-1},
`context` -> [h~_t; c~_t], `memory` -> Y and A side by side, `memory_attended` -> y~_{t-1}. In
`weights`: `query` -> W_t, `key` -> W_h, `vector` -> v, `recurrent` -> the part of W that multiplies
h~, `memory_query` -> W_g', `memory_vector` -> u, `memory_gate` -> the part of W_r that multiplies
y~. The products with x_t are computed for all steps at once: `projected` is
[W_x x; W x + b; W_x' x; W_r x + b_r]. Gates are in the order of Keras: i, f, g, o.
"""

import keras
from keras import ops

from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.shapes import get_shape
from keras_attention.normalizers.softmax import masked_softmax


def make_initial_state(rows, max_states, weights, dtype):
    """Returns the state before the first step: slot 0 is written and is 0.

    Args:
        rows: The batch size.
        max_states: The number of slots: one more than the maximum number of steps.
        weights: The weights, from which sizes are taken.
        dtype: The dtype of the slots.
    """
    units, query_units = weights["query"].shape
    state = {
        "key": ops.zeros((rows, max_states, query_units), dtype=dtype),
        "value": ops.zeros((rows, max_states, 2 * units), dtype=dtype),
        "mask": ops.broadcast_to(ops.arange(max_states, dtype="int32") == 0, (rows, max_states)),
        "attended": ops.zeros((rows, units), dtype=dtype),
        "position": ops.zeros((rows,), dtype="int32"),
    }
    if "memory_query" in weights:
        memory_dim = weights["memory_query"].shape[0]
        state["memory_attended"] = ops.zeros((rows, memory_dim), dtype=dtype)
    return state


def split_columns(tensor, sizes):
    """Splits the last axis into pieces of `sizes`."""
    pieces, first = [], 0
    for size in sizes:
        pieces.append(tensor[..., first : first + size])
        first = first + size
    return pieces


def compute_projected_sizes(weights):
    """Returns the widths of the products with the input, in the order of `projected`."""
    units, query_units = weights["query"].shape
    sizes = [query_units, 4 * units]
    return [*sizes, query_units, units] if "memory_query" in weights else sizes


def attend(query, key, vector, value, mask, normalize=masked_softmax):
    """Attends with one query per source, or with the queries of several beams to one source.

    Args:
        query: Float tensor `(rows, query_units)`.
        key: Float tensor `(batch, max_states, query_units)`; rows is a multiple of batch.
        vector: Float tensor `(query_units,)`.
        value: Float tensor `(batch, max_states, value_dim)`.
        mask: Boolean `(batch, max_states)`.
        normalize: Callable `(scores, mask) -> weights`, for scores in at least float32.

    Returns:
        Weights `(rows, max_states)` and contexts `(rows, value_dim)`.
    """
    rows, (batch, max_states) = get_shape(query)[0], get_shape(mask)
    width = rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))
    queries = ops.reshape(query, (batch, width, 1, query.shape[-1]))
    scores = ops.einsum("bqsu,u->bqs", ops.tanh(queries + key[:, None]), vector)
    dtype = keras.backend.standardize_dtype(value.dtype)
    scores = ops.cast(scores, wide_dtype(dtype))
    mask = ops.broadcast_to(mask[:, None], get_shape(scores))
    weights = ops.cast(normalize(scores, mask), dtype)
    context = ops.einsum("bqs,bsd->bqd", weights, value)
    return ops.reshape(weights, (rows, max_states)), ops.reshape(context, (rows, value.shape[-1]))


def step(projected, state, weights, memory=None, valid=None, normalize=masked_softmax):
    """Runs one step.

    Args:
        projected: Float tensor `(rows, projected_dim)`.
        state: The state, see `make_initial_state`.
        weights: Dict of weights, see above.
        memory: With deep fusion, a dict of `key` `(batch, source, query_units)`, `value`
            `(batch, source, memory_dim + units)` and boolean `mask` `(batch, source)`.
        valid: Optional boolean `(rows, 1)`; elements with False copy their state.
        normalize: Callable `(scores, mask) -> weights`.

    Returns:
        A dict of the step's results, and the new state.
    """
    units = weights["recurrent"].shape[0]
    query, gates, *of_memory = split_columns(projected, compute_projected_sizes(weights))
    query = query + ops.matmul(state["attended"], weights["query"])
    past_states = state["key"], weights["vector"], state["value"], state["mask"]
    attention, context = attend(query, *past_states, normalize)
    attended, cell = split_columns(context, [units, units])
    gates = gates + ops.matmul(attended, weights["recurrent"])
    input_gate, forget_gate, candidate, output_gate = split_columns(gates, [units] * 4)
    input_gate, forget_gate, output_gate = (
        ops.sigmoid(gate) for gate in (input_gate, forget_gate, output_gate)
    )
    candidate = ops.tanh(candidate)
    cell = forget_gate * cell + input_gate * candidate
    step_outputs = {
        "query": query,
        "weights": attention,
        "context": context,
        "gates": ops.concatenate([input_gate, forget_gate, candidate, output_gate], axis=-1),
    }
    carried = {"attended": attended}
    if of_memory:
        fused = _attend_to_memory(*of_memory, state, weights, memory, normalize)
        memory_attended, memory_cell = split_columns(
            fused["memory_context"], [weights["memory_query"].shape[0], units]
        )
        cell = cell + fused["memory_gate"] * memory_cell
        step_outputs |= fused
        carried["memory_attended"] = memory_attended
    step_outputs |= {"hidden": output_gate * ops.tanh(cell), "cell": cell}
    return step_outputs, _update_state(state, step_outputs, carried, weights, valid)


def _attend_to_memory(query, gate, state, weights, memory, normalize):
    """Returns the terms of deep fusion in a step: y~, m~ and the gate r."""
    query = query + ops.matmul(state["memory_attended"], weights["memory_query"])
    source = memory["key"], weights["memory_vector"], memory["value"], memory["mask"]
    attention, context = attend(query, *source, normalize)
    attended = context[:, : weights["memory_query"].shape[0]]
    gate = ops.sigmoid(gate + ops.matmul(attended, weights["memory_gate"]))
    return {
        "memory_query": query,
        "memory_weights": attention,
        "memory_context": context,
        "memory_gate": gate,
    }


def _update_state(state, step_outputs, carried, weights, valid):
    """Returns the state with the step's result in its slot, unless the step is masked."""
    position = state["position"] + 1
    here = (
        ops.arange(get_shape(state["mask"])[1], dtype="int32") == position[:, None]
    )  # (rows, slots)
    if valid is not None:
        here = ops.logical_and(here, valid)
        carried = {name: ops.where(valid, tensor, state[name]) for name, tensor in carried.items()}
    value = ops.concatenate([step_outputs["hidden"], step_outputs["cell"]], axis=-1)
    key = ops.matmul(step_outputs["hidden"], weights["key"])
    return {
        "key": ops.where(here[:, :, None], key[:, None], state["key"]),
        "value": ops.where(here[:, :, None], value[:, None], state["value"]),
        "mask": ops.logical_or(state["mask"], here),
        "position": position,
        **carried,
    }
