"""The loop of the searches that keep one hypothesis a row: greedy search and sampling.

A row stops at its end mark, at its limit, or where it may go on with no token; from then on it
emits padding, with nothing added to its log-probability.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_attention.decoding import steps
from keras_attention.decoding.steps import IMPOSSIBLE
from keras_attention.decoding.task import Task


class Choice(NamedTuple):
    """What each row takes next.

    `ids` `(rows,)`; `log_probs`, a tuple of float32 `(rows,)` that are summed along the
    hypothesis; `exists` `(rows,)`, False where there was nothing to take.
    """

    ids: object
    log_probs: tuple
    exists: object


def search_singly(
    task: Task, choose: Callable, sums: tuple[str, ...], return_alignments: bool
) -> dict:
    """Returns the hypothesis of each row that `choose` makes, token by token.

    Args:
        task: What is searched, from `Task.checked`.
        choose: Function `(logits, permitted, time) -> Choice`; `permitted` are the logits with
            what may not be produced at -2e9.
        sums: Names of the results that `Choice.log_probs` are summed to.
        return_alignments: Bool.

    Returns:
        Dict of tensors: `ids` `(batch, max_length)`, `lengths` and the `sums` `(batch,)`, and
        `alignments` `(batch, max_length, source)`.
    """
    run, constraints = task.run, task.constraints
    start_id, end_id, pad_id = constraints.special_ids

    def advance(search, logits, leaves, alignment):
        """One step: from what the decoder said to the next ids."""
        permitted = constraints.permit_all(logits, search.seen, search.time)
        ids, log_probs, exists = choose(logits, permitted, search.time)
        going = search.active & exists
        lengths = search.lengths + ops.cast(going, "int32")
        alignments = search.alignments
        if return_alignments:
            kept = ops.where(going[:, None], alignment, 0.0)
            alignments = steps.write(alignments, search.time, kept)
        return _Search(
            search.time + 1,
            going & (ids != end_id) & (lengths < task.limits),
            ids,
            tuple(
                ops.maximum(total + ops.where(going, taken, 0.0), IMPOSSIBLE)
                for total, taken in zip(search.sums, log_probs, strict=True)
            ),
            lengths,
            steps.write(search.history, search.time, ops.where(going, ids, pad_id)),
            alignments,
            constraints.record(search.seen, search.time, ids),
            leaves,
        )

    def body(*search):
        search = _Search(*search)
        return tuple(advance(search, *run(search.ids, search.leaves)))

    ids = ops.full((run.batch,), start_id, dtype="int32")
    logits, leaves, alignment = run(ids, run.leaves)
    constraints.check_vocabulary(logits)
    empty = (task.max_length, run.batch, ops.shape(alignment)[1])
    nothing = ops.zeros((run.batch,), dtype="float32")
    search = _Search(
        time=ops.zeros((), dtype="int32"),
        active=ops.ones_like(ids, dtype="bool"),
        ids=ids,
        sums=tuple(nothing for _ in sums),
        lengths=ops.zeros_like(ids),
        history=ops.full((task.max_length, run.batch), pad_id, dtype="int32"),
        alignments=ops.zeros(empty, dtype="float32") if return_alignments else (),
        seen=constraints.start(run.batch),
        leaves=(),
    )
    search = advance(search, logits, leaves, alignment)
    search = _Search(*ops.while_loop(lambda *s: ops.any(_Search(*s).active), body, tuple(search)))
    result = {"ids": ops.transpose(search.history), "lengths": search.lengths}
    result |= dict(zip(sums, search.sums, strict=True))
    if return_alignments:
        result["alignments"] = ops.transpose(search.alignments, (1, 0, 2))
    return result


class _Search(NamedTuple):
    """What the loop carries: one hypothesis a row."""

    time: object
    active: object
    ids: object
    sums: tuple
    lengths: object
    history: object
    alignments: object
    seen: object
    leaves: tuple
