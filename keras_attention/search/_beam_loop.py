"""The loop of a beam search: its start, its step, its result, and what is certain before the end.

`beam.py` describes the algorithm.
"""

from typing import NamedTuple

from keras import ops

from keras_attention import validation
from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.shapes import get_shape
from keras_attention.search import _backpointers
from keras_attention.search import _hypotheses as pools
from keras_attention.search._groups import BeamGroups
from keras_attention.search._ranking import Ranking
from keras_attention.search._search_loop import SearchLoop
from keras_attention.search._search_spec import SearchSpec
from keras_attention.search.beam_options import FINISHED_CANDIDATES, BeamOptions


class BeamState(NamedTuple):
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


class FittedArguments(NamedTuple):
    """The arguments that depend on the step's outputs: `TokenRules`, and the mask or None."""

    rules: object
    memory_mask: object


class BeamLoop(SearchLoop):
    """The loop of `beam_search`, whose arguments it takes."""

    state_type = BeamState
    time_major = frozenset({"backpointers"})
    flat_beams = frozenset({"leaves", "coverage", "ids_so_far", "matched"})

    def __init__(
        self,
        step,
        state,
        memory,
        *,
        max_length,
        beam_width,
        length_penalty,
        constraints,
        options,
        fusion,
        return_alignments,
    ):
        owner = self.owner = "beam_search"
        validation.check_positive_int(owner, "beam_width", beam_width)
        if not isinstance(options, BeamOptions):
            raise ValueError(
                f"{owner} expects `options` to be a `BeamOptions`, such as "
                f"BeamOptions(stopping='first'). Received: options={options!r}"
            )
        options.check_beam_width(owner, beam_width)
        self.ranking = Ranking(owner, length_penalty, options.coverage_penalty, beam_width)
        self.checked_step, self.max_length, self.limits, self.rules, self.special_ids = (
            SearchSpec.from_arguments(owner, step, state, memory, max_length, constraints, fusion)
        )
        if self.rules.phrases is not None:
            self.rules.phrases.check_search(options, self.limits, self.rules.prefix)
        num_ends = len(self.special_ids.end_ids)
        self.groups = BeamGroups(
            beam_width, options.num_groups, options.diversity_penalty, num_ends
        )
        places = FINISHED_CANDIDATES[options.finished_candidates]
        self.max_finished_rank = self.groups.width * places
        self.beam_width, self.options = beam_width, options
        self.return_alignments = return_alignments

    def start(self):
        """Returns the loop state after the first step, and the fitted arguments."""
        checked_step, options = self.checked_step, self.options
        batch = checked_step.batch
        ids = ops.full((batch,), self.special_ids.start_id, dtype="int32")
        step_outputs = checked_step(ids, checked_step.leaves)
        _, _, alignment, *fusion_terms = step_outputs
        fitted = self.fit_arguments(step_outputs)
        root = ops.zeros_like(ids[:, None])  # the single hypothesis from which all others grow
        nothing, is_fused = ops.cast(root, "float32"), bool(fusion_terms)
        loop_state = BeamState(
            time=ops.zeros((), dtype="int32"),
            active=ops.ones_like(ids, dtype="bool"),
            alive=pools.AliveHypotheses(nothing, root, nothing if is_fused else ()),
            duplicates=self.groups.allocate_duplicates(root),
            finished=pools.allocate_finished(batch, self.beam_width, is_fused),
            backpointers=_backpointers.allocate(
                self.max_length, batch, self.beam_width, alignment, self.return_alignments
            ),
            leaves=(),
            coverage=() if options.coverage_penalty is None else ops.zeros_like(alignment),
            ids_so_far=fitted.rules.start(batch),
            matched=() if fitted.rules.phrases is None else fitted.rules.phrases.start(batch),
            num_steps=ops.zeros_like(ids) if options.return_tree else (),
        )
        return self.append_step(loop_state, step_outputs, fitted), fitted

    def fit_arguments(self, step_outputs):
        """Returns the `FittedArguments` for the logits and the alignment of a step."""
        logits, _, alignment, *_ = step_outputs
        rules = self.rules.fit_vocabulary(logits)
        memory_mask, axes = self.options.memory_mask, "(batch, source)"
        if isinstance(memory_mask, (list, tuple)):
            memory_mask = ops.convert_to_tensor(memory_mask)
        sizes = (self.checked_step.batch, alignment.shape[1])
        sizes = tuple(size if isinstance(size, int) else None for size in sizes)
        memory_mask = validation.convert_mask(self.owner, "memory_mask", memory_mask, sizes, axes)
        return FittedArguments(rules, memory_mask)

    def run_step(self, loop_state, fitted=None):
        """Returns the loop state after one more step."""
        batch = get_shape(loop_state.alive.token_and_parent)[0]
        tokens = loop_state.alive.token_and_parent // self.beam_width
        ids = ops.reshape(tokens, (batch * self.beam_width,))
        step_outputs = self.checked_step(ids, loop_state.leaves)
        return self.append_step(
            loop_state, step_outputs, fitted or self.fit_arguments(step_outputs)
        )

    def append_step(self, loop_state, step_outputs, fitted):
        """Runs one step: from the decoder's outputs to the updated pools."""
        logits, leaves, alignment, *fusion_terms = step_outputs
        rules, groups, options = fitted.rules, self.groups, self.options
        ranking, beam_width, limits = self.ranking, self.beam_width, self.limits
        stopping = options.stopping
        length = loop_state.time + 1
        is_at_limit = length >= limits
        batch, beams = get_shape(loop_state.alive.token_and_parent)
        logits = rules.process_logits(logits, loop_state.ids_so_far, loop_state.time)
        restricted = rules.restrict(logits, loop_state.ids_so_far, loop_state.time, beams)
        restricted = restricted._replace(fusion_terms=fusion_terms[0] if fusion_terms else None)
        coverage = () if options.coverage_penalty is None else loop_state.coverage + alignment
        penalties = ranking.penalize_coverage(coverage, fitted.memory_mask, batch, beams)
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
                self.special_ids.end_ids,
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
                self.max_finished_rank,
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
            leaves = self.checked_step.reorder_leaves(options.reorder_cache, leaves, parents)
        ids_so_far = rules.append_step(
            ids_so_far, loop_state.time, alive.token_and_parent, beam_width
        )
        return BeamState(
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

    def finish(self, loop_state):
        """Returns the results of `beam_search`."""
        time, backpointers = loop_state.time, loop_state.backpointers
        finished = pools.drop_fusion_terms(self.groups.sort_finished(loop_state.finished))
        if self.rules.prefix is not None:
            counts = _backpointers.count_tokens(backpointers, finished, time)
            self.rules.prefix.check_forced(counts, self.limits)
        ids, token_log_probs, alignments = _backpointers.trace_back(
            backpointers, finished, time, self.special_ids.pad_id
        )
        result = {
            "ids": ids,
            "lengths": finished.lengths,
            "log_probs": finished.log_probs,
            "scores": finished.scores,
            "token_log_probs": token_log_probs,
        }
        if self.return_alignments:
            result["alignments"] = alignments
        if self.options.return_tree:
            alive = pools.drop_fusion_terms(loop_state.alive)
            result |= _backpointers.make_tree(
                backpointers, alive, finished, time, loop_state.num_steps
            )
        return result

    def find_certain(self, loop_state):
        """Returns the tokens that the best hypothesis will begin with, whatever follows.

        They are the common beginning of the best finished hypothesis and of all live ones that
        may still precede it.
        """
        time, alive = loop_state.time, loop_state.alive
        finished = self.groups.sort_finished(loop_state.finished)
        may_win = self.ranking.find_contenders(alive, finished, time, self.limits)
        may_win = may_win & loop_state.active[:, None]
        lengths = ops.concatenate([finished.lengths[:, :1], ops.where(may_win, time, -1)], axis=1)
        last = [finished.token_and_parent[:, :1], alive.token_and_parent]
        ids, lengths, alignments = _backpointers.trace_common_beginning(
            loop_state.backpointers,
            lengths,
            ops.concatenate(last, axis=1),
            time,
            self.special_ids.pad_id,
        )
        result = {"ids": ids, "lengths": lengths}
        if self.return_alignments:
            result["alignments"] = alignments
        return result
