"""Beam search, Graves 2012 (https://arxiv.org/abs/1211.3711) to Wu et al. 2016.

    score(y) = log p(y) / lp(|y|) + cp(y)

With a language model, `fusion`, log p(y) + weight * log p_LM(y) takes the place of log p(y).

Each step compares the `2 * beam` most probable continuations of a batch element, and `beam` more
for each further EOS token. Those that end go to a pool of finished hypotheses, either if they are
among the best `beam` (fairseq, Hugging Face) or among the best `2 * beam` (tensor2tensor, t5x), and
`beam` others stay alive. A batch element stops once no live hypothesis can beat the worst of `beam`
finished ones. At its length limit the live ones are ranked too.
"""

from typing import NamedTuple

from keras import ops

from keras_attention import validation
from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Step,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.search import _backpointers
from keras_attention.search import _hypotheses as pools
from keras_attention.search._groups import BeamGroups
from keras_attention.search._log_probs import IMPOSSIBLE
from keras_attention.search._ranking import Ranking
from keras_attention.search._search_loop import run_search_loop
from keras_attention.search._search_spec import SearchSpec
from keras_attention.search.beam_options import FINISHED_CANDIDATES, BeamOptions
from keras_attention.search.constraints import Constraints
from keras_attention.search.penalties import LengthPenalty
from keras_attention.search.shallow_fusion import ShallowFusion

#: The score and log-probability of a padding hypothesis; those of real ones are higher.
PADDING_SCORE = IMPOSSIBLE


