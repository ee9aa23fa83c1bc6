"""The tokens that a step may choose: one rule for each of the `Constraints`, and all together.

    permitted logit = logit, or -2e9 where a rule forbids the token

Probabilities stay those of the model: the softmax sums over all tokens, including forbidden ones,
and is not renormalized. Only the repetition penalty and the `logits_processor` change the logits
before the softmax. The searches themselves apply the special ids and the minimum length at no
cost. Any other constraint costs one pass over the logits.
"""

import copy
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention.search._end_ids import is_end
from keras_attention.search._indexing import gather_per_row, scatter_per_row
from keras_attention.search._length_limits import resolve_min_lengths
from keras_attention.search._log_probs import IMPOSSIBLE, POSSIBLE_THRESHOLD
from keras_attention.search._phrases import Phrases
from keras_attention.search._prefixes import Prefix

SUPPRESSED_LOGIT = 2 * IMPOSSIBLE  # below every real logit, and far from infinite


class RestrictedLogits(NamedTuple):
    """The permitted tokens of a step.

    `logits` `(rows, vocabulary)` have the forbidden tokens at SUPPRESSED_LOGIT, except those that
    the search still has to skip: the ids `suppressed_ids`, and the EOS token where `end_allowed`
    `(batch,)`, unless None, is False. `fusion_terms`, unless None, are what a language model adds
    to the log-probabilities, `(rows, vocabulary)`.
    """

    logits: object
    suppressed_ids: tuple
    end_allowed: object
    fusion_terms: object = None


