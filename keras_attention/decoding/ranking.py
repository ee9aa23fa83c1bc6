"""The scores hypotheses are ranked by, and when a row's answer stands.

    score(y) = log p(y) / lp(|y|) + cp(y)

| stopping | a row stops when | the answer is |
|---|---|---|
| exact | no live hypothesis can reach the worst of `beam` finished scores | that of "limit" |
| limit | its length limit is reached | what the beam finds |
| heuristic | no live one would reach it, were it as long as it is now | exact unless lp grows |
| first | `beam` hypotheses are finished | what was finished by then |

What a live hypothesis can reach: log-probabilities only fall and coverage adds at most 0, so
the length penalty at the better end of the lengths that are left decides.
"""

from keras import ops

from keras_attention.decoding import hypotheses as pools
from keras_attention.decoding import steps
from keras_attention.decoding.steps import IMPOSSIBLE

STOPPING = ("exact", "limit", "first", "heuristic", "shrinking")
#: How many times the `beam` the candidates are among which one that ends counts as finished.
FINISHED_CANDIDATES = {"top_beam": 1, "all": 2}


class Ranking:
    """`log p / lp + cp` of candidates, and what is still alive held against it."""

    def __init__(self, owner, length_penalty, coverage_penalty, memory_mask, beam_width):
        for name, penalty in (("length", length_penalty), ("coverage", coverage_penalty)):
            if penalty is not None and (not callable(penalty) or isinstance(penalty, type)):
                example = "GNMTLengthPenalty(0.6)" if name == "length" else "CoveragePenalty(0.2)"
                raise ValueError(
                    f"{owner} expects `{name}_penalty` to be None or a callable such as "
                    f"`{example}`. Received: {name}_penalty={penalty!r}"
                )
        self.owner, self.memory_mask, self.beam_width = owner, memory_mask, beam_width
        self.length_penalty, self.coverage_penalty = length_penalty, coverage_penalty

    def coverage(self, coverage, batch, beams):
        """Returns the penalty of every live hypothesis, `(batch, beams)`, or None."""
        if self.coverage_penalty is None:
            return None
        coverage = pools.by_beam(coverage, batch, beams)
        penalties = self.coverage_penalty(coverage, self.memory_mask)
        self._check("coverage_penalty", penalties, beams)
        return penalties

    def __call__(self, candidates, length, penalties):
        """Returns the scores of candidates of one `length`, of the shape of `log_probs`."""
        scores = candidates.log_probs
        if self.length_penalty is not None:
            scores = self.length_penalty(scores, ops.reshape(length, (1, 1)))
            self._check("length_penalty", scores, candidates.codes.shape[1])
        if penalties is None:
            return scores
        return scores + steps.pick(penalties, candidates.codes % self.beam_width)

    def undecided(self, stopping, alive, finished, length, limits):
        """Returns True for the rows whose answer may change after a step, or None for all."""
        worst = finished.scores[:, -1]
        if stopping == "limit":
            return None
        going = ops.any(alive.log_probs > pools.EXISTS, axis=1)
        if stopping == "shrinking":
            return going
        if stopping == "first":
            return (worst <= IMPOSSIBLE) & going
        now = stopping == "heuristic"
        bounds = self._now if now else self._bound
        return self._best(alive.log_probs, bounds(alive.log_probs, length, limits)) > worst

    def _bound(self, log_probs, length, limits):
        """Returns the best score that each live hypothesis can still reach, `(batch, beam)`."""
        if self.length_penalty is None:
            return log_probs
        bound = getattr(self.length_penalty, "bound", None)
        if bound is None:  # nothing is certain before the limit
            return ops.zeros_like(log_probs) - pools.LOWEST
        limits = ops.expand_dims(limits, 1)
        shortest = ops.minimum(length + 1, limits)
        return bound(log_probs, shortest, limits)

    def _now(self, log_probs, length, limits):
        """Returns the score of each live hypothesis at its present length, `(batch, beam)`."""
        if self.length_penalty is None:
            return log_probs
        return self.length_penalty(log_probs, ops.reshape(length, (1, 1)))

    def _best(self, log_probs, bounds):
        bounds = ops.maximum(bounds, pools.LOWEST)
        bounds = ops.where(log_probs > pools.EXISTS, bounds, IMPOSSIBLE)
        return ops.max(bounds, axis=1, initial=IMPOSSIBLE)

    def _check(self, name, result, hypotheses):
        shape = tuple(result.shape)
        if len(shape) != 2 or shape[1] not in (None, hypotheses):
            raise ValueError(
                f"{self.owner} expects `{name}` to return one number for each of "
                f"(batch, {hypotheses}) hypotheses. Received: a result of shape {shape}"
            )
