"""The loop of the searches that keep one hypothesis a row: greedy search and sampling.

A row stops at its end mark, at its limit, or where it may go on with no token; from then on it
emits padding, with nothing added to its log-probability.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_attention.decoding import steps
from keras_attention.decoding.eager import run_loop
from keras_attention.decoding.steps import IMPOSSIBLE
from keras_attention.decoding.task import Task


class Choice(NamedTuple):
    """What each row takes next.

    `ids` `(rows,)`; `log_probs`, a tuple of float32 `(rows,)` that are summed along the
    hypothesis, the model's first; `exists` `(rows,)`, False where there was nothing to take.
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
        Dict of tensors: `ids` `(batch, max_length)`, `lengths` and the `sums` `(batch,)`,
        `token_log_probs`, what the first of them sums, `(batch, max_length)`, and `alignments`
        `(batch, max_length, source)`.
    """
    run, constraints = task.run, task.constraints
    start_id, end_id, pad_id = constraints.special_ids

    def advance(search, logits, leaves, alignment):
        """One step: from what the decoder said to the next ids."""
        permitted = constraints.permit_all(logits, search.seen, search.time)
        ids, log_probs, exists = choose(logits, permitted, search.time)
        going = search.active & exists
        log_probs = tuple(ops.where(going, taken, 0.0) for taken in log_probs)
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
                ops.maximum(total + taken, IMPOSSIBLE)
                for total, taken in zip(search.sums, log_probs, strict=True)
            ),
            lengths,
            steps.write(search.history, search.time, ops.where(going, ids, pad_id)),
            steps.write(search.token_log_probs, search.time, log_probs[0]),
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
        token_log_probs=ops.zeros((task.max_length, run.batch), dtype="float32"),
        alignments=ops.zeros(empty, dtype="float32") if return_alignments else (),
        seen=constraints.start(run.batch),
        leaves=(),
    )
    search = advance(search, logits, leaves, alignment)
    search = run_loop(run.owner, lambda *s: ops.any(_Search(*s).active), body, tuple(search))
    search = _Search(*search)
    if constraints.prefix is not None:
        constraints.prefix.check_found(search.lengths, task.limits)
    result = {"ids": ops.transpose(search.history), "lengths": search.lengths}
    result |= dict(zip(sums, search.sums, strict=True))
    result["token_log_probs"] = ops.transpose(search.token_log_probs)
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
    token_log_probs: object
    alignments: object
    seen: object
    leaves: tuple
