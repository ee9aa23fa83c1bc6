"""The loop of searches with one hypothesis per batch element: greedy search and sampling.

A batch element stops at its EOS token, at its limit, or when no token is permitted. From then on it
emits padding and adds nothing to its log-probability.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention.search._end_ids import is_not_end
from keras_attention.search._indexing import write_at
from keras_attention.search._log_probs import IMPOSSIBLE
from keras_attention.search._search_loop import run_search_loop
from keras_attention.search._search_spec import SearchSpec


class ChosenTokens(NamedTuple):
    """The next token of each hypothesis.

    `ids` `(rows,)`; `log_probs`, a tuple of float32 `(rows,)` that are summed along the
    hypothesis, the model's first; `exists` `(rows,)`, False if no token is permitted.
    """

    ids: object
    log_probs: tuple
    exists: object


def search_single_hypothesis(
    search_spec: SearchSpec, choose: Callable, sums: tuple[str, ...], return_alignments: bool
) -> dict:
    """Returns the hypothesis of each batch element that `choose` selects, token by token.

    Args:
        search_spec: The result of `SearchSpec.from_arguments`.
        choose: Function `(logits, restricted, time) -> ChosenTokens`; `restricted` are the logits
            with forbidden tokens at -2e9. With a language model it takes its `fusion_terms` too.
        sums: Names of the results to which `ChosenTokens.log_probs` are summed.
        return_alignments: Bool.

    Returns:
        Dict of tensors: `ids` `(batch, max_length)`, `lengths` and the `sums` `(batch,)`,
        `token_log_probs`, the terms of the first of them, `(batch, max_length)`, and `alignments`
        `(batch, max_length, source)`.
    """
    checked_step, rules = search_spec.checked_step, search_spec.rules
    special_ids = search_spec.special_ids
    if rules.phrases is not None:
        raise ValueError(
            f"{checked_step.owner} cannot search for `phrases`: use `beam_search`. Received: "
            f"phrases.shape={tuple(rules.phrases.ids.shape)}"
        )

    def advance(loop_state, logits, leaves, alignment, *fusion_terms):
        """Runs one step: from the decoder's outputs to the next ids."""
        logits = rules.process_logits(logits, loop_state.ids_so_far, loop_state.time)
        restricted = rules.restrict_all(logits, loop_state.ids_so_far, loop_state.time)
        ids, log_probs, exists = choose(logits, restricted, loop_state.time, *fusion_terms)
        is_growing = loop_state.active & exists
        log_probs = tuple(ops.where(is_growing, taken, 0.0) for taken in log_probs)
        lengths = loop_state.lengths + ops.cast(is_growing, "int32")
        alignments = loop_state.alignments
        if return_alignments:
            shown_alignment = ops.where(is_growing[:, None], alignment, 0.0)
            alignments = write_at(alignments, loop_state.time, shown_alignment)
        return _SingleSearchState(
            loop_state.time + 1,
            is_growing & is_not_end(ids, special_ids.end_ids) & (lengths < search_spec.limits),
            ids,
            tuple(
                ops.maximum(total + taken, IMPOSSIBLE)
                for total, taken in zip(loop_state.sums, log_probs, strict=True)
            ),
            lengths,
            write_at(
                loop_state.output_ids,
                loop_state.time,
                ops.where(is_growing, ids, special_ids.pad_id),
            ),
            write_at(loop_state.token_log_probs, loop_state.time, log_probs[0]),
            alignments,
            rules.append_step(loop_state.ids_so_far, loop_state.time, ids),
            leaves,
        )

    def body(*loop_state):
        loop_state = _SingleSearchState(*loop_state)
        return tuple(advance(loop_state, *checked_step(loop_state.ids, loop_state.leaves)))

    ids = ops.full((checked_step.batch,), special_ids.start_id, dtype="int32")
    logits, leaves, alignment, *fusion_terms = checked_step(ids, checked_step.leaves)
    rules.check_vocabulary(logits)
    empty = (search_spec.max_length, checked_step.batch, get_shape(alignment)[1])
    nothing = ops.zeros((checked_step.batch,), dtype="float32")
    loop_state = _SingleSearchState(
        time=ops.zeros((), dtype="int32"),
        active=ops.ones_like(ids, dtype="bool"),
        ids=ids,
        sums=tuple(nothing for _ in sums),
        lengths=ops.zeros_like(ids),
        output_ids=ops.full(empty[:2], special_ids.pad_id, dtype="int32"),
        token_log_probs=ops.zeros(empty[:2], dtype="float32"),
        alignments=ops.zeros(empty, dtype="float32") if return_alignments else (),
        ids_so_far=rules.start(checked_step.batch),
        leaves=(),
    )
    loop_state = advance(loop_state, logits, leaves, alignment, *fusion_terms)
    loop_state = run_search_loop(
        checked_step.owner,
        lambda *s: ops.any(_SingleSearchState(*s).active),
        body,
        tuple(loop_state),
    )
    loop_state = _SingleSearchState(*loop_state)
    if rules.prefix is not None:
        rules.prefix.check_forced(loop_state.lengths, search_spec.limits)
    result = {"ids": ops.transpose(loop_state.output_ids), "lengths": loop_state.lengths}
    result |= dict(zip(sums, loop_state.sums, strict=True))
    result["token_log_probs"] = ops.transpose(loop_state.token_log_probs)
    if return_alignments:
        result["alignments"] = ops.transpose(loop_state.alignments, (1, 0, 2))
    return result


class _SingleSearchState(NamedTuple):
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
