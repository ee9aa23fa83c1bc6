"""The recurrence of RNNsearch over a whole target, with a custom gradient (VJP).

    q = s W_q     e_j = v . tanh(q + p_j)     a = masked softmax(e)     c = sum_j a_j h_j
    s' = GRU(x + c C, s)

Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473), A.2.2. p_j = U_a h_j is prepared once per
source, and x_t = W E y_{t-1} is projected for all steps at once. As in `gru_sequence`, the backward
loop returns the gradients of each matrix product. The gradients of the matrices and of the values
are one product each, after the loop. The loop keeps none of its large tensors,
`(batch, source, units)`: the backward loop recomputes tanh(q + p_j).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras import ops

from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Tensor, TensorDict, TensorLike
from keras_attention.attention import Attention, BahdanauAttention
from keras_attention.kernels.custom_gradients import (
    custom_gradient,
    flatten_cotangents,
    sum_outer_products,
)
from keras_attention.kernels.gru_sequence import (
    gru_gates,
    gru_gates_gradient,
    recurrent_kernel_gradient,
    split_units,
)
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.recurrent.bahdanau_gru import BahdanauGRUCell
from keras_attention.scorers import AdditiveScorer

if TYPE_CHECKING:
    from keras_attention.recurrent.attention_rnn import AttentionRNN


def attention_gru_sequence(
    projected: TensorLike, state: TensorLike, weights: Sequence[TensorLike], memory: TensorDict
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs attention and the gated unit over time, with attention before each update.

    Args:
        projected: Float tensor `(batch, time, 3 * units)`.
        state: Float tensor `(batch, units)`.
        weights: Tuple of the recurrent kernel `(units, 3 * units)`, the context's part of the
            input kernel `(value_dim, 3 * units)`, the query kernel
            `(units, attention_units)` and the vector `(attention_units,)`.
        memory: Dict of `key` `(batch, source, attention_units)`, `value`
            `(batch, source, value_dim)` and boolean `mask` `(batch, source)`.

    Returns:
        States `(batch, time, units)`, contexts `(batch, time, value_dim)` and attention
        weights `(batch, time, source)`.
    """
    valid = ops.cast(memory["mask"], projected.dtype)

    @custom_gradient
    def run(projected, state, recurrent_kernel, context_kernel, query_kernel, vector, *source):
        key, value, valid = source
        units, value_dim = recurrent_kernel.shape[0], context_kernel.shape[0]

        def step(inputs, states):
            query = ops.matmul(states[0], query_kernel)
            scores = ops.einsum("bsu,u->bs", ops.tanh(query[:, None, :] + key), vector)
            attention = masked_softmax(scores, valid > 0)
            context = ops.einsum("bs,bsd->bd", attention, value)
            inputs = inputs + ops.matmul(context, context_kernel)
            update, reset, candidate = gru_gates(inputs, states[0], recurrent_kernel)
            new = states[0] + update * (candidate - states[0])
            saved = ops.concatenate([new, update, reset, candidate], axis=-1)
            return (saved, context, attention), [new]

        (saved, contexts, attentions), _ = run_loop(step, projected, [state])
        states = saved[:, :, :units]
        previous = ops.concatenate([state[:, None], states[:, :-1]], axis=1)

        def gradient(*cotangents):
            states_gradient, contexts_gradient, attentions_gradient = flatten_cotangents(cotangents)
            shape = (*get_shape(previous)[:2], query_kernel.shape[-1])
            queries = ops.reshape(
                ops.matmul(ops.reshape(previous, (-1, units)), query_kernel), shape
            )

            def backward_step(inputs, carried):
                carried_state, key_gradient = carried
                gradient, before, update, reset, candidate, rest = split_units(inputs, units, 5)
                context_gradient, query = rest[:, :value_dim], rest[:, value_dim:]
                query = query[:, : query_kernel.shape[-1]]
                rest = rest[:, value_dim + query_kernel.shape[-1] :]
                source_length = get_shape(key)[1]
                attention, attention_gradient = rest[:, :source_length], rest[:, source_length:]

                cotangent, before_gradient = gru_gates_gradient(
                    gradient + carried_state, before, update, reset, candidate, recurrent_kernel
                )
                context_gradient = context_gradient + ops.matmul(
                    cotangent, ops.transpose(context_kernel)
                )
                attention_gradient = attention_gradient + ops.einsum(
                    "bd,bsd->bs", context_gradient, value
                )
                mean = ops.sum(attention * attention_gradient, axis=-1, keepdims=True)
                scores_gradient = attention * (attention_gradient - mean)
                pairs = ops.tanh(query[:, None, :] + key)
                vector_gradient = ops.einsum("bs,bsu->bu", scores_gradient, pairs)
                pairs_gradient = scores_gradient[:, :, None] * (vector * (1.0 - pairs * pairs))
                query_gradient = ops.sum(pairs_gradient, axis=1)
                before_gradient = before_gradient + ops.matmul(
                    query_gradient, ops.transpose(query_kernel)
                )
                outputs = [cotangent, context_gradient, query_gradient, vector_gradient]
                return tuple(outputs), [before_gradient, key_gradient + pairs_gradient]

            sequence = ops.concatenate(
                [
                    states_gradient,
                    previous,
                    saved[:, :, units:],
                    contexts_gradient,
                    queries,
                    attentions,
                    attentions_gradient,
                ],
                axis=-1,
            )
            outputs, (state_gradient, key_gradient) = run_loop(
                backward_step, ops.flip(sequence, 1), [ops.zeros_like(state), ops.zeros_like(key)]
            )
            cotangent, context_gradients, query_gradients, vector_gradients = (
                ops.flip(output, 1) for output in outputs
            )
            return (
                cotangent,
                state_gradient,
                recurrent_kernel_gradient(previous, saved[:, :, 2 * units : 3 * units], cotangent),
                sum_outer_products(contexts, cotangent),
                sum_outer_products(previous, query_gradients),
                ops.sum(vector_gradients, axis=(0, 1)),
                key_gradient,
                ops.einsum("bts,btd->bsd", attentions, context_gradients),
                ops.zeros_like(valid),
            )

        return (states, contexts, attentions), gradient

    return run(projected, state, *weights, memory["key"], memory["value"], valid)


