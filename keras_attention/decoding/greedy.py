"""Greedy search: the likeliest token at each step.

    y_t = argmax_y p(y | y_1 .. y_{t-1}, source)

A row stops at its end mark and emits padding from then on, with nothing added to its
log-probability. It equals `beam_search` with `beam_width=1` and no penalty, token for token.
"""

from typing import NamedTuple

from keras import ops

from keras_attention import checks
from keras_attention.decoding import steps
from keras_attention.decoding.constraints import Constraints
from keras_attention.decoding.hypotheses import EXISTS
from keras_attention.decoding.steps import IMPOSSIBLE


def greedy_search(
    step,
    state,
    memory,
    *,
    max_length: int,
    row_max_length=None,
    min_length=0,
    banned_ids=(),
    no_repeat_ngram: int | None = None,
    prefix=None,
    prefix_lengths=None,
    return_alignments: bool = True,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> dict:
    """Returns the sequence that the likeliest token of each step makes.

    Use it where speed counts more than the last bit of quality. The arguments mean what they
    mean in `beam_search`, and the loop compiles under the same conditions.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Handed to `step` as it is.
        max_length: Positive int, the length limit and the width of the result. The end mark
            counts.
        row_max_length: Optional int tensor of shape `(batch,)`: each row's own limit, from 1 to
            `max_length`. Inside a compiled graph it is clipped to that range.
        min_length: Int, or an int tensor of shape `(batch,)`: no row ends with fewer tokens.
        banned_ids: Ids never produced, as in `beam_search`.
        no_repeat_ngram: None or a positive int, as in `beam_search`.
        prefix: None, or int ids `(batch, prefix)` to start with, as in `beam_search`.
        prefix_lengths: None, or an int tensor of shape `(batch,)`, as in `beam_search`.
        return_alignments: Bool. Without alignments the search needs less memory.
        start_id: Int, fed at the first step. Never produced, unless it is the end id too.
        end_id: Int, ends a row.
        pad_id: Int, fills the ids after the end. Never produced.

    Returns:
        Dict of tensors: `ids` int32 `(batch, max_length)`, `lengths` int32 `(batch,)` with the
        end mark counted, `log_probs` float32 `(batch,)`, and `alignments` float32
        `(batch, max_length, source)`, 0 after the end.

        Under constraints a row that may go on with no token stops there, without an end mark.

    Raises:
        ValueError: If an argument is out of range, or `step` breaks its promises.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import greedy_search
    >>> def step(ids, state, memory):  # counts up: 4, 5, 6, then the end
    ...     following = keras.ops.where(ids == 2, 4, keras.ops.where(ids == 6, 3, ids + 1))
    ...     return keras.ops.one_hot(following, 7) * 9.0, state, keras.ops.zeros((len(ids), 1))
    >>> result = greedy_search(step, {}, keras.ops.zeros((1, 1)), max_length=6)
    >>> keras.ops.convert_to_numpy(result["ids"]).tolist()
    [[4, 5, 6, 3, 0, 0]]
    """
    owner = "greedy_search"
    checks.positive_int(owner, "max_length", max_length)
    steps.check_special_ids(owner, start_id, end_id, pad_id)
    run = steps.CheckedStep(owner, step, state, memory)
    limits = steps.row_limits(owner, max_length, row_max_length, run.batch)
    constraints = Constraints(
        owner,
        run.batch,
        max_length,
        (start_id, end_id, pad_id),
        min_length,
        banned_ids,
        no_repeat_ngram,
        prefix,
        prefix_lengths,
    )

    def advance(search, logits, leaves, alignment):
        """One step: from what the decoder said to the next ids."""
        permitted = constraints.permit_all(logits, search.seen, search.time)
        ids, log_probs = likeliest(logits, permitted)
        active = search.active
        if not constraints.free:
            active = active & (log_probs > EXISTS)
        lengths = search.lengths + ops.cast(active, "int32")
        written = ops.where(active, ids, pad_id)
        alignments = search.alignments
        if return_alignments:
            kept = ops.where(active[:, None], alignment, 0.0)
            alignments = steps.write(alignments, search.time, kept)
        return _Search(
            search.time + 1,
            active & (ids != end_id) & (lengths < limits),
            ids,
            ops.maximum(search.log_probs + ops.where(active, log_probs, 0.0), IMPOSSIBLE),
            lengths,
            steps.write(search.history, search.time, written),
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
    empty = (max_length, run.batch, ops.shape(alignment)[1])
    search = _Search(
        time=ops.zeros((), dtype="int32"),
        active=ops.ones_like(ids, dtype="bool"),
        ids=ids,
        log_probs=ops.zeros((run.batch,), dtype="float32"),
        lengths=ops.zeros_like(ids),
        history=ops.full((max_length, run.batch), pad_id, dtype="int32"),
        alignments=ops.zeros(empty, dtype="float32") if return_alignments else (),
        seen=constraints.start(run.batch),
        leaves=(),
    )
    search = advance(search, logits, leaves, alignment)
    search = _Search(*ops.while_loop(lambda *s: ops.any(_Search(*s).active), body, tuple(search)))
    result = {
        "ids": ops.transpose(search.history),
        "lengths": search.lengths,
        "log_probs": search.log_probs,
    }
    if return_alignments:
        result["alignments"] = ops.transpose(search.alignments, (1, 0, 2))
    return result


def likeliest(logits, permitted):
    """Returns the likeliest permitted id of each row and its log-probability, `(rows,)`.

    Args:
        logits: Float32 tensor of shape `(rows, vocabulary)`.
        permitted: The same, with what may not be produced at -2e9.
    """
    ids = ops.cast(ops.argmax(permitted, axis=-1), "int32")
    best = ops.max(permitted, axis=-1, keepdims=True)
    return ids, steps.log_probs_of(best, steps.normalizers(logits))[:, 0]


class _Search(NamedTuple):
    """What the loop carries: one hypothesis a row."""

    time: object
    active: object
    ids: object
    log_probs: object
    lengths: object
    history: object
    alignments: object
    seen: object
    leaves: tuple
