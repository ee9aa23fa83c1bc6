"""The gated unit of RNNsearch over a whole sequence, with its gradient written out.

Forward, as in `bahdanau_gru`, with x_t already projected and k_t the mask:

    z, r = sigmoid(x_t + s U_zr)      c = tanh(x_t + (r * s) U_c)      s' = s + k z (c - s)

An automatic gradient adds up the gradient of U in every step of the backward loop, a thin
product and a pass over the whole matrix each time. Here the loop carries only the gradient of
the state and gives out that of the pre-activations; the gradients of the matrices are one
product each, after the loop. The numbers are the same.
"""

from keras import ops

from keras_attention.loop import run_loop
from keras_attention.written_gradient import custom_gradient, flat_upstream, summed_product


def gru_sequence(projected, state, recurrent_kernel, mask=None):
    """Runs the unit over time.

    Args:
        projected: Float tensor `(batch, time, 3 * units)`, what `BahdanauGRUCell.project`
            returns for all steps.
        state: Float tensor `(batch, units)`, the state before the first step.
        recurrent_kernel: Float tensor `(units, 3 * units)`.
        mask: Optional boolean `(batch, time)`; a step that is False copies the state.

    Returns:
        The states `(batch, time, units)`; a masked step repeats the state before it.
    """
    if mask is None:
        kept = ops.ones_like(projected[:, :, :1])
    else:
        kept = ops.cast(mask, projected.dtype)[:, :, None]

    @custom_gradient
    def run(projected, state, recurrent_kernel, kept):
        units = recurrent_kernel.shape[0]

        def step(inputs, states):
            update, reset, candidate = gates(inputs[:, :-1], states[0], recurrent_kernel)
            new = states[0] + inputs[:, -1:] * update * (candidate - states[0])
            return ops.concatenate([new, update, reset, candidate], axis=-1), [new]

        saved, _ = run_loop(step, ops.concatenate([projected, kept], axis=-1), [state])
        states = saved[:, :, :units]
        previous = ops.concatenate([state[:, None], states[:, :-1]], axis=1)

        def gradient(*upstream):
            (states_gradient,) = flat_upstream(upstream)

            def back(inputs, carried):
                gradient, before, update, reset, candidate, keep = split(inputs, units, 5)
                gradient = gradient + carried[0]
                given, before_gradient = gates_gradient(
                    gradient * keep, before, update, reset, candidate, recurrent_kernel
                )
                return given, [before_gradient + (1.0 - keep) * gradient]

            sequence = ops.concatenate(
                [states_gradient, previous, saved[:, :, units:], kept], axis=-1
            )
            given, carried = run_loop(back, ops.flip(sequence, 1), [ops.zeros_like(state)])
            given = ops.flip(given, 1)
            kernel_gradient = recurrent_kernel_gradient(
                previous, saved[:, :, 2 * units : 3 * units], given
            )
            return given, carried[0], kernel_gradient, ops.zeros_like(kept)

        return states, gradient

    return run(projected, state, recurrent_kernel, kept)


def gates(projected, state, recurrent_kernel):
    """Returns update gate, reset gate and candidate, `(batch, units)` each."""
    units = recurrent_kernel.shape[0]
    both = ops.sigmoid(
        projected[:, : 2 * units] + ops.matmul(state, recurrent_kernel[:, : 2 * units])
    )
    update, reset = both[:, :units], both[:, units:]
    candidate = ops.tanh(
        projected[:, 2 * units :] + ops.matmul(reset * state, recurrent_kernel[:, 2 * units :])
    )
    return update, reset, candidate


def gates_gradient(gradient, state, update, reset, candidate, recurrent_kernel):
    """Returns the gradients of the pre-activations `(batch, 3 * units)` and of the old state."""
    units = recurrent_kernel.shape[0]
    candidate_gradient = gradient * update * (1.0 - candidate * candidate)
    update_gradient = gradient * (candidate - state) * update * (1.0 - update)
    reset_state = ops.matmul(candidate_gradient, ops.transpose(recurrent_kernel[:, 2 * units :]))
    reset_gradient = reset_state * state * reset * (1.0 - reset)
    both = ops.concatenate([update_gradient, reset_gradient], axis=-1)
    through_gates = ops.matmul(both, ops.transpose(recurrent_kernel[:, : 2 * units]))
    state_gradient = gradient * (1.0 - update) + reset_state * reset + through_gates
    return ops.concatenate([both, candidate_gradient], axis=-1), state_gradient


def recurrent_kernel_gradient(previous, reset, given):
    """Returns the gradient of the recurrent kernel from all steps at once."""
    units = reset.shape[-1]
    gates_part = summed_product(previous, given[:, :, : 2 * units])
    candidate_part = summed_product(reset * previous, given[:, :, 2 * units :])
    return ops.concatenate([gates_part, candidate_part], axis=-1)


def split(tensor, units, count):
    """Returns `count` pieces of `units` columns, then what is left."""
    pieces = [tensor[:, index * units : (index + 1) * units] for index in range(count)]
    return (*pieces, tensor[:, count * units :])
