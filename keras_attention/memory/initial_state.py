"""The state of a Neural Turing Machine before its first step.

The paper leaves it open. Collier and Beel 2018 (https://arxiv.org/abs/1807.08518, section 3.2)
compare: a memory of one small constant learns copying about twice as fast as a learned or a
random one. A constant has a price: slots that are all alike, under weights that are all alike,
stay alike. So the heads start on one slot: the first one, or where they have learned to start,
which before any training is the first one too. From weights drawn at random, nearly even after
their softmax, copying was not learned in the time that is enough for either.
"""

import math
import numbers

from keras import initializers, ops

from keras_attention import checks

LOGIT = 10.0  # of the first slot before any training: 99.4 % of the weight among 128 slots


class InitialState:
    """Makes the weights of the initial state and the state itself.

    Args:
        owner: The name of the class the user called.
        memory: A number, every element of the memory; or "learned".
        reads: "learned", a tanh of weights; or "zeros".
        weights: "learned", a softmax of weights that begins on slot 0; or "first", all on it.
        controller: "zeros" or "learned", a tanh of weights.

    Raises:
        ValueError: If an argument is none of these.
    """

    def __init__(self, owner, memory, reads, weights, controller):
        real = isinstance(memory, numbers.Real) and not isinstance(memory, bool)
        if memory != "learned" and not (real and math.isfinite(memory)):
            raise ValueError(
                f"{owner} expects `initial_memory` to be a finite number or 'learned'. "
                f"Received: initial_memory={memory!r}"
            )
        self.memory = memory
        self.reads = checks.one_of(owner, "initial_reads", reads, ("learned", "zeros"))
        self.weights = checks.one_of(owner, "initial_weights", weights, ("learned", "first"))
        self.controller = checks.one_of(
            owner, "initial_controller", controller, ("zeros", "learned")
        )

    def build(self, cell, controller_sizes):
        """Adds the learned parts to the cell's weights, in the order of the state."""
        slots, slot_dim, reads = cell.slots, cell.slot_dim, cell.heads.num_read
        shapes = {}
        if self.controller == "learned":
            shapes |= {f"initial_controller_{i}": (n,) for i, n in enumerate(controller_sizes)}
        if self.memory == "learned":
            shapes["initial_memory"] = (slots, slot_dim)
        if self.reads == "learned":
            shapes["initial_reads"] = (reads * slot_dim,)
        if self.weights == "learned":
            shapes["initial_weights"] = (cell.heads.count, slots)
        self.learned = {
            # A new object each: one draws the same numbers again for weights of one shape.
            name: cell.add_weight(
                shape,
                _on_the_first_slot
                if name == "initial_weights"
                else initializers.RandomUniform(-0.1, 0.1),
                name=name,
            )
            for name, shape in shapes.items()
        }

    def make(self, cell, batch_size, controller_state, dtype):
        """Returns the dict of the state for `batch_size` rows.

        Args:
            cell: The `NTMCell` that was handed to `build`.
            batch_size: Int, or a scalar tensor.
            controller_state: List of the controller's zeros, `(batch, size)`.
            dtype: The dtype of the state.
        """
        learned = {name: ops.cast(value, dtype) for name, value in self.learned.items()}
        slots, slot_dim, heads = cell.slots, cell.slot_dim, cell.heads

        def rows(value, shape):
            value = ops.reshape(ops.cast(value, dtype), (1, *shape))
            return ops.broadcast_to(value, (batch_size, *shape))

        if self.controller == "learned":
            controller_state = [
                rows(ops.tanh(learned[f"initial_controller_{i}"]), (state.shape[-1],))
                for i, state in enumerate(controller_state)
            ]
        memory = learned.get(
            "initial_memory", ops.full((slots, slot_dim), self.memory_constant, dtype)
        )
        reads = ops.tanh(
            learned.get("initial_reads", ops.zeros((heads.num_read * slot_dim,), dtype))
        )
        if self.weights == "learned":
            weights = ops.softmax(learned["initial_weights"])
        else:
            weights = ops.one_hot(ops.zeros((heads.count,), dtype="int32"), slots)
        weights = rows(weights, (heads.count, slots))
        return {
            "controller": controller_state,
            "memory": rows(memory, (slots, slot_dim)),
            "reads": rows(reads, (heads.num_read, slot_dim)),
            "read_weights": weights[:, : heads.num_read],
            "write_weights": weights[:, heads.num_read :],
        }

    @property
    def memory_constant(self):
        return 0.0 if self.memory == "learned" else self.memory


def _on_the_first_slot(shape, dtype=None):
    """Returns logits `(heads, slots)` whose softmax is nearly all on slot 0."""
    first = ops.one_hot(ops.zeros(shape[:1], dtype="int32"), shape[1], dtype=dtype)
    return LOGIT * first
