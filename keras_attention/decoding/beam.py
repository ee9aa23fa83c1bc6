"""Beam search, Graves 2012 (https://arxiv.org/abs/1211.3711) to Wu et al. 2016.

    score(y) = log p(y) / lp(|y|) + cp(y)

At each step the `2 * beam` most probable continuations of a row are looked at. Those that end go
to a pool of finished hypotheses if they are among the best `beam` (fairseq, Hugging Face), or on
demand wherever they stand (tensor2tensor, t5x), and `beam` others live on. A row stops once no live
hypothesis can beat the worst of `beam` finished ones, or at its length limit, where the live ones
are ranked too.
"""

from typing import NamedTuple

from keras import ops

from keras_attention import checks
from keras_attention.beams import follow
from keras_attention.decoding import history as histories
from keras_attention.decoding import hypotheses as pools
from keras_attention.decoding.eager import run_loop
from keras_attention.decoding.groups import Groups
from keras_attention.decoding.ranking import FINISHED_CANDIDATES, STOPPING, Ranking
from keras_attention.decoding.task import Task


def beam_search(
    step,
    state,
    memory,
    *,
    beam_width: int = 4,
    max_length: int,
    row_max_length=None,
    min_length=0,
    banned_ids=(),
    no_repeat_ngram: int | None = None,
    prefix=None,
    prefix_lengths=None,
    length_penalty=None,
    coverage_penalty=None,
    memory_mask=None,
    stopping: str = "exact",
    finished_candidates: str = "top_beam",
    groups: int = 1,
    diversity: float = 0.5,
    return_alignments: bool = True,
    reorder=None,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> dict:
    """Returns the best `beam_width` sequences of each row that a beam search finds.

    Compile it; eagerly it is 10 to 100 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    It knows nothing of models: `step` maps ids and a state to logits, the next state and an
    alignment; see `BahdanauDecoder.step` for one. The whole search is one loop, for any batch size
    and source length.

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
            tokens. The end mark counts. A row's own `row_max_length` wins over it.
        banned_ids: Ids never produced, ints, the same for every row.
        no_repeat_ngram: None, or a positive int `n`: no hypothesis contains the same `n` ids in
            a row twice. Ids of the prefix count.
        prefix: None, or int ids of shape `(batch, prefix)` that every hypothesis of a row begins
            with, whatever the other constraints say of them. They are part of the result, of
            its lengths, log-probabilities and alignments. The end mark cannot be forced. A token
            that `step` forbids raises; inside a compiled graph its row gets fillers.
        prefix_lengths: None to take each row of `prefix` up to its first padding, or an int
            tensor of shape `(batch,)`; 0 forces nothing.
        length_penalty: None to rank by log-probability, or a callable such as
            `GNMTLengthPenalty` or `AverageLengthPenalty`.
        coverage_penalty: None, or a callable such as `CoveragePenalty`. It is applied to
            hypotheses as they finish.
        memory_mask: Boolean tensor of shape `(batch, source)`, handed to `coverage_penalty`.
        stopping: When a row stops. `"exact"`: when its answer is certain. `"limit"`: at its
            length limit, with the same answer, later. `"first"`: when `beam_width` hypotheses
            are finished, which may miss better, longer ones. `"heuristic"`: when no live
            hypothesis would beat the worst of them if it were as long as it is now, which is
            exact too unless the length penalty prefers long output. `"shrinking"`: when the beam
            is empty, each finished hypothesis having left it narrower by one (Sutskever et al.
            2014): with a beam of 1 the greedy search, whatever the penalties.
        finished_candidates: Which hypotheses that end in a step count as finished. `"top_beam"`:
            those among the `beam_width` most probable of its `2 * beam_width` candidates, as in
            fairseq and Hugging Face; then a beam of 1 is the greedy search. `"all"`: those anywhere
            among the `2 * beam_width`, as in tensor2tensor and t5x, which finds improbable short
            hypotheses too. `"all"` needs `stopping` to be `"exact"` or `"limit"`: the other rules
            stop on a pool that it would fill with improbable hypotheses.
        groups: Int that divides `beam_width`. More than 1 searches in groups that avoid one
            another's tokens, and of which none returns what an earlier one has found.
        diversity: Number of at least 0, what a token loses for each time an earlier group took
            it in the same step. Only the choice sees it, never a score.
        return_alignments: Bool. Without alignments the search needs less memory.
        reorder: None to gather the rows of every leaf of `state`, or a callable `(state,
            parents) -> state` that does the same in a cheaper way, such as a decoder's
            `reorder`; `parents` is int32 `(batch, beam_width)`, the beam each one grew from. The
            first step, which every beam grows from, and a beam of 1 do not ask it.
        start_id: Int, fed at the first step. Never produced, unless it is the end id too.
        end_id: Int, ends a hypothesis.
        pad_id: Int, fills the ids after the end. Never produced.

    Returns:
        Dict of tensors, the best hypothesis of a row first:

        * `ids`: int32 `(batch, beam_width, max_length)`, `pad_id` after the end;
        * `lengths`: int32 `(batch, beam_width)`, the end mark counted; a hypothesis that reached
          the limit has no end mark;
        * `log_probs`: float32 `(batch, beam_width)`, summed;
        * `scores`: float32 `(batch, beam_width)`, with the penalties applied; one below -9e8, as
          a strongly negative exponent of a length penalty makes it, is -9e8;
        * `token_log_probs`: float32 `(batch, beam_width, max_length)`, whose sum is `log_probs`, 0
          after the end;
        * `alignments`: float32 `(batch, beam_width, max_length, source)`, 0 after the end.

        Where fewer hypotheses exist than `beam_width`, the last ones are fillers: length -1, no
        ids, log-probability and score -1e9, token log-probabilities 0. A token with a logit of -1e9
        or less beside larger ones does not exist.

    Raises:
        ValueError: If an argument is out of range, `step` breaks its promises, or it forbids a
            token of `prefix`.

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

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7. Which candidates finish:
    fairseq `sequence_generator.py`, Hugging Face Transformers `generation/` (`"top_beam"`);
    tensor2tensor `utils/beam_search.py`, t5x `decoding.py` (`"all"`).
    """
    owner, special_ids = "beam_search", (start_id, end_id, pad_id)
    checks.positive_int(owner, "beam_width", beam_width)
    checks.one_of(owner, "stopping", stopping, STOPPING)
    groups = Groups(owner, beam_width, groups, diversity)
    reach = groups.width * _finishing_beams(owner, finished_candidates, stopping)
    ranking = Ranking(owner, length_penalty, coverage_penalty, memory_mask, beam_width)
    if reorder is not None and not callable(reorder):
        raise ValueError(
            f"{owner} expects `reorder` to be None or a callable `reorder(state, parents)`, such "
            f"as a decoder's. Received: reorder={reorder!r}"
        )
    run, _, limits, constraints = Task.checked(
        owner,
        step,
        state,
        memory,
        special_ids,
        max_length,
        row_max_length,
        min_length=min_length,
        banned_ids=banned_ids,
        no_repeat_ngram=no_repeat_ngram,
        prefix=prefix,
        prefix_lengths=prefix_lengths,
    )

    def advance(search, logits, leaves, alignment):
        """One step: from what the decoder said to the pools after it."""
        length = search.time + 1
        at_limit = length >= limits
        batch, beams = ops.shape(search.alive.codes)
        permitted = constraints.permit(logits, search.seen, search.time, beams)
        coverage = () if coverage_penalty is None else search.coverage + alignment
        penalties = ranking.coverage(coverage, batch, beams)
        alive, finished, undecided, earlier = [], [], None, None
        for number in range(groups.count):
            part = groups.part(number, search, logits, permitted, beams, earlier)
            candidates = pools.expand(
                part.alive, part.logits, part.permitted, beam_width, end_id, part.turn
            )
            again = groups.again(candidates, search.twins, earlier)
            places = None
            if stopping == "shrinking":
                places = pools.places_left(part.finished, candidates, again)
            enters = pools.entering(
                candidates, groups.width, reach, search.active, at_limit, places, again
            )
            scores = ranking(candidates, length, penalties)
            ended = pools.finish(part.finished, candidates, scores, length, enters)
            growing = pools.survive(candidates, groups.width, places)
            open_ = ranking.undecided(stopping, growing, ended, length, limits)
            undecided = open_ if undecided is None else undecided | open_
            earlier = groups.after(earlier, candidates, enters, growing, search.twins)
            alive.append(growing)
            finished.append(ended)
        alive, finished = groups.joined(alive), groups.joined(finished)
        active = search.active & ops.logical_not(at_limit)
        active = active if undecided is None else active & undecided
        twins = groups.twins(search.twins, alive)
        history = histories.record(
            search.history, search.time, alive.codes, search.alive.log_probs, alignment
        )
        parents = alive.codes % beam_width
        coverage, seen = follow((coverage, search.seen), parents, beams)
        if reorder is None or beams == 1:
            leaves = follow(leaves, parents, beams)
        else:
            leaves = run.reordered(reorder, leaves, parents)
        seen = constraints.record(seen, search.time, alive.codes, beam_width)
        return _Search(length, active, alive, twins, finished, history, leaves, coverage, seen)

    def body(*search):
        search = _Search(*search)
        batch = ops.shape(search.alive.codes)[0]
        ids = ops.reshape(search.alive.codes // beam_width, (batch * beam_width,))
        return tuple(advance(search, *run(ids, search.leaves)))

    ids = ops.full((run.batch,), start_id, dtype="int32")
    logits, leaves, alignment = run(ids, run.leaves)
    constraints.check_vocabulary(logits)
    axes = "(batch, source)"
    if isinstance(memory_mask, (list, tuple)):
        memory_mask = ops.convert_to_tensor(memory_mask)
    sizes = tuple(alignment.shape)
    memory_mask = checks.boolean_mask(owner, "memory_mask", memory_mask, sizes, axes)
    root = ops.zeros_like(ids[:, None])  # the one hypothesis everything grows from
    search = _Search(
        time=ops.zeros((), dtype="int32"),
        active=ops.ones_like(ids, dtype="bool"),
        alive=pools.Alive(ops.cast(root, "float32"), root),
        twins=groups.first_twins(root),
        finished=pools.no_finished(run.batch, beam_width),
        history=histories.no_history(
            max_length, run.batch, beam_width, alignment, return_alignments
        ),
        leaves=(),
        coverage=() if coverage_penalty is None else ops.zeros_like(alignment),
        seen=constraints.start(run.batch),
    )
    search = advance(search, logits, leaves, alignment)
    search = run_loop(owner, lambda *s: ops.any(_Search(*s).active), body, tuple(search))
    search = _Search(*search)
    finished = groups.ranked(search.finished)
    if constraints.prefix is not None:
        counts = histories.count_taken(search.history, finished, search.time)
        constraints.prefix.check_found(counts, limits)
    ids, token_log_probs, alignments = histories.trace_back(
        search.history, finished, search.time, pad_id
    )
    result = {
        "ids": ids,
        "lengths": finished.lengths,
        "log_probs": finished.log_probs,
        "scores": finished.scores,
        "token_log_probs": token_log_probs,
    }
    if return_alignments:
        result["alignments"] = alignments
    return result


def _finishing_beams(owner, finished_candidates, stopping):
    """Returns among how many times the beam the candidates are that finish where they end."""
    checks.one_of(owner, "finished_candidates", finished_candidates, FINISHED_CANDIDATES)
    if finished_candidates == "all" and stopping not in ("exact", "limit"):
        reason = "would stop on the improbable hypotheses that then count as finished"
        if stopping == "shrinking":
            reason = "takes a place of the beam for each, where those outside of it have none"
        raise ValueError(
            f"{owner} expects `stopping` to be 'exact' or 'limit' beside "
            f"`finished_candidates='all'`: {stopping!r} {reason}. Received: stopping={stopping!r}"
        )
    return FINISHED_CANDIDATES[finished_candidates]


class _Search(NamedTuple):
    """What the loop carries. `leaves`, `coverage` and `seen` have `batch * beam` rows."""

    time: object
    active: object
    alive: pools.Alive
    twins: object
    finished: pools.Finished
    history: histories.History
    leaves: tuple
    coverage: object
    seen: object
