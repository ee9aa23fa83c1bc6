"""Backpointers: each step stores its tokens and parents; hypotheses are traced back at the end.

A step stores `token_and_parent` of each alive hypothesis (see `_hypotheses`) and the
log-probability before the step. So a step moves the decoder's state and a few numbers, never an
array `(batch, beam, target, source)`.
"""

from typing import NamedTuple

from keras import ops

from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention.search._hypotheses import unflatten_beams
from keras_attention.search._indexing import gather_per_row, write_at
from keras_attention.search._log_probs import IMPOSSIBLE, POSSIBLE_THRESHOLD


class Backpointers(NamedTuple):
    """The results of each step.

    `token_and_parent` and `log_probs` are `(target, batch, beam)`, `alignments` `(…, source)` or
    (). `token_and_parent` is stored after the step; the others are those of the beams before it.
    """

    token_and_parent: object
    log_probs: object
    alignments: object


def allocate(max_length, batch, beam_width, alignment, keep_alignments):
    """Returns empty backpointers; the first `alignment` determines the source length."""
    token_and_parent = ops.zeros((max_length, batch, beam_width), dtype="int32")
    log_probs = ops.zeros((max_length, batch, beam_width), dtype="float32")
    if not keep_alignments:
        return Backpointers(token_and_parent, log_probs, ())
    source = get_shape(alignment)[1]
    alignments = ops.zeros((max_length, batch, beam_width, source), dtype="float32")
    return Backpointers(token_and_parent, log_probs, alignments)


def append_step(backpointers, time, token_and_parent, log_probs, alignment):
    """Returns the backpointers with one more step.

    Args:
        backpointers: The `Backpointers` so far.
        time: Scalar int tensor, the step.
        token_and_parent: Int32 `(batch, beam)`, after the step.
        log_probs: Float32 `(batch, beams)`, of the hypotheses before the step. Before the first
            step each batch element has a single hypothesis, from which all others grow.
        alignment: Float32 `(batch * beams, source)`, of the same hypotheses.
    """
    batch, beam_width = get_shape(token_and_parent)
    beams = log_probs.shape[1]
    token_and_parent = write_at(backpointers.token_and_parent, time, token_and_parent)
    alignments = backpointers.alignments
    if not isinstance(alignments, tuple):
        alignment = unflatten_beams(alignment, batch, beams)
        if beams != beam_width:
            alignment = ops.repeat(alignment, beam_width, axis=1)
        alignments = write_at(alignments, time, alignment)
    if beams != beam_width:
        log_probs = ops.repeat(log_probs, beam_width, axis=1)
    return Backpointers(
        token_and_parent, write_at(backpointers.log_probs, time, log_probs), alignments
    )


def count_tokens(backpointers, finished, num_steps):
    """Returns how many tokens each batch element could take, int32 `(batch,)`, for a beam of 1.

    This is the length of the best finished hypothesis, or else the steps until none was alive.
    """
    written = ops.expand_dims(
        ops.arange(backpointers.log_probs.shape[0], dtype="int32") < num_steps, 1
    )
    alive = written & (backpointers.log_probs[:, :, 0] > POSSIBLE_THRESHOLD)
    alive = ops.sum(ops.cast(alive, "int32"), axis=0) - 1  # the first step has its root
    return ops.where(finished.lengths[:, 0] < 0, alive, finished.lengths[:, 0])


def trace_back(backpointers, finished, num_steps, pad_id):
    """Returns the tokens of the finished hypotheses, traced back from their last tokens.

    Args:
        backpointers: The `Backpointers` of a search.
        finished: `FinishedHypotheses`; its `token_and_parent` is the end of each hypothesis.
        num_steps: Scalar int tensor, the number of stored steps.
        pad_id: Id for positions past the end.

    Returns:
        Ids and the log-probabilities of the tokens, `(batch, beam, target)`, and alignments
        `(batch, beam, target, source)` or None.
    """
    path = ops.full(
        get_shape(backpointers.token_and_parent),
        pad_id * backpointers.token_and_parent.shape[2],
        dtype="int32",
    )
    ends = (finished.lengths, finished.token_and_parent)
    ids, places, times = _trace_path(backpointers, *ends, num_steps, pad_id, path)
    lengths = ops.expand_dims(finished.lengths, 2)
    before = _take_rows(ops.reshape(backpointers.log_probs, (-1,)), places)
    after = ops.concatenate([before[:, :, 1:], before[:, :, :1]], axis=2)
    after = ops.where(times == lengths - 1, ops.expand_dims(finished.log_probs, 2), after)
    token_log_probs = ops.where(times < lengths, after - before, 0.0)
    if isinstance(backpointers.alignments, tuple):
        return ids, token_log_probs, None

    alignments = _take_alignments(backpointers, places)
    inside = ops.expand_dims(times < lengths, 3)
    return ids, token_log_probs, ops.where(inside, alignments, 0.0)