class TokenRules:
    """The `Constraints` of one search, checked against its batch and its `max_length`.

    Args:
        owner: Name of the function the user called, for error messages.
        batch: The batch size, an int or a scalar tensor.
        max_length: Int.
        constraints: The `Constraints`.

    Attributes:
        is_unconstrained: True if no rule beyond the special ids and the minimum length forbids a
            token.
        needs_ids: True if the ids of each hypothesis have to be stored.
    """

    def __init__(self, owner, batch, max_length, constraints):
        self.owner, self.max_length = owner, max_length
        self.special_ids = constraints.special_ids
        self.end_ids, self.pad_id = self.special_ids.end_ids, self.special_ids.pad_id
        self.always_suppressed = tuple(
            sorted({self.pad_id, self.special_ids.start_id} - {*self.end_ids})
        )
        self.min_lengths = resolve_min_lengths(owner, constraints.min_length, max_length, batch)
        self.suppressed_ids = constraints.suppress_ids
        size = constraints.no_repeat_ngram_size
        self.ngram_size = size if size is not None and size < max_length else None
        self.prefix = Prefix.from_constraints(owner, batch, max_length, constraints)
        self.phrases = Phrases.from_constraints(owner, batch, constraints)
        self.repetition_penalty = constraints.repetition_penalty
        self.logits_processor = constraints.logits_processor
        self.needs_ids = constraints.needs_ids(max_length)
        self.is_unconstrained = not (self.suppressed_ids or self.ngram_size or self.prefix)

    def fit_vocabulary(self, logits):
        """Returns the rules without ids that the logits lack.

        Raises:
            ValueError: If such an id is known, outside of a compiled graph.
        """
        check_special_ids_in_vocabulary(self.owner, logits, self.special_ids)
        vocabulary = logits.shape[1]
        if self.suppressed_ids and self.suppressed_ids[-1] >= vocabulary:
            raise ValueError(
                f"{self.owner} expects `suppress_ids` below {vocabulary}, the vocabulary of the "
                f"logits. Received: suppress_ids with {self.suppressed_ids[-1]}"
            )
        fitted = copy.copy(self)
        if self.prefix is not None:
            fitted.prefix = self.prefix.truncate_to_vocabulary(vocabulary)
        if self.phrases is not None:
            fitted.phrases = self.phrases.mask_unknown_ids(vocabulary)
        return fitted

    def start(self, batch):
        """Returns the initial record of ids, `(batch, max_length)`, or () if none is needed."""
        if not self.needs_ids:
            return ()
        return ops.full((batch, self.max_length), -1, dtype="int32")

    def append_step(self, ids_so_far, time, ids, divisor=1):
        """Returns `ids_so_far` with the ids of step `time`, given as ids or multiples of them."""
        if not self.needs_ids:
            return ()
        here = ops.expand_dims(ops.arange(self.max_length, dtype="int32") == time, 0)
        ids = ops.cast(ids if divisor == 1 else ids // divisor, "int32")
        return ops.where(here, ops.reshape(ids, (get_shape(ids_so_far)[0], 1)), ids_so_far)

    def process_logits(self, logits, ids_so_far, time):
        """Returns the logits after the repetition penalty and the `logits_processor`."""
        if self.repetition_penalty != 1.0:
            logits = penalize_repetition(logits, ids_so_far, self.repetition_penalty, self.pad_id)
        if self.logits_processor is None:
            return logits
        processed = self.logits_processor(logits, ids_so_far, time)
        self._check_processed(logits, processed)
        return processed

    def _check_processed(self, logits, processed):
        shape = tuple(logits.shape)
        text = (
            f"{self.owner} expects `logits_processor` to return float32 logits of the shape that "
            f"it receives, {shape}."
        )
        if not ops.is_tensor(processed):
            raise ValueError(f"{text} Received: {processed!r}")
        found, dtype = tuple(processed.shape), keras.backend.standardize_dtype(processed.dtype)
        rows_differ = None not in (found[:1] + shape[:1]) and found[:1] != shape[:1]
        if len(found) != 2 or found[1] != shape[1] or rows_differ or dtype != "float32":
            raise ValueError(f"{text} Received: shape={found}, dtype={dtype}")

    def restrict(self, logits, ids_so_far, time, beams=1):
        """Returns the permitted tokens after `ids_so_far` at step `time`, as `RestrictedLogits`."""
        end_allowed = None if self.min_lengths is None else time + 1 >= self.min_lengths
        if self.is_unconstrained:
            return RestrictedLogits(logits, self.always_suppressed, end_allowed)
        restricted = suppress_tokens(logits, {*self.always_suppressed, *self.suppressed_ids})
        if end_allowed is not None:
            restricted = suppress_end(
                restricted, self.end_ids, broadcast_to_beams(end_allowed, beams)
            )
        if self.ngram_size is not None:
            following = find_repeated_ngrams(ids_so_far, time, self.ngram_size)
            restricted = suppress_row_tokens(restricted, following, self.pad_id)
        if self.prefix is not None:
            token, score_teacher_forced = (
                broadcast_to_beams(x, beams) for x in self.prefix.get_forced(time)
            )
            restricted = ops.where(score_teacher_forced, force_token(logits, token), restricted)
        return RestrictedLogits(restricted, (), None)

    def restrict_all(self, logits, ids_so_far, time):
        """Returns the permitted logits with nothing left to skip, one hypothesis per element."""
        restricted = self.restrict(logits, ids_so_far, time)
        result = restricted.logits
        if restricted.suppressed_ids:
            result = suppress_tokens(result, restricted.suppressed_ids)
        if restricted.end_allowed is not None:
            result = suppress_end(result, self.end_ids, ops.expand_dims(restricted.end_allowed, 1))
        return result


def suppress_tokens(logits, ids):
    """Returns logits with `ids` forbidden for every hypothesis."""
    suppressed_ids = np.zeros((1, logits.shape[1]), "bool")
    suppressed_ids[0, list(ids)] = True
    return ops.where(ops.convert_to_tensor(suppressed_ids), SUPPRESSED_LOGIT, logits)


def penalize_repetition(logits, ids, penalty, pad_id):
    """Returns logits with those of the `ids` `(rows, any)` penalized; -1 is none.

    An impossible token stays impossible, even if `penalty` is below 1. For -1 it writes the logit
    of padding, which no hypothesis contains, as it is.

    Example:

    >>> logits = ops.array([[0.0, 3.0, -1.0, 1.0]])
    >>> ops.convert_to_numpy(penalize_repetition(logits, ops.array([[1, 2, -1]]), 2.0, 0)).tolist()
    [[0.0, 1.5, -2.0, 1.0]]
    """
    places = ops.where(ids < 0, pad_id, ids)
    taken = gather_per_row(logits, places)
    penalized = ops.where(taken > 0.0, taken / penalty, taken * penalty)
    changed = ops.where((ids >= 0) & (taken > POSSIBLE_THRESHOLD), penalized, taken)
    return scatter_per_row(logits, places, ops.reshape(changed, (-1,)))


def suppress_end(logits, end_ids, allowed):
    """Returns logits with EOS forbidden where `allowed` `(rows, 1)` is False."""
    too_soon = is_end(_vocabulary(logits), end_ids) & ops.logical_not(allowed)
    return ops.where(too_soon, SUPPRESSED_LOGIT, logits)


def force_token(logits, ids):
    """Returns logits with all tokens but `ids` `(rows, 1)` forbidden."""
    return ops.where(_vocabulary(logits) == ids, logits, SUPPRESSED_LOGIT)


def find_repeated_ngrams(ids_so_far, time, ngram_size):
    """Returns the ids that would repeat an n-gram of a hypothesis, -1 for none.

    After each earlier occurrence of the last `n - 1` ids, the id that followed is forbidden.

    Args:
        ids_so_far: Int32 `(rows, target)`, the ids so far; ids from `time` on are ignored.
        time: Scalar int32 tensor, the number of ids so far.
        ngram_size: Static int `n`, at most `target`.

    Returns:
        Int32 of shape `(rows, target - n + 1)`.

    Example:

    >>> ids_so_far = ops.array([[5, 6, 7, 5, 6, 0, 0]])
    >>> ops.convert_to_numpy(find_repeated_ngrams(ids_so_far, ops.array(5), 3)).tolist()
    [[7, -1, -1, -1, -1]]
    """
    places = ids_so_far.shape[1] - ngram_size + 1
    following = np.arange(places, dtype="int32")[None, :] + ngram_size - 1
    same = ops.convert_to_tensor(following) < time
    for offset in range(ngram_size - 1):
        last = ops.take(ids_so_far, ops.maximum(time - (ngram_size - 1) + offset, 0), axis=1)
        same = same & (ids_so_far[:, offset : offset + places] == ops.expand_dims(last, 1))
    return ops.where(same, ids_so_far[:, ngram_size - 1 :], -1)


def suppress_row_tokens(logits, ids, pad_id):
    """Returns logits with the `ids` `(rows, any)` of each hypothesis forbidden; -1 is none.

    For -1 it forbids padding, which is forbidden anyway, so that shapes stay static.
    """
    ids = ops.where(ids < 0, pad_id, ids)
    size = get_shape(logits)[0] * ids.shape[1]
    return scatter_per_row(logits, ids, ops.full((size,), SUPPRESSED_LOGIT, "float32"))


def broadcast_to_beams(values, beams):
    """Returns `(batch,)` as `(batch * beams, 1)`, repeated for each hypothesis."""
    values = ops.expand_dims(values, 1)
    if beams == 1:
        return values
    return ops.expand_dims(ops.reshape(ops.repeat(values, beams, axis=1), (-1,)), 1)


def _vocabulary(logits):
    return ops.expand_dims(ops.arange(logits.shape[1], dtype="int32"), 0)


def check_special_ids_in_vocabulary(owner, logits, special_ids):
    """Raises unless `logits` are wide enough for the special ids."""
    start_id, pad_id = special_ids.start_id, special_ids.pad_id
    if max(start_id, pad_id, *special_ids.end_ids) >= logits.shape[1]:
        raise ValueError(
            f"{owner} expects logits wider than the largest special id. Received: "
            f"logits.shape={tuple(logits.shape)}, start_id={start_id}, "
            f"end_id={special_ids.end_id}, pad_id={pad_id}"
        )
