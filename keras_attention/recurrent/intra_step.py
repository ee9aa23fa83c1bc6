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

The states so far lie on a tape: `value` holds [h_i; c_i] in slot i, `key` W_h h_i, `mask` says
which slots are written. Code name -> paper name: `attended` -> h~_{t-1}, `reading` ->
[h~_t; c~_t], `memory` -> Y and A side by side, `memory_attended` -> y~_{t-1}. In `weights`:
`query` -> W_t, `key` -> W_h, `vector` -> v, `recurrent` -> the part of W that h~ meets, and
`memory_query` -> W_g', `memory_vector` -> u, `memory_gate` -> the part of W_r that y~ meets.
What x_t meets is computed for all steps at once: `projected` is [W_x x; W x + b; W_x' x;
W_r x + b_r]. Gates stand in the order of Keras: i, f, g, o.
"""

import keras
from keras import ops

from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.precision import wide_dtype


def first_state(rows, slots, weights, dtype):
    """Returns the state before the first step: a tape whose slot 0 is there and is 0.

    Args:
        rows: The number of rows, the batch.
        slots: The length of the tape: one more than the steps it has room for.
        weights: The weights, for their sizes.
        dtype: The dtype of the tape.
    """
    units, query_units = weights["query"].shape
    state = {
        "key": ops.zeros((rows, slots, query_units), dtype=dtype),
        "value": ops.zeros((rows, slots, 2 * units), dtype=dtype),
        "mask": ops.broadcast_to(ops.arange(slots, dtype="int32") == 0, (rows, slots)),
        "attended": ops.zeros((rows, units), dtype=dtype),
        "position": ops.zeros((rows,), dtype="int32"),
    }
    if "memory_query" in weights:
        memory_dim = weights["memory_query"].shape[0]
        state["memory_attended"] = ops.zeros((rows, memory_dim), dtype=dtype)
    return state


def columns(tensor, sizes):
    """Returns the last axis in pieces of `sizes`."""
    pieces, first = [], 0
    for size in sizes:
        pieces.append(tensor[..., first : first + size])
        first = first + size
    return pieces


def projected_sizes(weights):
    """Returns the widths of what the input meets, in the order of `projected`."""
    units, query_units = weights["query"].shape
    sizes = [query_units, 4 * units]
    return [*sizes, query_units, units] if "memory_query" in weights else sizes


def read(query, key, vector, value, mask, normalize=masked_softmax):
    """Attends with one query a row, or with several rows to one source.

    Args:
        query: Float tensor `(rows, query_units)`.
        key: Float tensor `(batch, slots, query_units)`; rows is a multiple of batch.
        vector: Float tensor `(query_units,)`.
        value: Float tensor `(batch, slots, value_dim)`.
        mask: Boolean `(batch, slots)`.
        normalize: Callable from scores in at least float32 and a mask to weights.

    Returns:
        Weights `(rows, slots)` and what was read, `(rows, value_dim)`.
    """
    rows, (batch, slots) = ops.shape(query)[0], ops.shape(mask)
    width = rows // (max(batch, 1) if isinstance(batch, int) else ops.maximum(batch, 1))
    queries = ops.reshape(query, (batch, width, 1, query.shape[-1]))
    scores = ops.einsum("bqsu,u->bqs", ops.tanh(queries + key[:, None]), vector)
    dtype = keras.backend.standardize_dtype(value.dtype)
    scores = ops.cast(scores, wide_dtype(dtype))
    mask = ops.broadcast_to(mask[:, None], ops.shape(scores))
    weights = ops.cast(normalize(scores, mask), dtype)
    reading = ops.einsum("bqs,bsd->bqd", weights, value)
    return ops.reshape(weights, (rows, slots)), ops.reshape(reading, (rows, value.shape[-1]))


def step(projected, state, weights, memory=None, kept=None, normalize=masked_softmax):
    """Does one step.

    Args:
        projected: Float tensor `(rows, projected_dim)`.
        state: The state, see `first_state`.
        weights: Dict of weights, see above.
        memory: With deep fusion, a dict of `key` `(batch, source, query_units)`, `value`
            `(batch, source, memory_dim + units)` and boolean `mask` `(batch, source)`.
        kept: Optional boolean `(rows, 1)`; a row that is False copies its state.
        normalize: Callable from scores and a mask to weights.

    Returns:
        A dict of what the step computed and the new state.
    """
    units = weights["recurrent"].shape[0]
    query, gates, *of_memory = columns(projected, projected_sizes(weights))
    query = query + ops.matmul(state["attended"], weights["query"])
    tape = state["key"], weights["vector"], state["value"], state["mask"]
    attention, reading = read(query, *tape, normalize)
    attended, cell = columns(reading, [units, units])
    gates = gates + ops.matmul(attended, weights["recurrent"])
    entry, keep, candidate, exit_gate = columns(gates, [units] * 4)
    entry, keep, exit_gate = (ops.sigmoid(gate) for gate in (entry, keep, exit_gate))
    candidate = ops.tanh(candidate)
    cell = keep * cell + entry * candidate
    done = {
        "query": query,
        "weights": attention,
        "reading": reading,
        "gates": ops.concatenate([entry, keep, candidate, exit_gate], axis=-1),
    }
    carried = {"attended": attended}
    if of_memory:
        fused = _read_memory(*of_memory, state, weights, memory, normalize)
        memory_attended, memory_cell = columns(
            fused["memory_reading"], [weights["memory_query"].shape[0], units]
        )
        cell = cell + fused["memory_gate"] * memory_cell
        done |= fused
        carried["memory_attended"] = memory_attended
    done |= {"hidden": exit_gate * ops.tanh(cell), "cell": cell}
    return done, _written(state, done, carried, weights, kept)


def _read_memory(query, gate, state, weights, memory, normalize):
    """What deep fusion adds to a step: y~, m~ and the gate r."""
    query = query + ops.matmul(state["memory_attended"], weights["memory_query"])
    source = memory["key"], weights["memory_vector"], memory["value"], memory["mask"]
    attention, reading = read(query, *source, normalize)
    attended = reading[:, : weights["memory_query"].shape[0]]
    gate = ops.sigmoid(gate + ops.matmul(attended, weights["memory_gate"]))
    return {
        "memory_query": query,
        "memory_weights": attention,
        "memory_reading": reading,
        "memory_gate": gate,
    }


def _written(state, done, carried, weights, kept):
    """Returns the state with the step's result on the tape, where it is kept."""
    position = state["position"] + 1
    here = (
        ops.arange(ops.shape(state["mask"])[1], dtype="int32") == position[:, None]
    )  # (rows, slots)
    if kept is not None:
        here = ops.logical_and(here, kept)
        carried = {name: ops.where(kept, tensor, state[name]) for name, tensor in carried.items()}
    value = ops.concatenate([done["hidden"], done["cell"]], axis=-1)
    key = ops.matmul(done["hidden"], weights["key"])
    return {
        "key": ops.where(here[:, :, None], key[:, None], state["key"]),
        "value": ops.where(here[:, :, None], value[:, None], state["value"]),
        "mask": ops.logical_or(state["mask"], here),
        "position": position,
        **carried,
    }
