"""The two pools of a beam search, and the way back through them.

*Alive* hypotheses are still growing, `beam` of them a row. *Finished* ones wait in a second pool
of `beam` places with their scores. Neither carries its tokens. A hypothesis is its *code*,

    code = last token * beam + the beam it grew from

each step writes the codes of the alive ones into a history, and the winners are read
backwards from it at the end. So a step moves the decoder's state and a few integers, never
`(batch, beam, target, source)`.
"""

from typing import NamedTuple

from keras import ops

from keras_attention.decoding.steps import (
    IMPOSSIBLE,
    log_probs_of,
    normalizers,
    pick,
    write,
)
from keras_attention.decoding.top_tokens import top_tokens

EXISTS = IMPOSSIBLE / 2  # a hypothesis below this log-probability is none
LOWEST = IMPOSSIBLE * 0.9  # the worst score a real hypothesis can have: above a filler's


class Alive(NamedTuple):
    """Growing hypotheses, best first, each of shape `(batch, beam)`."""

    log_probs: object
    codes: object


class Finished(NamedTuple):
    """Ended hypotheses, best first, each of shape `(batch, beam)`; unused places IMPOSSIBLE."""

    scores: object
    log_probs: object
    lengths: object
    codes: object


class Candidates(NamedTuple):
    """Continuations of the alive hypotheses, best first, each of shape `(batch, 2 * beam)`."""

    log_probs: object
    codes: object
    ended: object


class History(NamedTuple):
    """What each step wrote: `codes` `(target, batch, beam)`, `alignments` `(…, source)` or ()."""

    codes: object
    alignments: object


