"""The loop over time for all recurrent layers, on every backend.

Keras' recurrent layers have no argument for an attention memory. Their loop,
`keras.layers.RNN.inner_loop`, runs any cell, so it can run a step that closes over a prepared
memory. It trains under XLA and accepts unknown batch sizes and lengths.
"""

import keras
from keras import ops


def run_loop(step, sequence, initial_state, mask=None, go_backwards=False):
    """Runs `step` over the time axis of a sequence.

    Args:
        step: Callable `(inputs, state) -> (outputs, state)` for one time step, where
            `inputs` is `(batch, dim)`, `outputs` a tensor or a tuple of tensors, and
            `state` a list (its items may be nested).
        sequence: Float tensor `(batch, time, dim)`.
        initial_state: The state before the first step.
        mask: Optional boolean `(batch, time)`. At steps with False the state is copied and
            the outputs are zeros.
        go_backwards: Whether to start with the last time step.

    Returns:
        The outputs with a time axis, `(batch, time, ...)` each, in the order in which they
        were computed, and the final state.
    """
    if mask is not None:
        # Keras' masking supports neither tuples of outputs (on JAX) nor state of rank 1.
        valid = ops.cast(mask[:, :, None], sequence.dtype)
        sequence, step = ops.concatenate([sequence, valid], axis=-1), _skip_masked_steps(step)
    loop = keras.layers.RNN(
        StepCell(step), return_sequences=True, go_backwards=go_backwards, name="loop"
    )
    _, outputs, state = loop.inner_loop(sequence, initial_state, mask=None)
    return outputs, list(state)


class StepCell:
    """A step function in the form of a cell, as `keras.layers.RNN` takes it.

    Args:
        step: Callable `(inputs, state) -> (outputs, state)`.
    """

    state_size = ()  # only needed for the default initial state, which `run_loop` never uses

    def __init__(self, step):
        self.call = step

    def __call__(self, inputs, states):
        return self.call(inputs, states)


def _skip_masked_steps(step):
    """Returns a step whose inputs end with a 1 at valid steps and a 0 at masked ones."""

    def step_or_copy(inputs, states):
        outputs, new_states = step(inputs[:, :-1], states)
        valid = inputs[:, -1] > 0.5
        outputs = keras.tree.map_structure(lambda new: select_examples(valid, new, 0), outputs)
        new_states = keras.tree.map_structure(
            lambda new, old: select_examples(valid, new, old), list(new_states), list(states)
        )
        return outputs, new_states

    return step_or_copy


def select_examples(valid, new, old):
    """Returns the elements of `new` where `valid` `(batch,)` is True, and of `old` elsewhere."""
    return ops.where(ops.reshape(valid, (-1, *[1] * (len(new.shape) - 1))), new, old)