def beam_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    max_length: int,
    beam_width: int = 4,
    length_penalty: LengthPenalty | float | None = None,
    constraints: Constraints = Constraints(),
    options: BeamOptions = BeamOptions(),
    fusion: ShallowFusion | None = None,
    memory_mask: TensorLike | None = None,
    return_alignments: bool = True,
) -> dict[str, Tensor]:
    """Returns the best `beam_width` sequences of each batch element, found by beam search.

    Compile it; eagerly it is 10 to 100 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    It works with any model: `step` maps ids and a state to logits, the next state and an
    alignment; see `BahdanauDecoder.step` for one. The whole search is one loop, for any batch size
    and source length.

    Batch elements never influence each other. A log-probability is that of exactly the returned
    ids, including EOS, as `score_sequences` computes it, unless `constraints` change the logits;
    nothing is added after the end.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`. `ids` are int32 of
            shape `(rows,)`, the BOS token at first; the logits are `(rows, vocabulary)` with a
            static vocabulary, the alignment is `(rows, source)`. The first call has
            `rows == batch`, the later ones `rows == batch * beam_width`, with the beams of a
            batch element next to each other.
        state: Nest (dicts, lists, tuples) of tensors of shape `(batch, ...)`. The search repeats
            every leaf for the beams and reorders it as hypotheses are dropped. Shapes and
            dtypes must stay the same from step to step.
        memory: The source's tensors that `step` needs. Passed to it unchanged.
        max_length: Positive int, the length limit and the width of the result. The EOS token
            counts.
        beam_width: Positive int, the number of hypotheses to keep and to return.
        length_penalty: None to rank by log-probability, the alpha of a `GNMTLengthPenalty`, or a
            callable such as one or `AverageLengthPenalty`.
        constraints: What a hypothesis may contain, and the special ids: a `Constraints`.
        options: How the beam ranks and stops: a `BeamOptions`.
        fusion: None, or a `ShallowFusion`: a language model that ranks hypotheses too.
        memory_mask: None, or a boolean tensor of shape `(batch, source)`, passed to
            `options.coverage_penalty`.
        return_alignments: Bool. Without alignments the search needs less memory.

    Returns:
        Dict of tensors, the best hypothesis of a batch element first:

        * `ids`: int32 `(batch, beam_width, max_length)`, padding after the end;
        * `lengths`: int32 `(batch, beam_width)`, including EOS; a hypothesis that reached
          the limit has no EOS;
        * `log_probs`: float32 `(batch, beam_width)`, summed;
        * `scores`: float32 `(batch, beam_width)`, with the language model and the penalties
          applied, at least -9e8, which a strongly negative exponent of a length penalty could
          exceed;
        * `token_log_probs`: float32 `(batch, beam_width, max_length)`, whose sum is `log_probs`, 0
          after the end;
        * `alignments`: float32 `(batch, beam_width, max_length, source)`, 0 after the end.

        With `options.return_tree` also three of shape `(batch, max_length, 2 * beam_width)`: int32
        `tree_ids`, int32 `tree_parents` and float32 `tree_log_probs`. In each step the first
        `beam_width` entries are the hypotheses that stay alive, the others those that ended there
        and are returned. An entry is its last token, the place of its parent in the step before,
        and its log-probability so far; -1e9 marks places without a hypothesis.

        If there are fewer hypotheses than `beam_width`, padding hypotheses come last: length -1,
        no ids, log-probability and score -1e9, token log-probabilities 0. A token with a logit of
        -1e9 or less beside larger ones is impossible.

    Raises:
        ValueError: If an argument is out of range, `step` violates its protocol, or it forbids a
            token of a prefix.

    Example:

    >>> import keras
    >>> from keras_attention.search import beam_search
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
    validation.check_positive_int(owner, "beam_width", beam_width)
    if not isinstance(options, BeamOptions):
        raise ValueError(
            f"{owner} expects `options` to be a `BeamOptions`, such as "
            f"BeamOptions(stopping='first'). Received: options={options!r}"
        )
    stopping = options.stopping
    options.check_beam_width(owner, beam_width)
    ranking = Ranking(owner, length_penalty, options.coverage_penalty, beam_width)
    checked_step, _, limits, rules, special_ids = SearchSpec.from_arguments(
        owner, step, state, memory, max_length, constraints, fusion
    )
    if rules.phrases is not None:
        rules.phrases.check_search(options, limits, rules.prefix)
    groups = BeamGroups(
        beam_width, options.num_groups, options.diversity_penalty, len(special_ids.end_ids)
    )
    max_finished_rank = groups.width * FINISHED_CANDIDATES[options.finished_candidates]

    def advance(loop_state, logits, leaves, alignment, fusion_terms=None):
        """Runs one step: from the decoder's outputs to the updated pools."""
        length = loop_state.time + 1
        is_at_limit = length >= limits
        batch, beams = get_shape(loop_state.alive.token_and_parent)
        logits = rules.process_logits(logits, loop_state.ids_so_far, loop_state.time)
        restricted = rules.restrict(logits, loop_state.ids_so_far, loop_state.time, beams)
        restricted = restricted._replace(fusion_terms=fusion_terms)
        coverage = () if options.coverage_penalty is None else loop_state.coverage + alignment
        penalties = ranking.penalize_coverage(coverage, memory_mask, batch, beams)
        alive, finished, undecided, earlier, phrase_step = [], [], None, None, None
        if rules.phrases is not None:
            remaining = limits - length
            phrase_step = rules.phrases.begin_step(loop_state.matched, batch, beams, remaining)
        for group_index in range(groups.count):
            group_step = groups.slice_group(
                group_index, loop_state, logits, restricted, beams, earlier
            )
            candidates = pools.expand_beams(
                group_step.alive,
                group_step.logits,
                group_step.restricted,
                beam_width,
                special_ids.end_ids,
                group_step.group_slice,
                phrase_step,
            )
            is_duplicate = groups.find_earlier_finished(candidates, loop_state.duplicates, earlier)
            has_place = None
            if stopping == "shrinking":
                has_place = pools.find_free_places(group_step.finished, candidates, is_duplicate)
            is_finished = pools.select_finished(
                candidates,
                groups.width,
                max_finished_rank,
                loop_state.active,
                is_at_limit,
                has_place,
                is_duplicate,
            )
            scores = ranking(candidates, length, penalties)
            ended = pools.add_finished(group_step.finished, candidates, scores, length, is_finished)
            growing = pools.select_alive(candidates, groups.width, has_place)
            may_change = ranking.find_undecided(stopping, growing, ended, length, limits)
            undecided = may_change if undecided is None else undecided | may_change
            earlier = groups.extend_earlier(
                earlier, candidates, is_finished, growing, loop_state.duplicates
            )
            alive.append(growing)
            finished.append(ended)
        alive, finished = groups.join_groups(alive), groups.join_groups(finished)
        active = loop_state.active & ops.logical_not(is_at_limit)
        active = active if undecided is None else active & undecided
        num_steps = loop_state.num_steps
        if options.return_tree:
            num_steps = ops.where(loop_state.active, length, num_steps)
        duplicates = groups.find_duplicates(loop_state.duplicates, alive)
        backpointers = _backpointers.append_step(
            loop_state.backpointers,
            loop_state.time,
            alive.token_and_parent,
            pools.drop_fusion_terms(loop_state.alive).log_probs,
            alignment,
        )
        parents = alive.token_and_parent % beam_width
        coverage, ids_so_far = gather_beams((coverage, loop_state.ids_so_far), parents, beams)
        matched = ()
        if rules.phrases is not None:
            tokens = alive.token_and_parent // beam_width
            matched = rules.phrases.append_step(loop_state.matched, tokens, parents, beams)
        if options.reorder_cache is None or beams == 1:
            leaves = gather_beams(leaves, parents, beams)
        else:
            leaves = checked_step.reorder_leaves(options.reorder_cache, leaves, parents)
        ids_so_far = rules.append_step(
            ids_so_far, loop_state.time, alive.token_and_parent, beam_width
        )
        return _BeamSearchState(
            length,
            active,
            alive,
            duplicates,
            finished,
            backpointers,
            leaves,
            coverage,
            ids_so_far,
            matched,
            num_steps,
        )

    def body(*loop_state):
        loop_state = _BeamSearchState(*loop_state)
        batch = get_shape(loop_state.alive.token_and_parent)[0]
        ids = ops.reshape(loop_state.alive.token_and_parent // beam_width, (batch * beam_width,))
        return tuple(advance(loop_state, *checked_step(ids, loop_state.leaves)))

    ids = ops.full((checked_step.batch,), special_ids.start_id, dtype="int32")
    logits, leaves, alignment, *fusion_terms = checked_step(ids, checked_step.leaves)
    rules.check_vocabulary(logits)
    axes = "(batch, source)"
    if isinstance(memory_mask, (list, tuple)):
        memory_mask = ops.convert_to_tensor(memory_mask)
    sizes = tuple(alignment.shape)
    memory_mask = validation.convert_mask(owner, "memory_mask", memory_mask, sizes, axes)
    root = ops.zeros_like(ids[:, None])  # the single hypothesis from which all others grow
    nothing, is_fused = ops.cast(root, "float32"), bool(fusion_terms)
    loop_state = _BeamSearchState(
        time=ops.zeros((), dtype="int32"),
        active=ops.ones_like(ids, dtype="bool"),
        alive=pools.AliveHypotheses(nothing, root, nothing if is_fused else ()),
        duplicates=groups.allocate_duplicates(root),
        finished=pools.allocate_finished(checked_step.batch, beam_width, is_fused),
        backpointers=_backpointers.allocate(
            max_length, checked_step.batch, beam_width, alignment, return_alignments
        ),
        leaves=(),
        coverage=() if options.coverage_penalty is None else ops.zeros_like(alignment),
        ids_so_far=rules.start(checked_step.batch),
        matched=() if rules.phrases is None else rules.phrases.start(checked_step.batch),
        num_steps=ops.zeros_like(ids) if options.return_tree else (),
    )
    loop_state = advance(loop_state, logits, leaves, alignment, *fusion_terms)
    loop_state = run_search_loop(
        owner, lambda *s: ops.any(_BeamSearchState(*s).active), body, tuple(loop_state)
    )
    loop_state = _BeamSearchState(*loop_state)
    finished = pools.drop_fusion_terms(groups.sort_finished(loop_state.finished))
    if rules.prefix is not None:
        counts = _backpointers.count_tokens(loop_state.backpointers, finished, loop_state.time)
        rules.prefix.check_forced(counts, limits)
    ids, token_log_probs, alignments = _backpointers.trace_back(
        loop_state.backpointers, finished, loop_state.time, special_ids.pad_id
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
    if options.return_tree:
        result |= _backpointers.make_tree(
            loop_state.backpointers,
            pools.drop_fusion_terms(loop_state.alive),
            finished,
            loop_state.time,
            loop_state.num_steps,
        )
    return result


class _BeamSearchState(NamedTuple):
    """The loop state. `leaves`, `coverage`, `ids_so_far` and `matched` have `batch * beam` rows.

    `num_steps` are the steps of each batch element, `(batch,)`, if the tree is returned.
    """

    time: object
    active: object
    alive: pools.AliveHypotheses
    duplicates: object
    finished: pools.FinishedHypotheses
    backpointers: _backpointers.Backpointers
    leaves: tuple
    coverage: object
    ids_so_far: object
    matched: object
    num_steps: object
