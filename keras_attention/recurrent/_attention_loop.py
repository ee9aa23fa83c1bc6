"""The loop over all steps of an `AttentionRNN`, in three forms.

If a step needs the attention of this or an earlier step, attention runs inside the loop. If none
does, the loop runs the cell alone, and attention for all steps runs at once after it. The
recurrence of RNNsearch has a loop with a custom gradient
(`keras_attention.kernels.rnnsearch_sequence`).
"""

import keras
from keras import ops

from keras_attention._utils.loop import run_loop
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.shapes import get_shape
from keras_attention.kernels import rnnsearch_sequence
from keras_attention.recurrent import _noise_inputs


def run(recurrence, inputs, state, memory, inputs_mask=None, training=None):
    """Runs all steps of `inputs` `(batch, time, input_dim)`.

    Args:
        recurrence: An `AttentionRNN`.
        inputs: Float tensor `(batch, time, input_dim)`.
        state: The state before the first step.
        memory: The result of `recurrence.prepare`.
        inputs_mask: Boolean `(batch, time)`, or None.
        training: Whether to apply dropout and sample noise.

    Returns:
        Outputs, contexts, weights, the dict of auxiliary outputs, and the final state.
    """
    if inputs_mask is not None:
        # Padding may contain anything, even NaN, which would reach the gradients of weights.
        inputs = zero_masked(inputs, inputs_mask)
    elif rnnsearch_sequence.supports(recurrence, training):
        return rnnsearch_sequence.run(recurrence, inputs, state, memory)
    batch, time = get_shape(inputs)[:2]
    noise = recurrence.attention.noise(batch, time, get_shape(memory["mask"])[1], training)
    projected = recurrence.adapter.project(ops.cast(inputs, recurrence.compute_dtype))
    loop = _attend_in_loop if recurrence.needs_attention_in_loop else _attend_after_loop
    with recurrence.adapter.dropout_masks(
        batch, recurrence.input_dim + recurrence.feedback_dim, training
    ):
        return loop(recurrence, projected, state, memory, noise, inputs_mask, training)


def _attend_in_loop(recurrence, projected, state, memory, noise, inputs_mask, training):
    names = recurrence.attention.auxiliary_outputs

    def step(step_inputs, states):
        step_inputs, step_noise = _noise_inputs.split_noise(
            step_inputs, projected.shape[-1], projected.dtype, noise
        )
        state = states[0]
        query, cell_state = recurrence.compute_query(step_inputs, state, training)
        context, weights, auxiliary_outputs, attention_state = recurrence.attention.attend(
            query,
            memory,
            state.get("weights"),
            state["position"],
            step_noise,
            training,
            return_auxiliary_outputs=True,
            state=state.get("attention"),
            return_state=True,
        )
        weights = recurrence.mean_over_heads(weights)
        output, new_state = recurrence.update_state(
            step_inputs, state, query, cell_state, context, weights, training, attention_state
        )
        # As columns, because the loop can mask only tensors of rank 2 or more.
        columns = [ops.expand_dims(auxiliary_outputs[name], 1) for name in names]
        return (output, context, weights, *columns), [new_state]

    sequence = _noise_inputs.append_noise(projected, noise)
    results, (state,) = run_loop(step, sequence, [state], mask=inputs_mask)
    outputs, contexts, weights, *columns = results
    auxiliary_outputs = {name: column[:, :, 0] for name, column in zip(names, columns, strict=True)}
    return outputs, contexts, weights, auxiliary_outputs, state


def _attend_after_loop(recurrence, projected, state, memory, noise, inputs_mask, training):
    position = state["position"]
    if inputs_mask is not None:  # as inside the loop, a masked step does not count
        steps = ops.cast(inputs_mask, position.dtype)
        position = position[:, None] + ops.cumsum(steps, axis=1) - steps

    def step(step_inputs, states):
        output, cell_state = recurrence.compute_query(step_inputs, states[0], training)
        return (output,), [{"cell": cell_state, "position": states[0]["position"] + 1}]

    (outputs,), (state,) = run_loop(step, projected, [state], mask=inputs_mask)
    contexts, weights, auxiliary_outputs = recurrence.attention.attend(
        outputs,
        memory,
        position=position,
        noise=noise,
        training=training,
        return_auxiliary_outputs=True,
        has_all_queries=True,
    )
    results = [
        recurrence.attentional_vector(contexts, outputs),
        contexts,
        recurrence.mean_over_heads(weights),
        auxiliary_outputs,
    ]
    if inputs_mask is not None:
        results = keras.tree.map_structure(lambda tensor: zero_masked(tensor, inputs_mask), results)
    return *results, state
