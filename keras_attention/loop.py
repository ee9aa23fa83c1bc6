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
    ranks = [len(leaf.shape) for leaf in keras.tree.flatten(initial_state)]

    def masked_step(inputs, states):
        outputs, states = step(inputs, _with_ranks(list(states), ranks))
        return outputs, _as_columns(states)

    loop = SimpleNamespace(
        cell=step if mask is None else masked_step,
        go_backwards=go_backwards,
        unroll=False,
        zero_output_for_mask=True,
        return_sequences=True,
        stateful=False,
    )
    if mask is not None:
        initial_state = _as_columns(initial_state)
    _, outputs, state = keras.layers.RNN.inner_loop(loop, sequence, initial_state, mask)
    return outputs, _with_ranks(list(state), ranks)


def _as_columns(state):
    """Returns the state with `(batch,)` leaves as `(batch, 1)`.

    Keras' loop applies a mask as a column, which would spread a leaf of rank 1 to
    `(batch, batch)`.
    """
    return keras.tree.map_structure(
        lambda leaf: ops.expand_dims(leaf, 1) if len(leaf.shape) == 1 else leaf, state
    )


def _with_ranks(state, ranks):
    """Returns the state with the ranks that its leaves had before `_as_columns`."""
    leaves = [
        ops.squeeze(leaf, 1) if len(leaf.shape) > rank else leaf
        for leaf, rank in zip(keras.tree.flatten(state), ranks, strict=True)
    ]
    return keras.tree.pack_sequence_as(state, leaves)
