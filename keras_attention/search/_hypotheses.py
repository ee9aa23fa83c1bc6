"""The two pools of a beam search.

*Alive* hypotheses are still growing, `beam` per batch element. *Finished* ones are in a second pool
of `beam` places, with their scores. Neither pool stores tokens. A hypothesis is represented by

    token_and_parent = last token * beam + the beam it grew from

and the backpointers store these numbers for every step.

With a language model `log_probs` have its terms, `weight * log p_LM`, and `model_log_probs` are
the sums without them. Otherwise `model_log_probs` are ().
"""

from typing import NamedTuple

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention.search._end_ids import is_end
from keras_attention.search._indexing import (
    gather_per_row,
    gather_together,
    saves_launches,
    top_k,
    top_pairs,
)
from keras_attention.search._log_probs import (
    IMPOSSIBLE,
    POSSIBLE_THRESHOLD,
    compute_log_probs,
    softmax_denominator,
)
from keras_attention.search._shallow_fusion_step import add_fusion_terms
from keras_attention.search.chunked_top_k import chunked_top_k

MIN_SCORE = IMPOSSIBLE * 0.9  # the lowest score of a real hypothesis, above that of padding


class AliveHypotheses(NamedTuple):
    """Growing hypotheses, best first, each of shape `(batch, beam)`."""

    log_probs: object
    token_and_parent: object
    model_log_probs: object = ()


class FinishedHypotheses(NamedTuple):
    """Ended hypotheses, best first, each of shape `(batch, beam)`; unused places IMPOSSIBLE."""

    scores: object
    log_probs: object
    lengths: object
    token_and_parent: object
    model_log_probs: object = ()


class Candidates(NamedTuple):
    """Continuations of the alive hypotheses, best first, each of shape `(batch, count)`.

    `selection_scores` are the numbers by which they were selected, if these are not the
    log-probabilities.
    """

    log_probs: object
    token_and_parent: object
    ended: object
    selection_scores: object = None
    model_log_probs: object = ()


class GroupSlice(NamedTuple):
    """The part of the beam that selects in a step: `width` beams from `first` on.

    A plain search has one slice. `count` is the number of continuations to compare. `taken` are
    the tokens `(batch, any)` selected before in this step, or None; each of them lowers the
    selection score of the same token by `diversity_penalty`.
    """

    first: int
    width: int
    count: int
    taken: object = None
    diversity_penalty: float = 0.0


def expand_beams(alive, logits, restricted, beam_width, end_ids, group_slice, phrase_step=None):
    """Returns the best `group_slice.count` one-token continuations over all beams of a slice.

    It selects `count` from each beam and then merges them, which equals the best of
    `beam * vocabulary`. It selects a few more than needed, so that enough remain after dropping
    forbidden or penalized tokens.

    Args:
        alive: `AliveHypotheses` of `(batch, beams)`; `beams` is 1 in the first step.
        logits: Float32 tensor of shape `(batch * beams, vocabulary)`.
        restricted: The permitted tokens, `RestrictedLogits`, with as many rows.
        beam_width: Static int, the factor of `token_and_parent`.
        end_ids: Ids of the EOS tokens.
        group_slice: `GroupSlice`.
        phrase_step: The `PhraseStep` that selects if there are phrases, or None.
    """
    batch, beams = get_shape(alive.log_probs)
    count, end_allowed = group_slice.count, restricted.end_allowed
    spare = len(restricted.suppressed_ids) + (0 if end_allowed is None else len(end_ids))
    spare += 0 if group_slice.taken is None else group_slice.taken.shape[1]
    width = min(logits.shape[1], count + spare)
    ranked, fusion_terms = restricted.logits, restricted.fusion_terms
    if fusion_terms is not None:
        by_token = compute_log_probs(restricted.logits, softmax_denominator(logits))
        ranked = add_fusion_terms(by_token, fusion_terms)
    values, ids = chunked_top_k(ranked, width)
    if phrase_step is not None:
        values, ids = phrase_step.append_next_tokens(ids, ranked)
        width = ids.shape[1]
    log_probs = values
    if fusion_terms is None:
        log_probs = compute_log_probs(values, softmax_denominator(logits))
    for token in restricted.suppressed_ids:
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
        too_soon = is_end(ids, end_ids) & ops.logical_not(ops.expand_dims(end_allowed, (1, 2)))
        totals = ops.where(too_soon, IMPOSSIBLE, totals)
    parents = ops.arange(group_slice.first, group_slice.first + beams, dtype="int32")
    token_and_parent = ids * beam_width + ops.expand_dims(parents, (0, 2))
    totals = ops.reshape(totals, (batch, beams * width))
    token_and_parent = ops.reshape(token_and_parent, (batch, beams * width))
    if phrase_step is not None:
        candidates = phrase_step.select(totals, token_and_parent, beam_width, count)
    else:
        size = logits.shape[1] * beam_width
        candidates = _select_best(totals, token_and_parent, size, beam_width, end_ids, group_slice)
    if fusion_terms is None:
        return candidates
    return _add_model_log_probs(candidates, alive, by_token, beam_width, group_slice.first)