def expand(alive, logits, beam_width, banned, end_id, end_allowed):
    """Returns the best `2 * beam_width` one-token continuations over all beams of a row.

    As many of each beam are taken first and then merged, which is the same as the best of
    `beam * vocabulary`. A few more are taken than needed, so that dropping the tokens that may
    not be produced leaves enough.

    Args:
        alive: `Alive` of `(batch, beams)`; `beams` is 1 in the first step.
        logits: Float32 tensor of shape `(batch * beams, vocabulary)`.
        beam_width: Static int.
        banned: Ids never produced, a tuple.
        end_id: Id of the end mark.
        end_allowed: None, or a boolean tensor `(batch,)`, False where a row may not end yet.
    """
    batch, beams = ops.shape(alive.log_probs)
    count = 2 * beam_width
    width = min(logits.shape[1], count + len(banned) + (end_allowed is not None))
    values, ids = top_tokens(logits, width)
    log_probs = log_probs_of(values, normalizers(logits))
    for token in banned:
        log_probs = ops.where(ids == token, IMPOSSIBLE, log_probs)
    if beams * width < count:  # a vocabulary smaller than the beam
        short = -(-count // beams) - width
        log_probs = ops.pad(log_probs, ((0, 0), (0, short)), constant_values=IMPOSSIBLE)
        ids = ops.pad(ids, ((0, 0), (0, short)))
        width += short
    log_probs = ops.reshape(log_probs, (batch, beams, width))
    ids = ops.reshape(ids, (batch, beams, width))
    totals = ops.expand_dims(alive.log_probs, 2) + log_probs
    if end_allowed is not None:
        too_soon = (ids == end_id) & ops.logical_not(ops.expand_dims(end_allowed, (1, 2)))
        totals = ops.where(too_soon, IMPOSSIBLE, totals)
    codes = ids * beam_width + ops.expand_dims(ops.arange(beams, dtype="int32"), (0, 2))
    totals = ops.reshape(totals, (batch, beams * width))
    totals, places = ops.top_k(totals, count)
    codes = pick(ops.reshape(codes, (batch, beams * width)), places)
    return Candidates(totals, codes, codes // beam_width == end_id)


def finish(finished, candidates, scores, length, accept, at_limit):
    """Returns the pool after the candidates that end here have been ranked against it.

    A candidate that ends counts only among the best `beam`; at a row's length limit the
    hypotheses that would stay alive are ranked too.

    Args:
        finished: `Finished` so far.
        candidates: `Candidates`.
        scores: Their scores, `(batch, 2 * beam)`.
        length: Scalar int tensor, the length of every candidate.
        accept: Boolean `(batch,)`, False for rows whose answer stands.
        at_limit: Boolean `(batch,)`, True for rows that may not grow further.
    """
    beam_width = finished.scores.shape[1]
    best = ops.expand_dims(ops.arange(2 * beam_width, dtype="int32") < beam_width, 0)
    growing = ops.logical_not(candidates.ended)
    stays = growing & (ops.cumsum(ops.cast(growing, "int32"), axis=1) <= beam_width)
    enters = (candidates.ended & best) | (stays & ops.expand_dims(at_limit, 1))
    enters = enters & (candidates.log_probs > EXISTS) & ops.expand_dims(accept, 1)

    scores = ops.where(enters, ops.maximum(scores, LOWEST), IMPOSSIBLE)
    scores = ops.concatenate([finished.scores, scores], axis=1)  # on a tie the earlier one stays
    scores, places = ops.top_k(scores, beam_width)
    log_probs = ops.where(enters, candidates.log_probs, IMPOSSIBLE)
    lengths = ops.where(enters, length, -1)
    pairs = zip(finished[1:], (log_probs, lengths, candidates.codes), strict=True)
    return Finished(scores, *(pick(ops.concatenate(pair, axis=1), places) for pair in pairs))


def survive(candidates):
    """Returns the best `beam` candidates that did not end."""
    beam_width = candidates.codes.shape[1] // 2
    growing = ops.logical_not(candidates.ended) & (candidates.log_probs > EXISTS)
    log_probs = ops.where(growing, candidates.log_probs, IMPOSSIBLE)
    log_probs, places = ops.top_k(log_probs, beam_width)
    return Alive(log_probs, pick(candidates.codes, places))


def by_beam(rows, batch, beams):
    """Returns `(batch * beams, source)` as `(batch, beams, source)`."""
    return ops.reshape(rows, (batch, beams, ops.shape(rows)[1]))


def no_finished(batch, beam_width):
    """Returns an empty pool of finished hypotheses."""
    nothing = ops.full((batch, beam_width), IMPOSSIBLE, dtype="float32")
    lengths = ops.full((batch, beam_width), -1, dtype="int32")
    return Finished(nothing, nothing, lengths, ops.zeros_like(lengths))


def no_history(max_length, batch, beam_width, alignment, keep_alignments):
    """Returns an empty history; the source length is that of the first `alignment`."""
    codes = ops.zeros((max_length, batch, beam_width), dtype="int32")
    if not keep_alignments:
        return History(codes, ())
    source = ops.shape(alignment)[1]
    return History(codes, ops.zeros((max_length, batch, beam_width, source), dtype="float32"))


def record(history, time, codes, alignment, beams):
    """Returns the history with a step written.

    The alignment `(batch * beams, source)` of a beam is that of the hypothesis it held before
    the step. In the first step there is one a row, and every hypothesis grows from it.
    """
    batch, beam_width = ops.shape(codes)
    codes = write(history.codes, time, codes)
    if isinstance(history.alignments, tuple):
        return History(codes, ())
    alignment = by_beam(alignment, batch, beams)
    if beams != beam_width:
        alignment = ops.repeat(alignment, beam_width, axis=1)
    return History(codes, write(history.alignments, time, alignment))


def trace_back(history, finished, steps, pad_id):
    """Returns the ids and alignments of the finished hypotheses, read from their ends.

    Args:
        history: `History` of a search.
        finished: `Finished`; its codes are where each hypothesis ends.
        steps: Scalar int tensor, the number of steps written.
        pad_id: Id for places past the end.

    Returns:
        Ids `(batch, beam, target)`, and alignments `(batch, beam, target, source)` or None.
    """
    max_length, _, beam_width = history.codes.shape

    def body(time, place, path):
        here = ops.take(history.codes, time, axis=0)
        code = ops.where(time == finished.lengths - 1, finished.codes, pick(here, place))
        inside = time < finished.lengths
        place = ops.where(inside, code % beam_width, place)
        return time - 1, place, write(path, time, ops.where(inside, code, pad_id * beam_width))

    path = ops.full(ops.shape(history.codes), pad_id * beam_width, dtype="int32")
    loop = (steps - 1, ops.zeros_like(finished.lengths), path)
    _, _, path = ops.while_loop(lambda time, place, path: time >= 0, body, loop)
    path = ops.transpose(path, (1, 2, 0))
    ids = path // beam_width
    if isinstance(history.alignments, tuple):
        return ids, None

    _, batch, _, source = ops.shape(history.alignments)
    times = ops.expand_dims(ops.arange(max_length, dtype="int32"), (0, 1))  # (1, 1, target)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), (1, 2))  # (batch, 1, 1)
    places = (times * batch + rows) * beam_width + path % beam_width
    flat = ops.reshape(history.alignments, (max_length * batch * beam_width, source))
    inside = times < ops.expand_dims(finished.lengths, 2)
    alignments = ops.take(flat, places, axis=0)
    return ids, ops.where(ops.expand_dims(inside, 3), alignments, 0.0)
