"""The state of a Neural Turing Machine before its first step.

The paper does not define it. Collier and Beel 2018 (https://arxiv.org/abs/1807.08518, section 3.2)
compare: with a small constant as memory, copying is learned about twice as fast as with a learned
or a random memory. But with a constant memory, equal slots with equal weights stay equal. So the
heads start on one slot: the first one, or a learned one, which before training is the first one,
too. With random weights, nearly uniform after their softmax, copying was not learned in the time
that suffices for either.
"""

import math
import numbers

from keras import initializers, ops

from keras_attention import validation

FIRST_SLOT_LOGIT = (
    10.0  # logit of the first slot before training: 99.4 % of the weight among 128 slots
)


class NTMInitialState:
    """Creates the weights of the initial state and the state itself.

    Args:
        owner: The name of the class the user called.
        memory: A number, every element of the memory; or "learned".
        reads: "learned", a tanh of weights; or "zeros".
        weights: "learned", a softmax of weights that starts on slot 0; or "first", all on it.
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
        self.reads = validation.check_one_of(owner, "initial_reads", reads, ("learned", "zeros"))
        self.weights = validation.check_one_of(
            owner, "initial_weights", weights, ("learned", "first")
        )
        self.controller = validation.check_one_of(
            owner, "initial_controller", controller, ("zeros", "learned")
        )

    def build(self, cell, controller_sizes):
        """Adds the learned parts to the cell's weights, in the order of the state."""
        memory_size, word_size, reads = cell.memory_size, cell.word_size, cell.heads.num_read
        shapes = {}
        if self.controller == "learned":
            shapes |= {f"initial_controller_{i}": (n,) for i, n in enumerate(controller_sizes)}
        if self.memory == "learned":
            shapes["initial_memory"] = (memory_size, word_size)
        if self.reads == "learned":
            shapes["initial_reads"] = (reads * word_size,)
        if self.weights == "learned":
            shapes["initial_weights"] = (cell.heads.count, memory_size)
        self.learned = {
            # A new object each: one object returns the same numbers for weights of one shape.
            name: cell.add_weight(
                shape,
                _first_slot_logits
                if name == "initial_weights"
                else initializers.RandomUniform(-0.1, 0.1),
                name=name,
            )
            for name, shape in shapes.items()
        }

    def make(self, cell, batch_size, controller_state, dtype):
        """Returns the dict of the state for a batch.

        Args:
            cell: The `NTMCell` that was passed to `build`.
            batch_size: Int, or a scalar tensor.
            controller_state: List of the controller's zeros, `(batch, size)`.
            dtype: The dtype of the state.
        """
        learned = {name: ops.cast(value, dtype) for name, value in self.learned.items()}
        memory_size, word_size, heads = cell.memory_size, cell.word_size, cell.heads

        def rows(value, shape):
            value = ops.reshape(ops.cast(value, dtype), (1, *shape))
            return ops.broadcast_to(value, (batch_size, *shape))

        if self.controller == "learned":
            controller_state = [
                rows(ops.tanh(learned[f"initial_controller_{i}"]), (state.shape[-1],))
                for i, state in enumerate(controller_state)
            ]
        memory = learned.get(
            "initial_memory", ops.full((memory_size, word_size), self.memory_constant, dtype)
        )
        reads = ops.tanh(
            learned.get("initial_reads", ops.zeros((heads.num_read * word_size,), dtype))
        )
        if self.weights == "learned":
            weights = ops.softmax(learned["initial_weights"])
        else:
            weights = ops.one_hot(ops.zeros((heads.count,), dtype="int32"), memory_size)
        weights = rows(weights, (heads.count, memory_size))
        return {
            "controller": controller_state,
            "memory": rows(memory, (memory_size, word_size)),
            "reads": rows(reads, (heads.num_read, word_size)),
            "read_weights": weights[:, : heads.num_read],
            "write_weights": weights[:, heads.num_read :],
        }

    @property
    def memory_constant(self):
        return 0.0 if self.memory == "learned" else self.memory


def _first_slot_logits(shape, dtype=None):
    """Returns logits `(heads, memory_size)` whose softmax is nearly all on slot 0."""
    first = ops.one_hot(ops.zeros(shape[:1], dtype="int32"), shape[1], dtype=dtype)
    return FIRST_SLOT_LOGIT * first
