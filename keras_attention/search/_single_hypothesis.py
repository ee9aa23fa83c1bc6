"""The loop of searches with one hypothesis per batch element: greedy search and sampling.

A batch element stops at its EOS token, at its limit, or when no token is permitted. From then on it
emits padding and adds nothing to its log-probability.
"""

from typing import NamedTuple

from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention.search._end_ids import is_not_end
from keras_attention.search._indexing import write_at
from keras_attention.search._log_probs import IMPOSSIBLE
from keras_attention.search._search_loop import SearchLoop


class ChosenTokens(NamedTuple):
    """The next token of each hypothesis.

    `ids` `(rows,)`; `log_probs`, a tuple of float32 `(rows,)` that are summed along the
    hypothesis, the model's first; `exists` `(rows,)`, False if no token is permitted.
    """

    ids: object
    log_probs: tuple
    exists: object


class SingleState(NamedTuple):
    """The loop state: one hypothesis per batch element."""

    time: object
    active: object
    ids: object
    sums: tuple
    lengths: object
    output_ids: object
    token_log_probs: object
    alignments: object
    ids_so_far: object
    leaves: tuple


class SingleLoop(SearchLoop):
    """The loop that extends the hypothesis of each batch element by what `choose` selects.

    Args:
        search_spec: The result of `SearchSpec.from_arguments`.
        choose: Function `(logits, restricted, time) -> ChosenTokens`; `restricted` are the logits
            with forbidden tokens at -2e9. With a language model it takes its `fusion_terms` too.
        sums: Names of the results to which `ChosenTokens.log_probs` are summed.
        return_alignments: Bool.

    `run` returns a dict of tensors: `ids` `(batch, max_length)`, `lengths` and the `sums`
    `(batch,)`, `token_log_probs`, the terms of the first of them, `(batch, max_length)`, and
    `alignments` `(batch, max_length, source)`.
    """

    state_type = SingleState
    time_major = frozenset({"output_ids", "token_log_probs", "alignments"})
    flat_beams = frozenset()

    def __init__(self, search_spec, choose, sums, return_alignments):
        self.checked_step, self.max_length, self.limits, self.rules, self.special_ids = search_spec
        self.owner, self.choose, self.sums = self.checked_step.owner, choose, sums
        self.return_alignments = return_alignments
        if self.rules.phrases is not None:
            raise ValueError(
                f"{self.owner} cannot search for `phrases`: use `beam_search`. Received: "
                f"phrases.shape={tuple(self.rules.phrases.ids.shape)}"
            )

    def start(self):
        checked_step, special_ids = self.checked_step, self.special_ids
        ids = ops.full((checked_step.batch,), special_ids.start_id, dtype="int32")
        step_outputs = checked_step(ids, checked_step.leaves)
        logits, _, alignment, *_ = step_outputs
        rules = self.rules.fit_vocabulary(logits)
        empty = (self.max_length, checked_step.batch, get_shape(alignment)[1])
        nothing = ops.zeros((checked_step.batch,), dtype="float32")
        loop_state = SingleState(
            time=ops.zeros((), dtype="int32"),
            active=ops.ones_like(ids, dtype="bool"),
            ids=ids,
            sums=tuple(nothing for _ in self.sums),
            lengths=ops.zeros_like(ids),
            output_ids=ops.full(empty[:2], special_ids.pad_id, dtype="int32"),
            token_log_probs=ops.zeros(empty[:2], dtype="float32"),
            alignments=ops.zeros(empty, dtype="float32") if self.return_alignments else (),
            ids_so_far=rules.start(checked_step.batch),
            leaves=(),
        )
        return self.append_step(loop_state, step_outputs, rules), rules

    def run_step(self, loop_state, fitted=None):
        step_outputs = self.checked_step(loop_state.ids, loop_state.leaves)
        rules = fitted or self.rules.fit_vocabulary(step_outputs[0])
        return self.append_step(loop_state, step_outputs, rules)

    def append_step(self, loop_state, step_outputs, rules):
        """Runs one step: from the decoder's outputs to the next ids."""
        logits, leaves, alignment, *fusion_terms = step_outputs
        logits = rules.process_logits(logits, loop_state.ids_so_far, loop_state.time)
        restricted = rules.restrict_all(logits, loop_state.ids_so_far, loop_state.time)
        ids, log_probs, exists = self.choose(logits, restricted, loop_state.time, *fusion_terms)
        is_growing = loop_state.active & exists
        log_probs = tuple(ops.where(is_growing, taken, 0.0) for taken in log_probs)
        lengths = loop_state.lengths + ops.cast(is_growing, "int32")
        alignments = loop_state.alignments
        if self.return_alignments:
            shown_alignment = ops.where(is_growing[:, None], alignment, 0.0)
            alignments = write_at(alignments, loop_state.time, shown_alignment)
        end_ids, pad_id = self.special_ids.end_ids, self.special_ids.pad_id
        return SingleState(
            loop_state.time + 1,
            is_growing & is_not_end(ids, end_ids) & (lengths < self.limits),
            ids,
            tuple(
                ops.maximum(total + taken, IMPOSSIBLE)
                for total, taken in zip(loop_state.sums, log_probs, strict=True)
            ),
            lengths,
            write_at(loop_state.output_ids, loop_state.time, ops.where(is_growing, ids, pad_id)),
            write_at(loop_state.token_log_probs, loop_state.time, log_probs[0]),
            alignments,
            rules.append_step(loop_state.ids_so_far, loop_state.time, ids),
            leaves,
        )

    def finish(self, loop_state):
        if self.rules.prefix is not None:
            self.rules.prefix.check_forced(loop_state.lengths, self.limits)
        result = {"ids": ops.transpose(loop_state.output_ids), "lengths": loop_state.lengths}
        result |= dict(zip(self.sums, loop_state.sums, strict=True))
        result["token_log_probs"] = ops.transpose(loop_state.token_log_probs)
        if self.return_alignments:
            result["alignments"] = ops.transpose(loop_state.alignments, (1, 0, 2))
        return result

    def find_certain(self, loop_state):
        """Returns all tokens so far: what is chosen stays."""
        certain = {"ids": ops.transpose(loop_state.output_ids), "lengths": loop_state.lengths}
        if self.return_alignments:
            certain["alignments"] = ops.transpose(loop_state.alignments, (1, 0, 2))
        return certain
