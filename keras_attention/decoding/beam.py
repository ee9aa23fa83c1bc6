"""Beam search, Graves 2012 (https://arxiv.org/abs/1211.3711) to Wu et al. 2016.

    score(y) = log p(y) / lp(|y|) + cp(y)

At each step the `2 * beam` best continuations of a row are looked at. Those that end go to a
pool of finished hypotheses if they are among the best `beam`, and `beam` others live on. A row
stops once no live hypothesis can beat the worst of `beam` finished ones, or at its length
limit, where the live ones are ranked too.
"""

from typing import NamedTuple

import keras
from keras import ops

from keras_attention import checks
from keras_attention.decoding import hypotheses as pools
from keras_attention.decoding import steps
from keras_attention.decoding.steps import IMPOSSIBLE

STOPPING = ("exact", "limit")


def beam_search(
    step,
    state,
    memory,
    *,
    beam_width: int = 4,
    max_length: int,
    row_max_length=None,
    min_length=0,
    length_penalty=None,
    coverage_penalty=None,
    memory_mask=None,
    stopping: str = "exact",
    return_alignments: bool = True,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> dict:
    """Returns the best `beam_width` sequences of each row that a beam search finds.

    It knows nothing of models: `step` maps ids and a state to logits, the next state and an
    alignment; see `BahdanauDecoder.step` for one. The whole search is one loop that compiles
    under XLA, with any batch size and source length.

    Rows never influence each other. A log-probability is that of exactly the returned ids, the
    end mark included, as `score_sequences` computes it; nothing is added after the end.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`. `ids` are int32 of
            shape `(rows,)`, the start id at first; the logits are `(rows, vocabulary)` with a
            static vocabulary, the alignment is `(rows, source)`. The first call has
            `rows == batch`, the later ones `rows == batch * beam_width`, with the beams of a
            batch row next to each other.
        state: Nest (dicts, lists, tuples) of tensors of shape `(batch, ...)`. The search repeats
            every leaf for the beams and reorders it as hypotheses are dropped. Shapes and
            dtypes must stay the same from step to step.
        memory: What `step` needs of the source. Handed to it as it is.
        beam_width: Positive int, the number of hypotheses kept, and returned.
        max_length: Positive int, the length limit and the width of the result. The end mark
            counts.
        row_max_length: Optional int tensor of shape `(batch,)`: each row's own limit, from 1 to
            `max_length`. Inside a compiled graph it is clipped to that range.
        min_length: Int, or an int tensor of shape `(batch,)`: no hypothesis ends with fewer
            tokens. The end mark counts.
        length_penalty: None to rank by log-probability, or a callable such as
            `GNMTLengthPenalty` or `AverageLengthPenalty`.
        coverage_penalty: None, or a callable such as `CoveragePenalty`. It is applied to
            hypotheses as they finish.
        memory_mask: Boolean tensor of shape `(batch, source)`, handed to `coverage_penalty`.
        stopping: `"exact"` stops a row when its answer is certain; `"limit"` runs every row to
            its length limit and returns the same, later.
        return_alignments: Bool. Without alignments the search needs less memory.
        start_id: Int, fed at the first step. Never produced, unless it is the end id too.
        end_id: Int, ends a hypothesis.
        pad_id: Int, fills the ids after the end. Never produced.

    Returns:
        Dict of tensors, the best hypothesis of a row first:

        * `ids`: int32 `(batch, beam_width, max_length)`, `pad_id` after the end;
        * `lengths`: int32 `(batch, beam_width)`, the end mark counted; a hypothesis that reached
          the limit has no end mark;
        * `log_probs`: float32 `(batch, beam_width)`, summed;
        * `scores`: float32 `(batch, beam_width)`, with the penalties applied;
        * `alignments`: float32 `(batch, beam_width, max_length, source)`, 0 after the end.

        Where fewer hypotheses exist than `beam_width`, the last ones are fillers: length -1, no
        ids, log-probability and score -1e9. A token with a logit of -1e9 or less beside larger
        ones does not exist.

    Raises:
        ValueError: If an argument is out of range, or `step` breaks its promises.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import beam_search
    >>> table = keras.ops.log(keras.ops.array(  # p(next | last): 4 follows the start, 3 ends
    ...     [[.2] * 5, [.2] * 5, [.0, .1, .0, .3, .6], [.2] * 5, [.0, .1, .0, .7, .2]]) + 1e-9)
    >>> def step(ids, state, memory):
    ...     return keras.ops.take(table, ids, axis=0), state, keras.ops.zeros((len(ids), 1))
    >>> result = beam_search(step, {}, keras.ops.zeros((1, 1)), beam_width=2, max_length=5)
    >>> keras.ops.convert_to_numpy(result["ids"])[0].tolist()
    [[4, 3, 0, 0, 0], [3, 0, 0, 0, 0]]

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7.
    """
    owner = "beam_search"
    checks.positive_int(owner, "beam_width", beam_width)
    checks.positive_int(owner, "max_length", max_length)
    checks.one_of(owner, "stopping", stopping, STOPPING)
    for name, penalty in (("length", length_penalty), ("coverage", coverage_penalty)):
        if penalty is not None and not callable(penalty):
            raise ValueError(
                f"{owner} expects `{name}_penalty` to be None or a callable such as "
                f"`{'GNMTLengthPenalty(0.6)' if name == 'length' else 'CoveragePenalty(0.2)'}`. "
                f"Received: {name}_penalty={penalty!r}"
            )
    steps.check_special_ids(owner, start_id, end_id, pad_id)
    run = steps.CheckedStep(owner, step, state, memory)
    limits = steps.row_limits(owner, max_length, row_max_length, run.batch)
    shortest = steps.minimum_lengths(owner, min_length, max_length, run.batch)
    score = _Score(length_penalty, coverage_penalty, memory_mask)
    banned = tuple(sorted({pad_id, start_id} - {end_id}))

    def advance(search, logits, leaves, alignment):
        """One step: from what the decoder said to the pools after it."""
        length = search.time + 1
        at_limit = length >= limits
        end_allowed = None if shortest is None else length >= shortest
        beams = search.alive.codes.shape[1]
        candidates = pools.expand(search.alive, logits, beam_width, banned, end_id, end_allowed)
        coverage = () if coverage_penalty is None else search.coverage + alignment
        scores = score(candidates, length, coverage, beams)
        accept = search.active
        finished = pools.finish(search.finished, candidates, scores, length, accept, at_limit)
        alive = pools.survive(candidates)
        active = search.active & ops.logical_not(at_limit)
        if stopping == "exact":
            best = score.bound(alive.log_probs, length + 1, limits)
            active = active & (best > finished.scores[:, -1])
        history = pools.record(search.history, search.time, alive.codes, alignment, beams)
        leaves, coverage = _reorder((leaves, coverage), alive.codes % beam_width, beams)
        return _Search(length, active, alive, finished, history, leaves, coverage)

    def body(*search):
        search = _Search(*search)
        batch = ops.shape(search.alive.codes)[0]
        ids = ops.reshape(search.alive.codes // beam_width, (batch * beam_width,))
        return tuple(advance(search, *run(ids, search.leaves)))

    ids = ops.full((run.batch,), start_id, dtype="int32")
    logits, leaves, alignment = run(ids, run.leaves)
    steps.check_vocabulary(owner, logits, start_id, end_id, pad_id)
    axes = "(batch, source)"
    checks.boolean_mask(owner, "memory_mask", memory_mask, tuple(alignment.shape), axes)
    root = ops.zeros_like(ids[:, None])  # the one hypothesis everything grows from
    search = _Search(
        time=ops.zeros((), dtype="int32"),
        active=ops.ones_like(ids, dtype="bool"),
        alive=pools.Alive(ops.cast(root, "float32"), root),
        finished=pools.no_finished(run.batch, beam_width),
        history=pools.no_history(max_length, run.batch, beam_width, alignment, return_alignments),
        leaves=(),
        coverage=() if coverage_penalty is None else ops.zeros_like(alignment),
    )
    search = advance(search, logits, leaves, alignment)
    search = _Search(*ops.while_loop(lambda *s: ops.any(_Search(*s).active), body, tuple(search)))
    ids, alignments = pools.trace_back(search.history, search.finished, search.time, pad_id)
    result = {"ids": ids}
    for name in ("lengths", "log_probs", "scores"):
        result[name] = getattr(search.finished, name)
    if return_alignments:
        result["alignments"] = alignments
    return result


class _Search(NamedTuple):
    """What the loop carries. `leaves` and `coverage` have `batch * beam` rows."""

    time: object
    active: object
    alive: pools.Alive
    finished: pools.Finished
    history: pools.History
    leaves: tuple
    coverage: object


class _Score:
    """`log p / lp + cp` of candidates, and its upper bound for what is still alive."""

    def __init__(self, length_penalty, coverage_penalty, memory_mask):
        self.length_penalty, self.coverage_penalty = length_penalty, coverage_penalty
        self.memory_mask = memory_mask

    def __call__(self, candidates, length, coverage, beams):
        scores = candidates.log_probs
        batch, count = ops.shape(scores)
        if self.length_penalty is not None:
            scores = self.length_penalty(scores, ops.reshape(length, (1, 1)))
            self._check("length_penalty", scores, count)
        if self.coverage_penalty is None:
            return scores
        coverage = pools.by_beam(coverage, batch, beams)
        penalties = self.coverage_penalty(coverage, self.memory_mask)
        self._check("coverage_penalty", penalties, beams)
        return scores + steps.pick(penalties, candidates.codes % (count // 2))

    def bound(self, log_probs, shortest, limits):
        """Returns the best score a live hypothesis of each row can still reach, `(batch,)`.

        Log-probabilities only fall and coverage adds at most 0, so the length penalty decides.
        """
        bounds = log_probs
        if self.length_penalty is not None:
            bound = getattr(self.length_penalty, "bound", None)
            if bound is None:  # nothing is certain before the limit
                bounds = ops.zeros_like(log_probs) - pools.LOWEST
            else:
                limits = ops.expand_dims(limits, 1)
                shortest = ops.minimum(shortest, limits)
                bounds = bound(log_probs, shortest, limits)
        bounds = ops.maximum(bounds, pools.LOWEST)
        return ops.max(ops.where(log_probs > pools.EXISTS, bounds, IMPOSSIBLE), axis=1)

    def _check(self, name, result, hypotheses):
        shape = tuple(result.shape)
        if len(shape) != 2 or shape[1] not in (None, hypotheses):
            raise ValueError(
                f"beam_search expects `{name}` to return one number for each of "
                f"(batch, {hypotheses}) hypotheses. Received: a result of shape {shape}"
            )


def _reorder(tree, parents, beams):
    """Returns the tensors of `tree` with the row of each new beam's parent."""
    batch, beam_width = ops.shape(parents)
    if beams == beam_width == 1:
        return tree
    first = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * beams
    rows = ops.reshape(first + parents, (batch * beam_width,))
    return keras.tree.map_structure(lambda leaf: ops.take(leaf, rows, axis=0), tree)