def trace_common_beginning(backpointers, lengths, token_and_parent, num_steps, pad_id):
    """Returns the tokens that all of some hypotheses begin with.

    Args:
        backpointers: The `Backpointers` so far.
        lengths: Int32 `(batch, any)`, the lengths of the hypotheses, -1 for those that do not
            count. Without any, no token is common.
        token_and_parent: Int32 `(batch, any)`, the end of each hypothesis.
        num_steps: Scalar int tensor, the number of stored steps.
        pad_id: Id for positions past the end, which no hypothesis contains.

    Returns:
        Ids `(batch, target)`, their number `(batch,)`, and alignments `(batch, target, source)` or
        None.
    """
    max_length, _, beam_width = backpointers.token_and_parent.shape
    batch, count = get_shape(lengths)
    path = ops.full((max_length, batch, count), pad_id * beam_width, dtype="int32")
    ends = (lengths, token_and_parent)
    ids, places, times = _trace_path(backpointers, *ends, num_steps, pad_id, path)
    counts = ops.expand_dims(lengths >= 0, 2)
    counted = ids * ops.cast(counts, "int32")
    ids = ops.where(counts, ids, reduce_rows(ops.max, counted, axis=1, keepdims=True))
    is_common = ops.all(ids == ids[:, :1], axis=1) & (ids[:, 0] != pad_id) & ops.any(counts, axis=1)
    lengths = ops.sum(ops.cumprod(ops.cast(is_common, "int32"), axis=1), axis=1)
    is_common = times[0] < ops.expand_dims(lengths, 1)
    ids = ops.where(is_common, ids[:, 0], pad_id)
    if isinstance(backpointers.alignments, tuple):
        return ids, lengths, None
    first = ops.cast(ops.argmax(ops.cast(counts, "int32"), axis=1, keepdims=True), "int32")
    places = ops.take_along_axis(places, ops.broadcast_to(first, (batch, 1, max_length)), axis=1)
    alignments = _take_alignments(backpointers, places[:, 0])
    return ids, lengths, ops.where(ops.expand_dims(is_common, 2), alignments, 0.0)


def _trace_path(backpointers, lengths, token_and_parent, num_steps, pad_id, path):
    """Returns ids and places in the flat backpointers, `(batch, any, target)`, and the times.

    Args:
        backpointers: The `Backpointers` so far.
        lengths, token_and_parent: Int32 `(batch, any)`, the end of each hypothesis.
        num_steps: Scalar int tensor, the number of stored steps.
        pad_id: Id for positions past the end.
        path: Int32 `(target, batch, any)` to write to, filled with `pad_id * beam`.
    """
    max_length, _, beam_width = backpointers.token_and_parent.shape

    def body(time, place, path):
        here = ops.take(backpointers.token_and_parent, time, axis=0)
        packed = ops.where(time == lengths - 1, token_and_parent, gather_per_row(here, place))
        inside = time < lengths
        place = ops.where(inside, packed % beam_width, place)
        return time - 1, place, write_at(path, time, ops.where(inside, packed, pad_id * beam_width))

    loop = (num_steps - 1, ops.zeros_like(lengths), path)
    _, _, path = ops.while_loop(lambda time, place, path: time >= 0, body, loop)
    path = ops.transpose(path, (1, 2, 0))
    batch = get_shape(path)[0]
    times = ops.expand_dims(ops.arange(max_length, dtype="int32"), (0, 1))  # (1, 1, target)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), (1, 2))  # (batch, 1, 1)
    places = (times * batch + rows) * beam_width + path % beam_width
    return path // beam_width, places, times


def _take_alignments(backpointers, places):
    """Returns the alignments at `places` of the flat backpointers, `(..., source)`."""
    max_length, batch, beam_width, source = get_shape(backpointers.alignments)
    flat = ops.reshape(backpointers.alignments, (max_length * batch * beam_width, source))
    return _take_rows(flat, places)


def _take_rows(flat, places):
    """Returns `flat[places]`; JAX refuses to take from an empty batch."""
    if flat.shape[0] == 0:
        return ops.zeros((*places.shape, *flat.shape[1:]), dtype=flat.dtype)
    return ops.take(flat, places, axis=0)


def make_tree(backpointers, alive, finished, time, num_steps):
    """Returns the hypotheses of all steps: `tree_ids`, `tree_parents` and `tree_log_probs`.

    Each is `(batch, target, 2 * beam)`: the alive hypotheses, then the finished ones.

    Args:
        backpointers: The `Backpointers` of a search.
        alive: The `AliveHypotheses` after the last step.
        finished: `FinishedHypotheses`.
        time: Scalar int tensor, the number of stored steps.
        num_steps: Int tensor `(batch,)`, the steps of each batch element.
    """
    max_length, batch, beam_width = get_shape(backpointers.token_and_parent)
    times = ops.reshape(ops.arange(max_length, dtype="int32"), (max_length, 1, 1))
    after = ops.concatenate([backpointers.log_probs[1:], backpointers.log_probs[:1]], axis=0)
    after = ops.where(times == time - 1, alive.log_probs[None], after)
    after = ops.where(times < num_steps[None, :, None], after, IMPOSSIBLE)
    ends_here = times == finished.lengths[None] - 1
    log_probs = [after, ops.where(ends_here, finished.log_probs[None], IMPOSSIBLE)]
    packed = [
        backpointers.token_and_parent,
        ops.broadcast_to(finished.token_and_parent[None], (max_length, batch, beam_width)),
    ]
    log_probs, packed = (
        ops.swapaxes(ops.concatenate(pair, axis=2), 0, 1) for pair in (log_probs, packed)
    )
    packed = ops.where(log_probs > POSSIBLE_THRESHOLD, packed, 0)
    return {
        "tree_ids": packed // beam_width,
        "tree_parents": packed % beam_width,
        "tree_log_probs": ops.maximum(log_probs, IMPOSSIBLE),
    }
