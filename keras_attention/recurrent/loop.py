"""One loop over time for every recurrent layer, on every backend.

Keras' recurrent layer has no place for the memory that attention reads. Its loop has:
`keras.layers.RNN.inner_loop` runs whatever the object it is given calls its cell, so a
step that closes over prepared memory goes in there. It trains under XLA, with unknown
batch and length, and nothing is kept on a layer.
"""

from types import SimpleNamespace

import keras


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
    loop = SimpleNamespace(
        cell=step,
        go_backwards=go_backwards,
        unroll=False,
        zero_output_for_mask=True,
        return_sequences=True,
        stateful=False,
    )
    _, outputs, state = keras.layers.RNN.inner_loop(loop, sequence, initial_state, mask)
    return outputs, list(state)
