"""What a hypothesis may go on with: a rule for each constraint, and all of them together.

    permitted logit = logit, or -2e9 where a rule forbids the token

Probabilities stay those of the model: the softmax sums over all tokens, forbidden ones too, and
nothing is renormalized. The special ids and the minimum length are left to the searches, which
skip them for nothing; any other constraint costs one pass over the logits.
"""

import numbers
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention import checks
from keras_attention.decoding import steps
from keras_attention.decoding.prefixes import Prefix
from keras_attention.decoding.steps import IMPOSSIBLE

FORBIDDEN = 2 * IMPOSSIBLE  # below every logit that exists, and far from infinite


class Permitted(NamedTuple):
    """What may follow in a step.

    `logits` `(rows, vocabulary)` have the forbidden tokens at FORBIDDEN, except those still to be
    skipped: the ids `banned`, and the end where `end_allowed` `(batch,)`, unless None, is False.
    """

    logits: object
    banned: tuple
    end_allowed: object


class Constraints:
    """The constraints of one search, checked.

    Args:
        owner: Name of the function the user called, for error messages.
        batch: Number of rows, an int or a scalar tensor.
        max_length: Int.
        special_ids: `(start_id, end_id, pad_id)`.
        min_length: As the searches take it.
        banned_ids: Ids never produced, ints.
        no_repeat_ngram: None, or the positive int `n`.
        prefix: None, or int ids `(batch, prefix)`.
        prefix_lengths: None, or ints `(batch,)`.

    Attributes:
        free: True if nothing beyond the special ids and the minimum length is asked for.
    """

    def __init__(
        self,
        owner,
        batch,
        max_length,
        special_ids,
        min_length=0,
        banned_ids=(),
        no_repeat_ngram=None,
        prefix=None,
        prefix_lengths=None,
    ):
        self.owner, self.max_length, self.special_ids = owner, max_length, special_ids
        start_id, self.end_id, self.pad_id = special_ids
        self.special = tuple(sorted({self.pad_id, start_id} - {self.end_id}))
        self.shortest = steps.minimum_lengths(owner, min_length, max_length, batch)
        self.banned = _checked_ids(owner, banned_ids)
        if no_repeat_ngram is not None:
            hint = "Leave it out to allow repetition."
            checks.positive_int(owner, "no_repeat_ngram", no_repeat_ngram, hint)
        within = no_repeat_ngram is not None and no_repeat_ngram < max_length
        self.ngram = no_repeat_ngram if within else None
        self.prefix = Prefix.checked(owner, batch, max_length, special_ids, prefix, prefix_lengths)
        self.free = not (self.banned or self.ngram or self.prefix)

    def check_vocabulary(self, logits):
        """Raises unless `logits` are wide enough for the ids that were named."""
        steps.check_vocabulary(self.owner, logits, *self.special_ids)
        vocabulary = logits.shape[1]
        if self.banned and self.banned[-1] >= vocabulary:
            raise ValueError(
                f"{self.owner} expects `banned_ids` below {vocabulary}, the vocabulary of the "
                f"logits. Received: banned_ids with {self.banned[-1]}"
            )
        if self.prefix is not None:
            self.prefix = self.prefix.within(vocabulary)

    def start(self, batch):
        """Returns what a hypothesis remembers, `(batch, max_length)` ids, or () for nothing."""
        if self.ngram is None:
            return ()
        return ops.full((batch, self.max_length), -1, dtype="int32")

    def record(self, seen, time, ids, divisor=1):
        """Returns `seen` with the ids of step `time`, given as ids or as multiples of them."""
        if self.ngram is None:
            return ()
        here = ops.expand_dims(ops.arange(self.max_length, dtype="int32") == time, 0)
        ids = ops.cast(ids if divisor == 1 else ids // divisor, "int32")
        return ops.where(here, ops.reshape(ids, (ops.shape(seen)[0], 1)), seen)

    def permit(self, logits, seen, time, beams=1):
        """Returns what may follow `seen` at step `time`, as `Permitted`."""
        end_allowed = None if self.shortest is None else time + 1 >= self.shortest
        if self.free:
            return Permitted(logits, self.special, end_allowed)
        permitted = without_ids(logits, {*self.special, *self.banned})
        if end_allowed is not None:
            permitted = without_end(permitted, self.end_id, by_beam(end_allowed, beams))
        if self.ngram is not None:
            following = repetitions(seen, time, self.ngram)
            permitted = without_following(permitted, following, self.pad_id)
        if self.prefix is not None:
            token, forced = (by_beam(x, beams) for x in self.prefix.at(time))
            permitted = ops.where(forced, only_id(logits, token), permitted)
        return Permitted(permitted, (), None)

    def permit_all(self, logits, seen, time):
        """Returns the permitted logits with nothing left to skip, for one row a batch row."""
        permitted = self.permit(logits, seen, time)
        result = permitted.logits
        vocabulary = _vocabulary(logits)
        for token in permitted.banned:
            result = ops.where(vocabulary == token, FORBIDDEN, result)
        if permitted.end_allowed is not None:
            result = without_end(result, self.end_id, ops.expand_dims(permitted.end_allowed, 1))
        return result


def without_ids(logits, ids):
    """Returns logits with fixed `ids` forbidden in every row."""
    banned = np.zeros((1, logits.shape[1]), "bool")
    banned[0, list(ids)] = True
    return ops.where(ops.convert_to_tensor(banned), FORBIDDEN, logits)


def without_end(logits, end_id, allowed):
    """Returns logits with the end forbidden where `allowed` `(rows, 1)` is False."""
    too_soon = (_vocabulary(logits) == end_id) & ops.logical_not(allowed)
    return ops.where(too_soon, FORBIDDEN, logits)


def only_id(logits, ids):
    """Returns logits with all tokens but `ids` `(rows, 1)` forbidden."""
    return ops.where(_vocabulary(logits) == ids, logits, FORBIDDEN)


def repetitions(seen, time, ngram):
    """Returns the ids that would repeat an n-gram of a hypothesis, -1 for none.

    Wherever the last `n - 1` ids occurred before, the id that followed them may not come again.

    Args:
        seen: Int32 `(rows, target)`, the ids so far; what stands from `time` on is not read.
        time: Scalar int32 tensor, how many there are.
        ngram: Static int `n`, at most `target`.

    Returns:
        Int32 of shape `(rows, target - n + 1)`.

    Example:

    >>> seen = ops.array([[5, 6, 7, 5, 6, 0, 0]])
    >>> ops.convert_to_numpy(repetitions(seen, ops.array(5), 3)).tolist()
    [[7, -1, -1, -1, -1]]
    """
    places = seen.shape[1] - ngram + 1
    following = np.arange(places, dtype="int32")[None, :] + ngram - 1
    same = ops.convert_to_tensor(following) < time
    for offset in range(ngram - 1):
        last = ops.take(seen, ops.maximum(time - (ngram - 1) + offset, 0), axis=1)
        same = same & (seen[:, offset : offset + places] == ops.expand_dims(last, 1))
    return ops.where(same, seen[:, ngram - 1 :], -1)


def without_following(logits, ids, pad_id):
    """Returns logits with the `ids` `(rows, any)` of each row forbidden; -1 is none.

    Where there is none the forbidden padding is written once more: shapes never change.
    """
    rows, count = ops.shape(logits)[0], ids.shape[1]
    ids = ops.where(ids < 0, pad_id, ids)
    row = ops.repeat(ops.arange(rows, dtype="int32"), count)
    places = ops.stack([row, ops.reshape(ids, (rows * count,))], axis=1)
    return ops.scatter_update(logits, places, ops.full((rows * count,), FORBIDDEN, "float32"))


def by_beam(values, beams):
    """Returns `(batch,)` as `(batch * beams, 1)`: each hypothesis gets what its row has."""
    values = ops.expand_dims(values, 1)
    if beams == 1:
        return values
    return ops.expand_dims(ops.reshape(ops.repeat(values, beams, axis=1), (-1,)), 1)


def _vocabulary(logits):
    return ops.expand_dims(ops.arange(logits.shape[1], dtype="int32"), 0)


def _checked_ids(owner, ids):
    ids = ids.tolist() if isinstance(ids, (np.ndarray, np.generic)) else ids
    plain = isinstance(ids, (list, tuple, set, frozenset, range))
    if not plain or any(
        isinstance(i, bool) or not isinstance(i, numbers.Integral) or i < 0 for i in ids
    ):
        raise ValueError(
            f"{owner} expects `banned_ids` to be ids, ints of at least 0, the same for every row. "
            f"Received: banned_ids={ids!r}"
        )
    return tuple(sorted({int(i) for i in ids}))
