"""The gated unit of RNNsearch over a whole sequence, with its custom gradient (VJP).

Forward, as in `bahdanau_gru`, with x_t already projected and k_t the mask:

    z, r = sigmoid(x_t + s U_zr)      c = tanh(x_t + (r * s) U_c)      s' = s + k z (c - s)

An automatic gradient accumulates the gradient of U in every step of the backward loop: a thin
product and a pass over the whole matrix each time. Here the loop carries only the gradient of
the state and returns that of the pre-activations. The gradients of the matrices are one product
each, after the loop. The numbers are the same.
"""

from keras import ops

from keras_attention._utils.loop import run_loop
from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.kernels.custom_gradients import (
    custom_gradient,
    flatten_cotangents,
    sum_outer_products,
)
from keras_attention.kernels.xla_barriers import store_step_product


def gru_sequence(
    projected: TensorLike,
    state: TensorLike,
    recurrent_kernel: TensorLike,
    mask: TensorLike | None = None,
) -> Tensor:
    """Runs the unit over time.

    Args:
        projected: Float tensor `(batch, time, 3 * units)`, the result of
            `BahdanauGRUCell.project` for all steps.
        state: Float tensor `(batch, units)`, the state before the first step.
        recurrent_kernel: Float tensor `(units, 3 * units)`.
        mask: Optional boolean `(batch, time)`; steps with False copy the state.

    Returns:
        The states `(batch, time, units)`; a masked step repeats the previous state.
    """
    if mask is None:
        valid = ops.ones_like(projected[:, :, :1])
    else:
        valid = ops.cast(mask, projected.dtype)[:, :, None]

    @custom_gradient
    def run(projected, state, recurrent_kernel, valid):
        units = recurrent_kernel.shape[0]
        gates_kernel, candidate_kernel = split_kernel(recurrent_kernel)

        def step(inputs, states):
            gates = store_step_product(ops.matmul(states[0], gates_kernel))
            update, reset, candidate = gru_gates(inputs[:, :-1], gates, states[0], candidate_kernel)
            new = states[0] + inputs[:, -1:] * update * (candidate - states[0])
            return ops.concatenate([new, update, reset, candidate], axis=-1), [new]

        saved, _ = run_loop(step, ops.concatenate([projected, valid], axis=-1), [state])
        states = saved[:, :, :units]
        previous = ops.concatenate([state[:, None], states[:, :-1]], axis=1)

        def gradient(*cotangents):
            (states_gradient,) = flatten_cotangents(cotangents)
            transposed_gates, transposed_candidate = map(
                ops.transpose, (gates_kernel, candidate_kernel)
            )

            def backward_step(inputs, carried):
                gradient, before, update, reset, candidate, keep = split_units(inputs, units, 5)
                gradient = gradient + carried[0]
                cotangents, before_gradient = gru_gates_gradient(
                    gradient * keep, before, update, reset, candidate, transposed_candidate
                )
                gates = ops.matmul(ops.concatenate(cotangents[:2], axis=-1), transposed_gates)
                before_gradient = before_gradient + store_step_product(gates)
                before_gradient = before_gradient + (1.0 - keep) * gradient
                return ops.concatenate(cotangents, axis=-1), [before_gradient]

            sequence = ops.concatenate(
                [states_gradient, previous, saved[:, :, units:], valid], axis=-1
            )
            cotangent, carried = run_loop(
                backward_step, ops.flip(sequence, 1), [ops.zeros_like(state)]
            )
            cotangent = ops.flip(cotangent, 1)
            gates_gradient = sum_outer_products(previous, cotangent[:, :, : 2 * units])
            reset_states = saved[:, :, 2 * units : 3 * units] * previous
            candidate_gradient = sum_outer_products(reset_states, cotangent[:, :, 2 * units :])
            kernel_gradient = ops.concatenate([gates_gradient, candidate_gradient], axis=-1)
            return cotangent, carried[0], kernel_gradient, ops.zeros_like(valid)

        return states, gradient

    return run(projected, state, recurrent_kernel, valid)


def split_kernel(recurrent_kernel: TensorLike) -> tuple[Tensor, Tensor]:
    """Returns U_zr `(units, 2 * units)` and U_c `(units, units)`.

    A loop splits the kernel before its first turn, as XLA would copy both parts in every turn.
    """
    units = recurrent_kernel.shape[0]
    return recurrent_kernel[:, : 2 * units], recurrent_kernel[:, 2 * units :]


def gru_gates(
    projected: TensorLike, gates: TensorLike, state: TensorLike, candidate_kernel: TensorLike
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns update gate, reset gate and candidate, `(batch, units)` each.

    Args:
        projected: Float tensor `(batch, 3 * units)`.
        gates: The product s U_zr, `(batch, 2 * units)`.
        state: Float tensor `(batch, units)`.
        candidate_kernel: U_c, or the whole kernel.
    """
    units = candidate_kernel.shape[0]
    both = ops.sigmoid(projected[:, : 2 * units] + gates)
    update, reset = both[:, :units], both[:, units:]
    product = store_step_product(ops.matmul(reset * state, candidate_kernel))
    if candidate_kernel.shape[1] > units:
        product = product[:, 2 * units :]
    return update, reset, ops.tanh(projected[:, 2 * units :] + product)


def gru_gates_gradient(
    gradient: TensorLike,
    state: TensorLike,
    update: TensorLike,
    reset: TensorLike,
    candidate: TensorLike,
    transposed_candidate: TensorLike,
) -> tuple[list[Tensor], Tensor]:
    """Returns the gradients of the three pre-activations and of the old state.

    That of the old state is without the part that passes through the product s U_zr.
    """
    candidate_gradient = gradient * update * (1.0 - candidate * candidate)
    update_gradient = gradient * (candidate - state) * update * (1.0 - update)
    reset_state = ops.matmul(candidate_gradient, transposed_candidate)
    reset_gradient = reset_state * state * reset * (1.0 - reset)
    state_gradient = gradient * (1.0 - update) + reset_state * reset
    return [update_gradient, reset_gradient, candidate_gradient], state_gradient


def split_units(tensor: TensorLike, units: int, count: int) -> tuple[Tensor, ...]:
    """Returns `count` pieces of `units` columns, then the remaining columns."""
    pieces = [tensor[:, index * units : (index + 1) * units] for index in range(count)]
    return (*pieces, tensor[:, count * units :])
