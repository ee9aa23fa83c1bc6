"""All steps of an `AttentionRNN`: the loop in its three forms.

Where a step needs the attention of this or an earlier step, attention runs inside the loop; where
none does, the loop is the cell's alone and attention reads for all steps at once, after it; and the
recurrence of RNNsearch has a loop with its own gradient (`attended_gru.py`).
"""

import keras
from keras import ops

from keras_attention.loop import run_loop
from keras_attention.recurrent import attended_gru, drawn


def run(recurrence, inputs, state, memory, inputs_mask=None, training=None):
    """Does all steps of `inputs` `(batch, time, input_dim)`.

    Args:
        recurrence: An `AttentionRNN`.
        inputs: Float tensor `(batch, time, input_dim)`.
        state: The state before the first step.
        memory: What `recurrence.prepare` returned.
        inputs_mask: Boolean `(batch, time)`, or None.
        training: Whether dropout is applied and noise is drawn.

    Returns:
        Outputs, contexts, weights, the dict of details, and the last state.
    """
    if inputs_mask is not None:
        # Padding may hold anything, even NaN, which would reach the gradients of weights.
        inputs = ops.where(inputs_mask[:, :, None], inputs, 0)
    elif attended_gru.covers(recurrence, training):
        return attended_gru.run(recurrence, inputs, state, memory)
    batch, time = ops.shape(inputs)[:2]
    noise = recurrence.attention.noise(batch, time, ops.shape(memory["mask"])[1], training)
    projected = recurrence.adapter.project(ops.cast(inputs, recurrence.compute_dtype))
    loop = _attend_inside if recurrence.recurrent_attention else _attend_after
    with recurrence.adapter.dropout_masks(
        batch, recurrence.input_dim + recurrence.fed_dim, training
    ):
        return loop(recurrence, projected, state, memory, noise, inputs_mask, training)


def _attend_inside(recurrence, projected, state, memory, noise, inputs_mask, training):
    names = recurrence.attention.details

    def step(step_inputs, states):
        step_inputs, step_noise = drawn.split(
            step_inputs, projected.shape[-1], projected.dtype, noise
        )
        (*outputs, details), new_state = recurrence.advance(
            step_inputs, states[0], memory, step_noise, training
        )
        # As columns, which the loop can mask.
        columns = [ops.expand_dims(details[name], 1) for name in names]
        return (*outputs, *columns), [new_state]

    sequence = drawn.join(projected, noise)
    results, (state,) = run_loop(step, sequence, [state], mask=inputs_mask)
    outputs, contexts, weights, *columns = results
    details = {name: column[:, :, 0] for name, column in zip(names, columns, strict=True)}
    return outputs, contexts, weights, details, state


def _attend_after(recurrence, projected, state, memory, noise, inputs_mask, training):
    position = state["position"]

    def step(step_inputs, states):
        (output, *_), new_state = recurrence.advance(
            step_inputs, states[0], memory, training=training
        )
        return (output,), [new_state]

    (outputs,), (state,) = run_loop(step, projected, [state], mask=inputs_mask)
    contexts, weights, details = recurrence.attention.attend(
        outputs,
        memory,
        position=position,
        noise=noise,
        training=training,
        return_details=True,
    )
    results = [recurrence.attentional_vector(contexts, outputs), contexts, weights, details]
    if inputs_mask is not None:
        results = keras.tree.map_structure(lambda tensor: _masked(tensor, inputs_mask), results)
    return *results, state


def _masked(tensor, inputs_mask):
    """Returns `(batch, time, ...)` with 0 in masked steps."""
    kept = inputs_mask if len(tensor.shape) == 2 else inputs_mask[:, :, None]
    return ops.where(kept, tensor, 0)
