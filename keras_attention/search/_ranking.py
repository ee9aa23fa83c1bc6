"""The scores that rank hypotheses, and the rules that stop a search.

    score(y) = log p(y) / lp(|y|) + cp(y)

| stopping | a batch element stops when | the result is |
|---|---|---|
| exact | no live hypothesis can reach the worst of `beam` finished scores | that of "limit" |
| limit | its length limit is reached | that of the full search |
| heuristic | no live one would reach it at its current length | exact unless lp grows |
| first | `beam` hypotheses are finished | the hypotheses finished so far |

The bound of a live hypothesis: log-probabilities only decrease and coverage adds at most 0, so
the length penalty at the better end of the remaining lengths determines it.
"""

import functools

from keras import ops

from keras_attention.search import _hypotheses as pools
from keras_attention.search._indexing import gather_per_row, saves_launches
from keras_attention.search._log_probs import IMPOSSIBLE, POSSIBLE_THRESHOLD
from keras_attention.search.penalties import GNMTLengthPenalty, convert_penalty


class Ranking:
    """`log p / lp + cp` of candidates, and bounds for live hypotheses."""

    def __init__(self, owner, length_penalty, coverage_penalty, beam_width):
        self.owner, self.beam_width = owner, beam_width
        self.length_penalty = convert_penalty(
            owner, "length_penalty", length_penalty, GNMTLengthPenalty
        )
        self.coverage_penalty = coverage_penalty

    def penalize_coverage(self, coverage, memory_mask, batch, beams):
        """Returns the penalty of every live hypothesis, `(batch, beams)`, or None."""
        if self.coverage_penalty is None:
            return None
        coverage = pools.unflatten_beams(coverage, batch, beams)
        penalties = self.coverage_penalty(coverage, memory_mask)
        self._check("coverage_penalty", penalties, beams)
        return penalties

    def __call__(self, candidates, length, penalties):
        """Returns the scores of candidates of one `length`, of the shape of `log_probs`."""
        scores = candidates.log_probs
        if self.length_penalty is not None:
            scores = self.length_penalty(scores, ops.reshape(length, (1, 1)))
            self._check("length_penalty", scores, candidates.token_and_parent.shape[1])
        if penalties is None:
            return scores
        return scores + gather_per_row(penalties, candidates.token_and_parent % self.beam_width)

    def find_undecided(self, stopping, alive, finished, length, limits):
        """Returns True for elements whose result may still change, or None for all."""
        worst = finished.scores[:, -1]
        if stopping == "limit":
            return None
        has_alive = ops.any(alive.log_probs > POSSIBLE_THRESHOLD, axis=1)
        if stopping == "shrinking":
            return has_alive
        if stopping == "first":
            return (worst <= IMPOSSIBLE) & has_alive
        now = stopping == "heuristic"
        bounds = self._score_now if now else self._bound_scores
        return self._best_bound(alive.log_probs, bounds(alive.log_probs, length, limits)) > worst

    def find_contenders(self, alive, finished, length, limits):
        """Returns which live hypotheses may still precede the best finished one, `(batch, beam)`.

        A superset where the search stops earlier than at its limit, or with coverage.
        """
        bounds = ops.maximum(self._bound_scores(alive.log_probs, length, limits), pools.MIN_SCORE)
        return (alive.log_probs > POSSIBLE_THRESHOLD) & (bounds >= finished.scores[:, :1])

    def _bound_scores(self, log_probs, length, limits):
        """Returns an upper bound of the final score of each live hypothesis, `(batch, beam)`."""
        if self.length_penalty is None:
            return log_probs
        upper_bound = getattr(self.length_penalty, "upper_bound", None)
        if upper_bound is None:  # without a bound the search runs to its limit
            return ops.zeros_like(log_probs) - pools.MIN_SCORE
        limits = ops.expand_dims(limits, 1)
        shortest = ops.minimum(length + 1, limits)
        return upper_bound(log_probs, shortest, limits)

    def _score_now(self, log_probs, length, limits):
        """Returns the score of each live hypothesis at its current length, `(batch, beam)`."""
        if self.length_penalty is None:
            return log_probs
        return self.length_penalty(log_probs, ops.reshape(length, (1, 1)))

    def _best_bound(self, log_probs, bounds):
        bounds = ops.maximum(bounds, pools.MIN_SCORE)
        bounds = ops.where(log_probs > POSSIBLE_THRESHOLD, bounds, IMPOSSIBLE)
        if saves_launches():  # a maximum of columns needs no kernel of its own
            return functools.reduce(ops.maximum, ops.unstack(bounds, axis=1))
        return ops.max(bounds, axis=1, initial=IMPOSSIBLE)

    def _check(self, name, result, hypotheses):
        shape = tuple(result.shape)
        if len(shape) != 2 or shape[1] not in (None, hypotheses):
            raise ValueError(
                f"{self.owner} expects `{name}` to return one number for each of "
                f"(batch, {hypotheses}) hypotheses. Received: a result of shape {shape}"
            )
