"""The two pools of a beam search.

*Alive* hypotheses are still growing, `beam` of them a row. *Finished* ones wait in a second pool
of `beam` places with their scores. Neither carries its tokens. A hypothesis is its *code*,

    code = last token * beam + the beam it grew from

and the history keeps the codes of every step.
"""

from typing import NamedTuple

from keras import ops

from keras_attention.decoding.steps import (
    IMPOSSIBLE,
    log_probs_of,
    normalizers,
    pick,
    top_k,
)
from keras_attention.decoding.top_tokens import top_tokens
from keras_attention.shapes import reduce_rows

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
    """Continuations of the alive hypotheses, best first, each of shape `(batch, count)`.

    `merits`, where they are not the log-probabilities themselves, are what they were chosen by.
    """

    log_probs: object
    codes: object
    ended: object
    merits: object = None


class Turn(NamedTuple):
    """Who chooses in a step: `width` beams from the beam `first` on, all in a plain search.

    `count` is how many continuations are looked at. `taken` are the tokens `(batch, any)` chosen
    before in this step, None for nothing, each of which makes the same token worse by `diversity`.
    """

    first: int
    width: int
    count: int
    taken: object = None
    diversity: float = 0.0


def expand(alive, logits, permitted, beam_width, end_id, turn):
    """Returns the best `turn.count` one-token continuations over all beams of a turn.

    As many of each beam are taken first and then merged, which is the same as the best of
    `beam * vocabulary`. A few more are taken than needed, so that dropping the tokens that may
    not be produced, or fall behind, leaves enough.

    Args:
        alive: `Alive` of `(batch, beams)`; `beams` is 1 in the first step.
        logits: Float32 tensor of shape `(batch * beams, vocabulary)`.
        permitted: What may follow, `Permitted`, with as many rows.
        beam_width: Static int, what codes are multiples of.
        end_id: Id of the end mark.
        turn: `Turn`.
    """
    batch, beams = ops.shape(alive.log_probs)
    count, end_allowed = turn.count, permitted.end_allowed
    spare = len(permitted.banned) + (end_allowed is not None)
    spare += 0 if turn.taken is None else turn.taken.shape[1]
    width = min(logits.shape[1], count + spare)
    values, ids = top_tokens(permitted.logits, width)
    log_probs = log_probs_of(values, normalizers(logits))
    for token in permitted.banned:
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
    parents = ops.arange(turn.first, turn.first + beams, dtype="int32")
    codes = ids * beam_width + ops.expand_dims(parents, (0, 2))
    totals = ops.reshape(totals, (batch, beams * width))
    codes = ops.reshape(codes, (batch, beams * width))
    merits = totals if turn.taken is None else _merits(totals, codes // beam_width, turn)
    merits, places = top_k(merits, count)
    codes = pick(codes, places)
    ended = codes // beam_width == end_id
    if turn.taken is None:
        return Candidates(merits, codes, ended)
    return Candidates(pick(totals, places), codes, ended, merits)


def _merits(totals, tokens, turn):
    """Returns log-probabilities less `diversity` for each time a token was taken before.

    Only their order counts, so a diversity that is larger than all differences between the
    log-probabilities is as good as these: more of it would leave no digits for them.
    """
    again = ops.expand_dims(tokens, 2) == ops.expand_dims(turn.taken, 1)
    real = totals > EXISTS
    best = reduce_rows(ops.max, ops.where(real, totals, IMPOSSIBLE), axis=1, keepdims=True)
    worst = reduce_rows(ops.min, ops.where(real, totals, best), axis=1, keepdims=True)
    diversity = ops.minimum(turn.diversity, best - worst + 1.0)
    merits = totals - diversity * ops.sum(ops.cast(again, "float32"), axis=2)
    return ops.where(real, ops.maximum(merits, LOWEST), IMPOSSIBLE)


def places_left(finished, candidates, again=None):
    """Returns which candidates a beam that shrinks has places for, boolean `(batch, count)`.

    Each finished hypothesis has taken its place away; the best candidates get those that are left,
    and none is for what another group has finished `again`, ended or at the limit.
    """
    left = ops.sum(ops.cast(finished.scores <= IMPOSSIBLE, "int32"), axis=1, keepdims=True)
    places = _rank(candidates, again) < left
    return places if again is None else places & ops.logical_not(again)


def _rank(candidates, passed):
    """Returns the place of each candidate, int32; those that are `passed` over have none."""
    if passed is None:
        return ops.expand_dims(ops.arange(candidates.codes.shape[1], dtype="int32"), 0)
    return ops.cumsum(ops.cast(ops.logical_not(passed), "int32"), axis=1) - 1


def entering(candidates, beam_width, reach, accept, at_limit, places=None, again=None):
    """Returns which candidates are finished here, boolean `(batch, count)`.

    A candidate that ends counts only among the best `reach`; at a row's length limit the
    hypotheses that would stay alive are finished too.

    Args:
        candidates: `Candidates`.
        beam_width: Static int.
        reach: Static int, from `beam_width` to twice as many.
        accept: Boolean `(batch,)`, False for rows whose answer stands.
        at_limit: Boolean `(batch,)`, True for rows that may not grow further.
        places: Of a beam that shrinks `places_left`, otherwise None.
        again: Boolean `(batch, count)`, True for what another group has finished in this step, or
            None.
    """
    growing = ops.logical_not(candidates.ended)
    new = None if again is None else ops.logical_not(again)
    stays = growing if new is None else growing & new
    if places is None:
        passed = None if again is None else again & candidates.ended
        best = _rank(candidates, passed) < reach
        stays = stays & (ops.cumsum(ops.cast(stays, "int32"), axis=1) <= beam_width)
    else:
        best, stays = places, stays & places
    ends = candidates.ended & best
    enters = (ends if new is None else ends & new) | (stays & ops.expand_dims(at_limit, 1))
    return enters & (candidates.log_probs > EXISTS) & ops.expand_dims(accept, 1)


def finish(finished, candidates, scores, length, enters):
    """Returns the pool after the candidates that end here have been ranked against it.

    Args:
        finished: `Finished` so far.
        candidates: `Candidates`.
        scores: Their scores, `(batch, count)`.
        length: Scalar int tensor, the length of every candidate.
        enters: Boolean `(batch, count)`, which of them end here.
    """
    beam_width = finished.scores.shape[1]
    scores = ops.where(enters, ops.maximum(scores, LOWEST), IMPOSSIBLE)
    scores = ops.concatenate([finished.scores, scores], axis=1)  # on a tie the earlier one stays
    scores, places = top_k(scores, beam_width)
    log_probs = ops.where(enters, candidates.log_probs, IMPOSSIBLE)
    lengths = ops.where(enters, length, -1)
    pairs = zip(finished[1:], (log_probs, lengths, candidates.codes), strict=True)
    return Finished(scores, *(pick(ops.concatenate(pair, axis=1), places) for pair in pairs))


def survive(candidates, beam_width, places=None):
    """Returns the best `beam` candidates that did not end.

    Args:
        candidates: `Candidates`.
        beam_width: Static int.
        places: Of a beam that shrinks `places_left`, otherwise None.
    """
    growing = ops.logical_not(candidates.ended) & (candidates.log_probs > EXISTS)
    if places is not None:
        growing = growing & places
    log_probs = ops.where(growing, candidates.log_probs, IMPOSSIBLE)
    if candidates.merits is None:
        log_probs, places = top_k(log_probs, beam_width)
    else:
        merits = ops.where(growing, candidates.merits, IMPOSSIBLE)
        _, places = top_k(merits, beam_width)
        log_probs = pick(log_probs, places)
    return Alive(log_probs, pick(candidates.codes, places))


def by_beam(rows, batch, beams):
    """Returns `(batch * beams, source)` as `(batch, beams, source)`."""
    return ops.reshape(rows, (batch, beams, ops.shape(rows)[1]))


def no_finished(batch, beam_width):
    """Returns an empty pool of finished hypotheses."""
    nothing = ops.full((batch, beam_width), IMPOSSIBLE, dtype="float32")
    lengths = ops.full((batch, beam_width), -1, dtype="int32")
    return Finished(nothing, nothing, lengths, ops.zeros_like(lengths))