def _select_best(totals, token_and_parent, size, beam_width, end_ids, group_slice):
    """Returns the best `group_slice.count` of all continuations, `(batch, any)`.

    Args:
        totals: Their log-probabilities.
        token_and_parent: Int32 below `size`.
        size: Static int.
        beam_width, end_ids, group_slice: As in `expand_beams`.
    """
    taken, width = group_slice.taken, totals.shape[1]
    selection_scores = totals
    if taken is None and saves_launches() and width * size < 2**31:
        order = ops.arange(0, width * size, size, dtype="int32") + token_and_parent
        totals, order = top_pairs(totals, order, group_slice.count)
        token_and_parent = order % size
        return Candidates(totals, token_and_parent, is_end(token_and_parent // beam_width, end_ids))
    if taken is not None:
        tokens = token_and_parent // beam_width
        selection_scores = _penalize_repetition(totals, tokens, group_slice)
    selection_scores, places = top_k(selection_scores, group_slice.count)
    token_and_parent = gather_per_row(token_and_parent, places)
    ended = is_end(token_and_parent // beam_width, end_ids)
    if taken is None:
        return Candidates(selection_scores, token_and_parent, ended)
    return Candidates(gather_per_row(totals, places), token_and_parent, ended, selection_scores)


def _add_model_log_probs(candidates, alive, by_token, beam_width, first):
    """Returns `candidates` with the log-probabilities of the model alone.

    Args:
        candidates: `Candidates`.
        alive: The `AliveHypotheses` of a slice, from beam `first` on.
        by_token: Log-probabilities of the model, `(batch * beams, vocabulary)`.
        beam_width: Static int, the factor of `token_and_parent`.
        first: Static int.
    """
    batch, beams = get_shape(alive.model_log_probs)
    vocabulary = by_token.shape[1]
    parents = candidates.token_and_parent % beam_width - first
    places = parents * vocabulary + candidates.token_and_parent // beam_width
    added = gather_per_row(ops.reshape(by_token, (batch, beams * vocabulary)), places)
    sums = gather_per_row(alive.model_log_probs, parents) + added
    return candidates._replace(model_log_probs=ops.maximum(sums, IMPOSSIBLE))


def _penalize_repetition(totals, tokens, group_slice):
    """Subtracts `diversity_penalty` from log-probabilities for each earlier use of a token.

    Only their order matters. So a penalty above all differences between the log-probabilities is
    clipped to these: a larger one would lose their digits.
    """
    is_duplicate = ops.expand_dims(tokens, 2) == ops.expand_dims(group_slice.taken, 1)
    real = totals > POSSIBLE_THRESHOLD
    best = reduce_rows(ops.max, ops.where(real, totals, IMPOSSIBLE), axis=1, keepdims=True)
    worst = reduce_rows(ops.min, ops.where(real, totals, best), axis=1, keepdims=True)
    diversity_penalty = ops.minimum(group_slice.diversity_penalty, best - worst + 1.0)
    selection_scores = totals - diversity_penalty * ops.sum(
        ops.cast(is_duplicate, "float32"), axis=2
    )
    return ops.where(real, ops.maximum(selection_scores, MIN_SCORE), IMPOSSIBLE)


def find_free_places(finished, candidates, is_duplicate=None):
    """Returns which candidates fit into a shrinking beam, boolean `(batch, count)`.

    Each finished hypothesis permanently occupies a place. The best candidates get the remaining
    places; candidates that another group has finished, `is_duplicate`, get none.
    """
    left = ops.sum(ops.cast(finished.scores <= IMPOSSIBLE, "int32"), axis=1, keepdims=True)
    places = _rank_candidates(candidates, is_duplicate) < left
    return places if is_duplicate is None else places & ops.logical_not(is_duplicate)


def _rank_candidates(candidates, passed):
    """Returns the rank of each candidate, int32; those that are `passed` over have none."""
    if passed is None:
        return ops.expand_dims(ops.arange(candidates.token_and_parent.shape[1], dtype="int32"), 0)
    return ops.cumsum(ops.cast(ops.logical_not(passed), "int32"), axis=1) - 1


def select_finished(
    candidates,
    beam_width,
    max_finished_rank,
    is_active,
    is_at_limit,
    places=None,
    is_duplicate=None,
):
    """Returns which candidates finish in this step, boolean `(batch, count)`.

    A candidate that ends counts only if it is among the best `max_finished_rank`. At the length
    limit the hypotheses that would stay alive finish too.

    Args:
        candidates: `Candidates`.
        beam_width: Static int.
        max_finished_rank: Static int, from `beam_width` to twice as many.
        is_active: Boolean `(batch,)`, False for elements whose search has stopped.
        is_at_limit: Boolean `(batch,)`, True for elements at their length limit.
        places: For a shrinking beam the result of `find_free_places`, otherwise None.
        is_duplicate: Boolean `(batch, count)`, True for hypotheses that another group has finished
            in this step, or None.
    """
    growing = ops.logical_not(candidates.ended)
    new = None if is_duplicate is None else ops.logical_not(is_duplicate)
    stays = growing if new is None else growing & new
    if places is None:
        passed = None if is_duplicate is None else is_duplicate & candidates.ended
        best = _rank_candidates(candidates, passed) < max_finished_rank
        stays = stays & (ops.cumsum(ops.cast(stays, "int32"), axis=1) <= beam_width)
    else:
        best, stays = places, stays & places
    ends = candidates.ended & best
    is_finished = (ends if new is None else ends & new) | (stays & ops.expand_dims(is_at_limit, 1))
    return is_finished & (candidates.log_probs > POSSIBLE_THRESHOLD) & ops.expand_dims(is_active, 1)


def add_finished(finished, candidates, scores, length, is_finished):
    """Returns the pool after ranking it together with the candidates that finish.

    Args:
        finished: `FinishedHypotheses` so far.
        candidates: `Candidates`.
        scores: Their scores, `(batch, count)`.
        length: Scalar int tensor, the length of every candidate.
        is_finished: Boolean `(batch, count)`, which of them finish.
    """
    beam_width = finished.scores.shape[1]
    scores = ops.where(is_finished, ops.maximum(scores, MIN_SCORE), IMPOSSIBLE)
    scores = ops.concatenate([finished.scores, scores], axis=1)  # on a tie the earlier one stays
    scores, places = top_k(scores, beam_width)
    log_probs, model_log_probs = _keep_existing(candidates, is_finished)
    lengths = ops.where(is_finished, length, -1)
    added = (log_probs, lengths, candidates.token_and_parent, model_log_probs)
    merged = keras.tree.map_structure(
        lambda *pair: ops.concatenate(pair, axis=1), finished[1:], added
    )
    leaves = gather_together(keras.tree.flatten(merged), places)
    return FinishedHypotheses(scores, *keras.tree.pack_sequence_as(merged, leaves))


def select_alive(candidates, beam_width, places=None):
    """Returns the best `beam` candidates that did not end.

    Args:
        candidates: `Candidates`.
        beam_width: Static int.
        places: For a shrinking beam the result of `find_free_places`, otherwise None.
    """
    growing = ops.logical_not(candidates.ended) & (candidates.log_probs > POSSIBLE_THRESHOLD)
    if places is not None:
        growing = growing & places
    log_probs, model_log_probs = _keep_existing(candidates, growing)
    tokens = (candidates.token_and_parent, model_log_probs)
    if candidates.selection_scores is None:
        if saves_launches():
            return _take_first(growing, beam_width, log_probs, *tokens)
        log_probs, places = top_k(log_probs, beam_width)
    else:
        selection_scores = ops.where(growing, candidates.selection_scores, IMPOSSIBLE)
        _, places = top_k(selection_scores, beam_width)
        log_probs = gather_per_row(log_probs, places)
    return AliveHypotheses(
        log_probs, *keras.tree.map_structure(lambda values: gather_per_row(values, places), tokens)
    )


def _take_first(growing, beam_width, *tensors):
    """Returns the first `beam` growing candidates, of candidates in their order.

    Args:
        growing: Boolean `(batch, count)`.
        beam_width: Static int.
        *tensors: The fields of the result for all candidates, or ().
    """
    counts = ops.cumsum(ops.cast(growing, "int32"), axis=1)
    ranks = ops.arange(1, beam_width + 1, dtype="int32")
    is_taken = growing[:, None] & (counts[:, None] == ranks[None, :, None])  # (batch, beam, count)

    def take(values):
        nothing = IMPOSSIBLE if "float" in keras.backend.standardize_dtype(values.dtype) else 0
        return ops.max(ops.where(is_taken, values[:, None], nothing), axis=2)

    return AliveHypotheses(*keras.tree.map_structure(take, tensors))


def _keep_existing(candidates, exists):
    """Returns both log-probabilities of candidates, IMPOSSIBLE where none `exists`."""
    return keras.tree.map_structure(
        lambda values: ops.where(exists, values, IMPOSSIBLE),
        (candidates.log_probs, candidates.model_log_probs),
    )


def drop_fusion_terms(pool):
    """Returns alive or finished hypotheses with the log-probabilities of the model alone."""
    fused = not isinstance(pool.model_log_probs, tuple)
    return pool._replace(log_probs=pool.model_log_probs) if fused else pool


def unflatten_beams(rows, batch, beams):
    """Returns `(batch * beams, source)` as `(batch, beams, source)`."""
    return ops.reshape(rows, (batch, beams, get_shape(rows)[1]))


def allocate_finished(batch, beam_width, is_fused=False):
    """Returns an empty pool of finished hypotheses; `is_fused` if there is a language model."""
    nothing = ops.full((batch, beam_width), IMPOSSIBLE, dtype="float32")
    lengths = ops.full((batch, beam_width), -1, dtype="int32")
    return FinishedHypotheses(
        nothing, nothing, lengths, ops.zeros_like(lengths), nothing if is_fused else ()
    )
