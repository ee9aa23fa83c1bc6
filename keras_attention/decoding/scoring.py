"""What a decoder says about a given sequence.

    log p(y | source) = sum_t log p(y_t | y_1 .. y_{t-1}, source)

The same steps that a search takes, with the tokens given: the log-probability of everything
a search returns can be checked against it.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention.decoding import steps
from keras_attention.decoding.eager import run_loop
from keras_attention.decoding.steps import IMPOSSIBLE


def score_sequences(
    step,
    state,
    memory,
    target_ids,
    *,
    return_alignments: bool = True,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> dict:
    """Returns the log-probability of each row's sequence under a step function.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    A sequence ends with its first end mark, which is scored, or before its first padding;
    what stands after that is neither scored nor fed to the step. For a decoder whose full call
    is parallel, that call with the shifted ids is faster and gives the same.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Handed to `step` as it is.
        target_ids: Int tensor of shape `(batch, target)`, `[y_1 .. end]` without the start,
            padded with `pad_id`; at least one column.
        return_alignments: Bool. Without alignments scoring needs less memory.
        start_id: Int, fed at the first step.
        end_id: Int, ends a sequence.
        pad_id: Int, padding.

    Returns:
        Dict of tensors: `log_probs` float32 `(batch,)`; `token_log_probs` float32
        `(batch, target)`, 0 after the end; `lengths` int32 `(batch,)`, the end mark counted;
        `alignments` float32 `(batch, target, source)`, 0 after the end.

    Raises:
        ValueError: If the ids have the wrong rank, dtype or number of rows, or an id is outside
            the vocabulary. Inside a compiled graph such an id cannot raise: its log-probability
            is -1e9.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import score_sequences
    >>> def step(ids, state, memory):  # every token is equally likely
    ...     return keras.ops.zeros((len(ids), 8)), state, keras.ops.zeros((len(ids), 1))
    >>> result = score_sequences(step, {}, keras.ops.zeros((1, 1)), keras.ops.array([[5, 3, 0]]))
    >>> [round(float(log_prob), 4) for log_prob in result["token_log_probs"][0]]
    [-2.0794, -2.0794, 0.0]
    """
    owner = "score_sequences"
    steps.check_special_ids(owner, start_id, end_id, pad_id)
    target_ids = steps.int_tensor(owner, "target_ids", target_ids, 2, "int ids (batch, target)")
    run = steps.CheckedStep(owner, step, state, memory)
    steps.check_rows(owner, "target_ids", target_ids, run.batch)
    if target_ids.shape[1] == 0:
        raise ValueError(
            f"{owner} expects at least one column of `target_ids`; an empty sequence is its end "
            f"id. Received: target_ids.shape={tuple(target_ids.shape)}"
        )
    inside = _inside(target_ids, end_id, pad_id)
    lengths = ops.sum(ops.cast(inside, "int32"), axis=1)
    targets = ops.transpose(ops.where(inside, target_ids, pad_id))  # (target, batch)
    scored = ops.transpose(inside)

    def advance(search, logits, leaves, alignment):
        """One step: scores the tokens at `time`, which the next step is fed."""
        ids = ops.take(targets, search.time, axis=0)
        here = ops.take(scored, search.time, axis=0)
        log_probs = ops.where(here, log_probs_at(logits, ids), 0.0)
        alignments = search.alignments
        if return_alignments:
            alignment = ops.where(here[:, None], alignment, 0.0)
            alignments = steps.write(alignments, search.time, alignment)
        return _Scoring(
            search.time + 1,
            ops.clip(ids, 0, logits.shape[1] - 1),
            steps.write(search.log_probs, search.time, log_probs),
            alignments,
            leaves,
        )

    def body(*search):
        search = _Scoring(*search)
        return tuple(advance(search, *run(search.ids, search.leaves)))

    ids = ops.full((run.batch,), start_id, dtype="int32")
    logits, leaves, alignment = run(ids, run.leaves)
    steps.check_vocabulary(owner, logits, start_id, end_id, pad_id)
    _check_targets(owner, targets, logits.shape[1])
    empty = (*ops.shape(targets), ops.shape(alignment)[1])
    search = _Scoring(
        time=ops.zeros((), dtype="int32"),
        ids=ids,
        log_probs=ops.zeros(ops.shape(targets), dtype="float32"),
        alignments=ops.zeros(empty, dtype="float32") if return_alignments else (),
        leaves=(),
    )
    search = advance(search, logits, leaves, alignment)
    longest = ops.max(lengths, initial=0)
    search = run_loop(owner, lambda time, *rest: time < longest, body, tuple(search))
    search = _Scoring(*search)
    result = {
        "log_probs": ops.maximum(ops.sum(search.log_probs, axis=0), IMPOSSIBLE),
        "token_log_probs": ops.transpose(search.log_probs),
        "lengths": lengths,
    }
    if return_alignments:
        result["alignments"] = ops.transpose(search.alignments, (1, 0, 2))
    return result


def log_probs_at(logits, ids):
    """Returns the log-probability of one id a row, IMPOSSIBLE outside the vocabulary.

    Args:
        logits: Float32 tensor of shape `(rows, vocabulary)`.
        ids: Int32 tensor of shape `(rows,)`.
    """
    inside = ops.clip(ids, 0, logits.shape[1] - 1)
    chosen = steps.pick(logits, inside[:, None])
    log_probs = steps.log_probs_of(chosen, steps.normalizers(logits))[:, 0]
    return ops.where(ids == inside, log_probs, IMPOSSIBLE)


class _Scoring(NamedTuple):
    """What the loop carries: `log_probs` `(target, batch)`, `alignments` `(…, source)` or ()."""

    time: object
    ids: object
    log_probs: object
    alignments: object
    leaves: tuple


def _inside(ids, end_id, pad_id):
    """Returns True at the tokens up to the first end mark, False from the first padding on."""
    padding = ids == pad_id
    stops = ops.cast(padding | (ids == end_id), "int32")
    return (ops.cumsum(stops, axis=1) - stops == 0) & ops.logical_not(padding)


def _check_targets(owner, targets, vocabulary):
    values = steps.concrete(targets)
    if values is None:
        return
    outside = np.argwhere((values < 0) | (values >= vocabulary))
    if len(outside):
        time, row = outside[0]
        raise ValueError(
            f"{owner} expects ids from 0 to {vocabulary - 1}, the vocabulary of the logits. "
            f"Received: target_ids[{row}, {time}]={values[time, row]}"
        )
