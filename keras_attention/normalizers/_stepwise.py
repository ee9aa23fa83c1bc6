"""Base class of the normalizers whose weights depend on those of the previous step."""

from collections.abc import Callable

from keras import ops

from keras_attention._utils.loop import run_loop
from keras_attention._utils.neighbor_keys import first_key_weights
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Size, Tensor, TensorLike
from keras_attention.normalizers.base import Normalizer

#: Returns the weights `(batch, query, key)` for tensors as `run_steps` takes them.
Recursion = Callable[[Tensor, Tensor, Tensor | None], TensorLike]


def run_steps(
    scores: TensorLike,
    initial: TensorLike,
    valid: TensorLike | None,
    step_function: Callable[[Tensor, Tensor], TensorLike],
) -> Tensor:
    """Returns the weights of all queries, computed one query after the other.

    Args:
        scores: Float tensor `(batch, query, key)`.
        initial: Float tensor `(batch, key)`, the weights before the first query.
        valid: Boolean tensor `(batch, query)`, or None. A query with False gets zeros, and the
            next query starts from the same previous weights. A single query is not masked.
        step_function: Callable `(scores, previous_weights) -> weights` of tensors `(batch, key)`,
            or `(batch, 1, key)` if there is a single query.
    """
    if scores.shape[1] == 1:
        return step_function(scores, initial[:, None])

    def step(scores, states):
        weights = step_function(scores, states[0])
        return weights, [weights]

    return run_loop(step, scores, [initial], mask=valid)[0]


class StepwiseNormalizer(Normalizer):
    """Computes each query's weights from its scores and the weights of the previous step; abstract.

    Several queries without `previous_weights` are steps in time: each starts from the weights of
    the query before, the first from key 0. With `previous_weights` each query is one step from its
    own previous weights.
    """

    reads_weights = True

    def initial_weights(self, batch: Size, num_keys: Size) -> TensorLike:
        return first_key_weights(batch, num_keys, self.compute_dtype)

    def recur(
        self,
        scores: Tensor,
        mask: Tensor | None,
        previous_weights: Tensor | None,
        recursion: Recursion,
    ) -> Tensor:
        """Returns `recursion(scores, initial_weights, valid)` in the shape of the scores.

        Args:
            scores: Float tensor `(..., query, key)`, or `(batch, key)` for one query.
            mask: Boolean tensor that broadcasts to `scores`, or None.
            previous_weights: Float tensor like `scores`, or None.
            recursion: The arguments and the result are those of `run_steps`.
        """
        shape, num_keys = get_shape(scores), get_shape(scores)[-1]
        in_time = previous_weights is None and len(shape) > 2
        rows = (-1, shape[-2] if in_time else 1, num_keys)
        scores = ops.reshape(scores, rows)
        if previous_weights is None:
            initial = self.initial_weights(get_shape(scores)[0], num_keys)
        else:
            initial = ops.reshape(previous_weights, (-1, num_keys))
        initial = ops.cast(initial, scores.dtype)
        valid = None
        if mask is not None:
            valid = ops.any(ops.reshape(ops.broadcast_to(mask, shape), rows), axis=-1)
        return ops.reshape(recursion(scores, initial, valid), shape)
