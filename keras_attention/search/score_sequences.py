"""Log-probabilities of given sequences.

    log p(y | source) = sum_t log p(y_t | y_1 .. y_{t-1}, source)

It runs the same steps as a search, teacher-forced, so that the log-probabilities of all search
results can be checked against it.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Step, Structure, Tensor, TensorLike
from keras_attention.search._argument_tensors import check_rows, get_static_value, to_int32_tensor
from keras_attention.search._checked_step import CheckedStep, check_capacity
from keras_attention.search._end_ids import is_end
from keras_attention.search._indexing import gather_per_row, write_at
from keras_attention.search._log_probs import IMPOSSIBLE, compute_log_probs, softmax_denominator
from keras_attention.search._search_loop import run_search_loop
from keras_attention.search._token_rules import check_special_ids_in_vocabulary
from keras_attention.search.constraints import SpecialIds, check_special_ids


def score_sequences(
    step: Step,
    state: Structure,
    memory: Structure,
    target_ids: TensorLike,
    *,
    return_alignments: bool = True,
    special_ids: SpecialIds = SpecialIds(),
) -> dict[str, Tensor]:
    """Returns the log-probability of each sequence of a batch under a step function.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    A sequence ends with its first EOS token, which is scored, or before its first padding.
    Positions after that are neither scored nor fed to the step. If a decoder's full call is
    parallel, that call with the shifted ids is faster and gives the same result.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Passed to `step` unchanged.
        target_ids: Int tensor of shape `(batch, target)`, `[y_1 .. EOS]` without BOS,
            padded; at least one column.
        return_alignments: Bool. Without alignments scoring needs less memory.
        special_ids: The `SpecialIds` of the vocabulary.

    Returns:
        Dict of tensors: `log_probs` float32 `(batch,)`; `token_log_probs` float32
        `(batch, target)`, 0 after the end; `lengths` int32 `(batch,)`, including EOS;
        `alignments` float32 `(batch, target, source)`, 0 after the end.

    Raises:
        ValueError: If the ids have the wrong rank, dtype or batch size, or an id is outside
            the vocabulary. A compiled graph cannot raise; there such an id has the
            log-probability -1e9.

    Example:

    >>> import keras
    >>> from keras_attention.search import score_sequences
    >>> def step(ids, state, memory):  # every token is equally likely
    ...     return keras.ops.zeros((len(ids), 8)), state, keras.ops.zeros((len(ids), 1))
    >>> result = score_sequences(step, {}, keras.ops.zeros((1, 1)), keras.ops.array([[5, 3, 0]]))
    >>> [round(float(log_prob), 4) for log_prob in result["token_log_probs"][0]]
    [-2.0794, -2.0794, 0.0]
    """
    owner = "score_sequences"
    check_special_ids(owner, special_ids)
    target_ids = to_int32_tensor(owner, "target_ids", target_ids, 2, "int ids (batch, target)")
    checked_step = CheckedStep(owner, step, state, memory)
    check_rows(owner, "target_ids", target_ids, checked_step.batch)
    if target_ids.shape[1] == 0:
        raise ValueError(
            f"{owner} expects at least one column of `target_ids`; an empty sequence consists of "
            f"EOS. Received: target_ids.shape={tuple(target_ids.shape)}"
        )
    check_capacity(owner, step, state, target_ids.shape[1] or 0)
    inside = _find_scored(target_ids, special_ids)
    lengths = ops.sum(ops.cast(inside, "int32"), axis=1)
    targets = ops.transpose(ops.where(inside, target_ids, special_ids.pad_id))  # (target, batch)
    scored = ops.transpose(inside)

    def advance(loop_state, logits, leaves, alignment):
        """Runs one step: scores the tokens at `time`, which the next step is fed."""
        ids = ops.take(targets, loop_state.time, axis=0)
        here = ops.take(scored, loop_state.time, axis=0)
        log_probs = ops.where(here, gather_log_probs(logits, ids), 0.0)
        alignments = loop_state.alignments
        if return_alignments:
            alignment = ops.where(here[:, None], alignment, 0.0)
            alignments = write_at(alignments, loop_state.time, alignment)
        return _ScoringState(
            loop_state.time + 1,
            ops.clip(ids, 0, logits.shape[1] - 1),
            write_at(loop_state.log_probs, loop_state.time, log_probs),
            alignments,
            leaves,
        )

    def body(*loop_state):
        loop_state = _ScoringState(*loop_state)
        return tuple(advance(loop_state, *checked_step(loop_state.ids, loop_state.leaves)))

    ids = ops.full((checked_step.batch,), special_ids.start_id, dtype="int32")
    logits, leaves, alignment = checked_step(ids, checked_step.leaves)
    check_special_ids_in_vocabulary(owner, logits, special_ids)
    _check_targets(owner, targets, logits.shape[1])
    empty = (*get_shape(targets), get_shape(alignment)[1])
    loop_state = _ScoringState(
        time=ops.zeros((), dtype="int32"),
        ids=ids,
        log_probs=ops.zeros(get_shape(targets), dtype="float32"),
        alignments=ops.zeros(empty, dtype="float32") if return_alignments else (),
        leaves=(),
    )
    loop_state = advance(loop_state, logits, leaves, alignment)
    longest = ops.max(lengths, initial=0)
    loop_state = run_search_loop(owner, lambda time, *rest: time < longest, body, tuple(loop_state))
    loop_state = _ScoringState(*loop_state)
    result = {
        "log_probs": ops.maximum(ops.sum(loop_state.log_probs, axis=0), IMPOSSIBLE),
        "token_log_probs": ops.transpose(loop_state.log_probs),
        "lengths": lengths,
    }
    if return_alignments:
        result["alignments"] = ops.transpose(loop_state.alignments, (1, 0, 2))
    return result


def gather_log_probs(logits: TensorLike, ids: TensorLike) -> Tensor:
    """Returns the log-probability of one id per element, IMPOSSIBLE outside the vocabulary.

    Args:
        logits: Float32 tensor of shape `(rows, vocabulary)`.
        ids: Int32 tensor of shape `(rows,)`.
    """
    inside = ops.clip(ids, 0, logits.shape[1] - 1)
    chosen = gather_per_row(logits, inside[:, None])
    log_probs = compute_log_probs(chosen, softmax_denominator(logits))[:, 0]
    return ops.where(ids == inside, log_probs, IMPOSSIBLE)


class _ScoringState(NamedTuple):
    """The loop state: `log_probs` `(target, batch)`, `alignments` `(…, source)` or ()."""

    time: object
    ids: object
    log_probs: object
    alignments: object
    leaves: tuple


def _find_scored(ids, special_ids):
    """Returns True at the tokens up to the first EOS, False from the first padding on."""
    padding = ids == special_ids.pad_id
    stops = ops.cast(padding | is_end(ids, special_ids.end_ids), "int32")
    return (ops.cumsum(stops, axis=1) - stops == 0) & ops.logical_not(padding)


def _check_targets(owner, targets, vocabulary):
    values = get_static_value(targets)
    if values is None:
        return
    outside = np.argwhere((values < 0) | (values >= vocabulary))
    if len(outside):
        time, row = outside[0]
        raise ValueError(
            f"{owner} expects ids from 0 to {vocabulary - 1}, the vocabulary of the logits. "
            f"Received: target_ids[{row}, {time}]={values[time, row]}"
        )
