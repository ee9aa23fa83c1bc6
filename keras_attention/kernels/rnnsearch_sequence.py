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

from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Tensor, TensorDict, TensorLike
from keras_attention.attention import Attention, BahdanauAttention
from keras_attention.kernels import execution_mode
from keras_attention.kernels.custom_gradients import (
    custom_gradient,
    flatten_cotangents,
    sum_outer_products,
)
from keras_attention.kernels.gru_sequence import (
    gru_gates,
    gru_gates_gradient,
    split_kernel,
    split_units,
)
from keras_attention.kernels.xla_barriers import store_step_product
from keras_attention.normalizers import SoftmaxNormalizer
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.recurrent.bahdanau_gru import BahdanauGRUCell
from keras_attention.scorers import AdditiveScorer

if TYPE_CHECKING:
    from keras_attention.recurrent.attention_rnn import AttentionRNN


def rnnsearch_sequence(
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
        query_dim, source_length = query_kernel.shape[-1], get_shape(key)[1]
        dtype, wide = projected.dtype, wide_dtype(projected.dtype)
        gates_kernel, candidate_kernel = split_kernel(recurrent_kernel)
        state_kernel = ops.concatenate([query_kernel, gates_kernel], axis=-1)

        def step(inputs, states):
            products = store_step_product(ops.matmul(states[0], state_kernel))
            query, gates = products[:, :query_dim], products[:, query_dim:]
            scores = ops.einsum("bsu,u->bs", ops.tanh(query[:, None, :] + key), vector)
            attention = masked_softmax(ops.cast(scores, wide), valid > 0)
            attention = ops.cast(attention, dtype)
            context = ops.einsum("bs,bsd->bd", attention, value)
            inputs = inputs + store_step_product(ops.matmul(context, context_kernel))
            update, reset, candidate = gru_gates(inputs, gates, states[0], candidate_kernel)
            new = states[0] + update * (candidate - states[0])
            saved = [new, update, reset, candidate, context, attention]
            return ops.concatenate(saved, axis=-1), [new]

        saved, _ = run_loop(step, projected, [state])
        states = _take_columns(saved, 0, units)
        contexts = _take_columns(saved, 4 * units, value_dim)
        attentions = saved[:, :, 4 * units + value_dim :]
        previous = ops.concatenate([state[:, None], states[:, :-1]], axis=1)

        def gradient(*cotangents):
            states_gradient, contexts_gradient, attentions_gradient = flatten_cotangents(cotangents)
            shape = (*get_shape(previous)[:2], query_dim)
            queries = ops.reshape(
                ops.matmul(ops.reshape(previous, (-1, units)), query_kernel), shape
            )
            transposed_state, transposed_candidate, transposed_context = map(
                ops.transpose, (state_kernel, candidate_kernel, context_kernel)
            )

            def backward_step(inputs, carried):
                carried_state, key_gradient = carried
                gradient, before, update, reset, candidate, rest = split_units(inputs, units, 5)
                query, rest = rest[:, :query_dim], rest[:, query_dim:]
                attention = ops.cast(rest[:, :source_length], wide)
                attention_gradient = rest[:, source_length:]

                cotangents, before_gradient = gru_gates_gradient(
                    gradient + carried_state, before, update, reset, candidate, transposed_candidate
                )
                context_gradient = ops.matmul(
                    ops.concatenate(cotangents, axis=-1), transposed_context
                )
                attention_gradient = ops.cast(
                    attention_gradient + ops.einsum("bd,bsd->bs", context_gradient, value), wide
                )
                mean = ops.sum(attention * attention_gradient, axis=-1, keepdims=True)
                scores_gradient = ops.cast(attention * (attention_gradient - mean), dtype)
                pairs = ops.tanh(query[:, None, :] + key)
                vector_gradient = ops.einsum("bs,bsu->bu", scores_gradient, pairs)
                pairs_gradient = scores_gradient[:, :, None] * (vector * (1.0 - pairs * pairs))
                query_gradient = ops.sum(pairs_gradient, axis=1)
                products = ops.concatenate([query_gradient, *cotangents[:2]], axis=-1)
                before_gradient = before_gradient + store_step_product(
                    ops.matmul(products, transposed_state)
                )
                outputs = [query_gradient, *cotangents, context_gradient, vector_gradient]
                return ops.concatenate(outputs, axis=-1), [
                    before_gradient,
                    key_gradient + pairs_gradient,
                ]

            # The part of the weights' gradient that needs no turn of the loop.
            contexts_part = ops.einsum("btd,bsd->bts", contexts_gradient, value)
            sequence = [states_gradient, previous, saved[:, :, units : 4 * units], queries]
            sequence += [attentions, attentions_gradient + contexts_part]
            outputs, (state_gradient, key_gradient) = run_loop(
                backward_step,
                ops.flip(ops.concatenate(sequence, axis=-1), 1),
                [ops.zeros_like(state), ops.zeros_like(key)],
            )
            outputs = ops.flip(outputs, 1)
            gates_end, cotangent_end = query_dim + 2 * units, query_dim + 3 * units
            cotangent = _take_columns(outputs, query_dim, 3 * units)
            context_end = cotangent_end + value_dim
            context_gradients = contexts_gradient + outputs[:, :, cotangent_end:context_end]
            state_kernel_gradient = sum_outer_products(
                previous, _take_columns(outputs, 0, gates_end)
            )
            candidate_gradient = sum_outer_products(
                saved[:, :, 2 * units : 3 * units] * previous,
                _take_columns(outputs, gates_end, units),
            )
            recurrent_kernel_gradient = ops.concatenate(
                [state_kernel_gradient[:, query_dim:], candidate_gradient], axis=-1
            )
            return (
                cotangent,
                state_gradient,
                recurrent_kernel_gradient,
                sum_outer_products(contexts, cotangent),
                state_kernel_gradient[:, :query_dim],
                ops.sum(outputs[:, :, context_end:], axis=(0, 1)),
                key_gradient,
                ops.einsum("bts,btd->bsd", attentions, context_gradients),
                ops.zeros_like(valid),
            )

        return (states, contexts, attentions), gradient

    return run(projected, state, *weights, memory["key"], memory["value"], valid)


def _take_columns(sequence, first, size):
    """Returns `size` columns; their number is static even if the length of the source is not."""
    columns = sequence[:, :, first : first + size]
    if columns.shape[-1] is None:
        columns = ops.reshape(columns, (*get_shape(sequence)[:2], size))
    return columns


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
        and (recurrence.compute_dtype in ("float32", "float64") or _is_bfloat16_on_gpu(recurrence))
    )


def _is_bfloat16_on_gpu(recurrence):
    """Returns whether the loop replaces one of twice as many launches, and of less precision."""
    return recurrence.compute_dtype == "bfloat16" and execution_mode.has_gpu()


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
    outputs, contexts, attention = rnnsearch_sequence(projected, state["cell"][0], weights, memory)
    position = state["position"] + get_shape(inputs)[1]
    state = {"cell": [outputs[:, -1]], "position": position}
    return outputs, contexts, attention, {}, state
