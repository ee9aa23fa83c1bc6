"""Checks the invariants of a beam search over your own step function.

Each invariant is checked by computing the same result in another way: teacher-forced, without early
stopping, for a single batch element, greedily, exhaustively, compiled.
"""

import warnings
from collections.abc import Callable
from typing import TypedDict, Unpack

from keras_attention import validation
from keras_attention._utils.tensor_types import Step, Structure, Tensor
from keras_attention.search._beam_search_invariants import BeamSearchInvariants, SearchInputs
from keras_attention.search._search_loop import EagerSearchWarning
from keras_attention.search.beam_options import BeamOptions
from keras_attention.search.constraints import SpecialIds, check_special_ids
from keras_attention.search.penalties import LengthPenalty


class BeamSearchArguments(TypedDict, total=False):
    """The arguments of `beam_search` that `check_beam_search` takes."""

    max_length: int
    beam_width: int
    length_penalty: LengthPenalty | float | None
    options: BeamOptions


def check_beam_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    special_ids: SpecialIds = SpecialIds(),
    take_rows: Callable[[Structure, Tensor], Structure] | None = None,
    jit_compile: bool = False,
    tolerance: float = 1e-4,
    **arguments: Unpack[BeamSearchArguments],
) -> float:
    """Raises unless the invariants of a beam search over `step` hold.

    Use it to test your own decoder, together with `check_decoder`. The invariants:

    * every log-probability (of a token and in total), score and alignment is that of feeding the
      returned ids to `step`;
    * hypotheses are sorted, distinct, and well formed, with padding only at the end;
    * stopping early changes nothing, if `options.stopping` is `"exact"`;
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
        special_ids: The `SpecialIds` of the vocabulary.
        take_rows: Callable `(memory, rows) -> memory` that selects batch elements, `rows` a list
            of ints. By default every tensor in `memory` whose first axis is the batch is
            indexed, and everything else is left unchanged.
        jit_compile: Bool, whether to test a search compiled by XLA too, which takes some seconds.
        tolerance: Number, the maximum difference of a log-probability, relative if it is large.
            Ids may differ only if scores differ by less.
        **arguments: `max_length`, `beam_width`, `length_penalty` and `options`, as `beam_search`
            takes them. By default `max_length` is 6 and `beam_width` is 3. With
            `options.memory_mask`, alignments must be 0 where it is False.

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
    owner = "check_beam_search"
    validation.check_number_in_range(owner, "tolerance", tolerance, 0)
    check_special_ids(owner, special_ids)
    memory_mask = getattr(arguments.get("options"), "memory_mask", None)
    inputs = SearchInputs(state, memory, memory_mask, take_rows)
    invariants = BeamSearchInvariants(step, special_ids, tolerance, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerSearchWarning)  # the point is to check, not speed
        found = invariants.search(inputs)
        worst = invariants.check_teacher_forcing(inputs, found)
        invariants.check_well_formed(found)
        invariants.check_early_stopping(inputs, found)
        invariants.check_batch_independence(inputs, found)
        invariants.check_greedy(inputs)
        invariants.check_exhaustive(inputs)
        invariants.check_compiled(inputs, found, jit_compile)
    return worst