def supports(recurrence: "AttentionRNN", training: bool | None) -> bool:
    """Returns whether an `AttentionRNN` is that of RNNsearch, which `run` can compute."""
    attention = recurrence.attention
    return (
        recurrence.order == "bahdanau"
        and type(recurrence.cell) is BahdanauGRUCell
        and type(attention) in (Attention, BahdanauAttention)
        and type(attention.scorer) is AdditiveScorer
        and type(attention.normalizer) is SoftmaxNormalizer
        and not (training and attention.dropout > 0)
        and not recurrence.attention_history
        and recurrence.compute_dtype == attention.compute_dtype
        and recurrence.compute_dtype in ("float32", "float64")
    )


def run(
    recurrence: "AttentionRNN", inputs: TensorLike, state: TensorDict, memory: TensorDict
) -> tuple[Tensor, Tensor, Tensor, TensorDict, TensorDict]:
    """Does the work of `AttentionRNN.run`, for a recurrence that `supports` accepts."""
    dtype, cell = recurrence.compute_dtype, recurrence.cell
    scorer = recurrence.attention.scorer
    weights = (
        ops.cast(cell.recurrent_kernel, dtype),
        ops.cast(cell.kernel, dtype)[recurrence.input_dim :],
        scorer.cast_weight(scorer.query_kernel),
        scorer.scoring_vector(),
    )
    projected = cell.project(ops.cast(inputs, dtype))
    outputs, contexts, attention = attention_gru_sequence(
        projected, state["cell"][0], weights, memory
    )
    position = state["position"] + get_shape(inputs)[1]
    state = {"cell": [outputs[:, -1]], "position": position}
    return outputs, contexts, attention, {}, state
