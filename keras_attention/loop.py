"""One loop over time for every recurrent layer, on every backend.

Keras' recurrent layer has no place for the memory that attention reads. Its loop has:
`keras.layers.RNN.inner_loop` runs whatever the object it is given calls its cell, so a
step that closes over prepared memory goes in there. It trains under XLA, with unknown
batch and length, and nothing is kept on a layer.
"""

from types import SimpleNamespace

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
        mask: Optional boolean `(batch, time)`. A step that is False copies the state and
            gives outputs of zeros.
        go_backwards: Whether to begin with the last time step.

    Returns:
        The outputs with a time axis, `(batch, time, ...)` each, in the order in which they
        were computed, and the last state.
    """
    if mask is not None:
        # Keras' own masking knows neither tuples of outputs (on JAX) nor state of rank 1.
        kept = ops.cast(mask[:, :, None], sequence.dtype)
        sequence, step = ops.concatenate([sequence, kept], axis=-1), _masked(step)
    loop = SimpleNamespace(
        cell=step,
        go_backwards=go_backwards,
        unroll=False,
        zero_output_for_mask=False,
        return_sequences=True,
        stateful=False,
    )
    _, outputs, state = keras.layers.RNN.inner_loop(loop, sequence, initial_state, None)
    return outputs, list(state)


def _masked(step):
    """Returns a step whose inputs end with a 1 where it is done and a 0 where it is not."""

    def masked_step(inputs, states):
        outputs, new_states = step(inputs[:, :-1], states)
        kept = inputs[:, -1] > 0.5
        outputs = keras.tree.map_structure(lambda new: choose_rows(kept, new, 0), outputs)
        new_states = keras.tree.map_structure(
            lambda new, old: choose_rows(kept, new, old), list(new_states), list(states)
        )
        return outputs, new_states

    return masked_step


def choose_rows(kept, new, old):
    """Returns the rows of `new` where `kept` `(batch,)` is True, and those of `old` elsewhere."""
    return ops.where(ops.reshape(kept, (-1, *[1] * (len(new.shape) - 1))), new, old)
