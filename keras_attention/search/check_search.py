"""Checks the invariants of a beam search over your own step function.

Each invariant is checked by computing the same result in another way: teacher-forced, without early
stopping, for a single batch element, greedily, exhaustively, compiled.
"""

from collections.abc import Callable

from keras_attention._utils import validation
from keras_attention._utils.tensor_types import (
    CoveragePenaltyFunction,
    LengthPenalty,
    ReorderCache,
    Step,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.search._eager import allow_eager_searches
from keras_attention.search._invariants import BeamSearchInvariants, SearchInputs


def check_beam_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    beam_width: int = 3,
    max_length: int = 6,
    length_penalty: LengthPenalty | None = None,
    coverage_penalty: CoveragePenaltyFunction | None = None,
    memory_mask: TensorLike | None = None,
    reorder_cache: ReorderCache | None = None,
    take_rows: Callable[[Structure, Tensor], Structure] | None = None,
    jit_compile: bool = False,
    tolerance: float = 1e-4,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> float:
    """Raises unless the invariants of a beam search over `step` hold.

    Use it to test your own decoder, together with `check_decoder`. The invariants:

    * every log-probability (of a token and in total), score and alignment is that of feeding the
      returned ids to `step`;
    * hypotheses are sorted, distinct, and well formed, with padding only at the end;
    * stopping early changes nothing;
    * a batch element has the same result alone as in any batch;
    * a beam of 1 is greedy search;
    * if there are few sequences, a wide beam finds them all, in order;
    * a compiled search returns the result of an eager one (on the TensorFlow backend).

    If an invariant fails, the cause is usually `step`: it mixes up batch elements or beams, keeps
    data between calls, or takes its position from somewhere other than its state.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`.
        state: Nest of tensors of shape `(batch, ...)`; use a batch of two or more.
        memory: Passed to `step`.
        beam_width: Positive int.
        max_length: Positive int. A few steps suffice.
        length_penalty: As in `beam_search`.
        coverage_penalty: As in `beam_search`.
        memory_mask: Boolean tensor of shape `(batch, source)`, or None. With it, alignments
            must be 0 where it is False.
        reorder_cache: As in `beam_search`: a decoder's method to reorder its state, or None.
        take_rows: Callable `(memory, rows) -> memory` that selects batch elements, `rows` a list
            of ints. By default every tensor in `memory` whose first axis is the batch is
            indexed, and everything else is left unchanged.
        jit_compile: Bool, whether to test a search compiled by XLA too, which takes some seconds.
        tolerance: Number, the maximum difference of a log-probability, relative if it is large.
            Ids may differ only if scores differ by less.
        start_id: Int, as in `beam_search`.
        end_id: Int, as in `beam_search`.
        pad_id: Int, as in `beam_search`.

    Returns:
        The largest difference between a log-probability and teacher forcing, a float.

    Raises:
        AssertionError: If an invariant fails; the message names it, with batch element and place.
        ValueError: If an argument is invalid, or `step` violates its protocol.

    Example:

    >>> import keras
    >>> from keras_attention.search import check_beam_search
    >>> table = keras.random.normal((7, 7), seed=1)
    >>> def step(ids, state, memory):
    ...     logits = keras.ops.take(table, (ids + state["sum"]) % 7, axis=0)
    ...     return logits, {"sum": state["sum"] + ids}, logits[:, :1] * 0.0
    >>> state = {"sum": keras.ops.array([0, 3])}
    >>> check_beam_search(step, state, None, max_length=4) < 1e-5
    True
    """
    validation.check_positive_int("check_beam_search", "beam_width", beam_width)
    validation.check_number_in_range("check_beam_search", "tolerance", tolerance, 0)
    special_ids = {"start_id": start_id, "end_id": end_id, "pad_id": pad_id}
    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    invariants = BeamSearchInvariants(step, reorder_cache, tolerance, special_ids)
    inputs = SearchInputs(state, memory, memory_mask, take_rows)
    options = {"beam_width": beam_width, "max_length": max_length, **penalties}

    with allow_eager_searches():
        found = invariants.search(inputs, **options)
        worst = invariants.check_teacher_forcing(inputs, found, penalties)
        invariants.check_well_formed(found, max_length)
        invariants.check_early_stopping(inputs, found, options, penalties)
        invariants.check_batch_independence(inputs, found, options, penalties)
        invariants.check_greedy(inputs, max_length)
        invariants.check_exhaustive(inputs, max_length, penalties)
        invariants.check_compiled(inputs, found, options, penalties, jit_compile)
    return worst
