"""Reference results without a search: teacher forcing and enumeration in NumPy.

The code is simple and slow. `check_beam_search` compares the compiled search with it.
"""

import itertools

import numpy as np
from keras import ops

from keras_attention.search._log_probs import IMPOSSIBLE


def score_teacher_forced(checked_step, ids, lengths, start_id):
    """Returns the scores of a step function for given ids, fed one after another.

    Args:
        checked_step: `CheckedStep`.
        ids: Int array `(batch, hypotheses, target)`. The first step has one hypothesis per batch
            element, the later ones all of them, as in a search.
        lengths: Int array `(batch, hypotheses)`; later positions are ignored.
        start_id: The id that the first step is fed.

    Returns:
        float64 arrays: summed log-probabilities `(batch, hypotheses)`, those of the tokens
        `(batch, hypotheses, target)` and alignments `(batch, hypotheses, target, source)`, both 0
        after the end.
    """
    batch, hypotheses, target = ids.shape
    logits, leaves, alignment = checked_step(
        ops.full((batch,), start_id, dtype="int32"), checked_step.leaves
    )
    leaves = [ops.repeat(leaf, hypotheses, axis=0) for leaf in leaves]
    logits, alignment = (np.repeat(_to_float64(x), hypotheses, axis=0) for x in (logits, alignment))
    token_log_probs, alignments = [], []
    for time in range(target):
        tokens = ids[:, :, time].reshape(-1).astype("int32")
        if time > 0:
            fed = ids[:, :, time - 1].reshape(-1).astype("int32")
            logits, leaves, alignment = checked_step(ops.convert_to_tensor(fed), leaves)
            logits, alignment = _to_float64(logits), _to_float64(alignment)
        inside = time < lengths
        chosen = log_softmax(logits)[np.arange(len(tokens)), tokens].reshape(batch, hypotheses)
        token_log_probs.append(np.where(inside, chosen, 0.0))
        alignment = alignment.reshape(batch, hypotheses, -1)
        alignments.append(np.where(inside[..., None], alignment, 0.0))
    token_log_probs = np.stack(token_log_probs, axis=2)
    total = np.maximum(token_log_probs.sum(axis=2), IMPOSSIBLE)
    return total, token_log_probs, np.stack(alignments, axis=2)


def apply_penalties(log_probs, alignments, lengths, length_penalty, coverage_penalty, memory_mask):
    """Returns the penalized scores `(batch, hypotheses)`, float64."""
    scores = log_probs
    if length_penalty is not None:
        tensor = ops.convert_to_tensor(log_probs.astype("float32"))
        counted = ops.convert_to_tensor(np.maximum(lengths, 1).astype("int32"))
        scores = _to_float64(length_penalty(tensor, counted))
    if coverage_penalty is not None:
        coverage = ops.convert_to_tensor(alignments.sum(axis=2).astype("float32"))
        scores = scores + _to_float64(coverage_penalty(coverage, memory_mask))
    return scores


def enumerate_sequences(tokens, end_ids, pad_id, max_length):
    """Returns all sequences that end within `max_length` or fill it: ids and lengths.

    Example:

    >>> enumerate_sequences((4, 5), end_ids=(3,), pad_id=0, max_length=2)[0].tolist()
    [[3, 0], [4, 3], [5, 3], [4, 4], [4, 5], [5, 4], [5, 5]]
    """
    found = [
        (*prefix, end_id)
        for length in range(max_length)
        for prefix in itertools.product(tokens, repeat=length)
        for end_id in end_ids
    ]
    found += itertools.product(tokens, repeat=max_length)
    ids = np.full((len(found), max_length), pad_id, "int32")
    for row, sequence in enumerate(found):
        ids[row, : len(sequence)] = sequence
    return ids, np.array([len(sequence) for sequence in found], "int32")


def choose_enumerable_length(tokens, ends, limit, max_length):
    """Returns the largest length with at most `limit` sequences, 0 if none.

    Args:
        tokens: Int, the number of tokens that may stand inside a sequence.
        ends: Int, the number of tokens that end one.
        limit, max_length: Ints.
    """
    length, ended, open_ = 0, 0, 1  # open: sequences that have not ended yet
    while length < max_length and ended + open_ * (tokens + ends) <= limit:
        length, ended, open_ = length + 1, ended + open_ * ends, open_ * tokens
    return length


def log_softmax(logits):
    """Returns float64 log-probabilities, at least IMPOSSIBLE."""
    logits = np.maximum(logits, 2 * IMPOSSIBLE)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.maximum(log_probs, IMPOSSIBLE)


def _to_float64(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32")).astype("float64")
