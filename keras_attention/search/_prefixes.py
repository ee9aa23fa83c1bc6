"""Forced prefixes: the ids that every hypothesis of a batch element has to start with.

y_1 .. y_P forced, y_{P+1} .. searched;  log p(y) includes all of them
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention._utils.shapes import get_shape
from keras_attention.search._argument_tensors import check_rows, get_static_value, to_int32_tensor
from keras_attention.search._end_ids import is_end, is_not_end


class Prefix(NamedTuple):
    """Forced ids.

    `ids` are int32 `(batch, prefix)`, of which the first `lengths` `(batch,)` are forced.
    """

    ids: object
    lengths: object
    owner: str
    static_lengths: object  # lengths as NumPy, or None inside a graph

    @classmethod
    def from_constraints(cls, owner, batch, max_length, constraints):
        """Returns the prefixes of a search, or None if there are none.

        A compiled graph cannot raise, so there a prefix is truncated before its first padding,
        EOS token or id outside of the vocabulary.

        Raises:
            ValueError: If the ids or lengths do not fit, or EOS or padding is forced.
        """
        prefix, lengths = constraints.prefix, constraints.prefix_lengths
        if prefix is None:
            return None
        special_ids = constraints.special_ids
        end_ids, pad_id = special_ids.end_ids, special_ids.pad_id
        ids = to_int32_tensor(owner, "prefix", prefix, 2, "int ids (batch, prefix)")
        check_rows(owner, "prefix", ids, batch)
        if ids.shape[1] == 0:
            return None
        if lengths is not None:
            lengths = to_int32_tensor(
                owner, "prefix_lengths", lengths, 1, "one int per batch element"
            )
            check_rows(owner, "prefix_lengths", lengths, batch)
        _check_values(owner, ids, lengths, special_ids)
        ids = ops.pad(ids, ((0, 0), (0, 1)), constant_values=pad_id)  # at least one column
        is_valid = (ids != pad_id) & is_not_end(ids, end_ids) & (ids >= 0)
        counted = _count_leading(
            is_valid if lengths is None else is_valid & _mask_first(ids, lengths)
        )
        static_lengths = get_static_value(counted)
        if static_lengths is not None and static_lengths.max(initial=0) > max_length:
            raise ValueError(
                f"{owner} expects prefixes of at most max_length={max_length} ids. "
                f"Received: prefix_lengths={static_lengths.tolist()}"
            )
        return cls(ids, counted, owner, static_lengths)

    def truncate_to_vocabulary(self, vocabulary):
        """Truncates the prefixes before invalid ids; raises instead if the ids are concrete."""
        values = None if self.static_lengths is None else get_static_value(self.ids)
        if values is not None:
            counted = np.arange(values.shape[1])[None, :] < self.static_lengths[:, None]
            wrong = np.argwhere(counted & (values >= vocabulary))
            if len(wrong):
                row, place = wrong[0]
                raise ValueError(
                    f"{self.owner} expects `prefix` with ids below {vocabulary}, the vocabulary "
                    f"of the logits. Received: prefix[{row}, {place}]={values[row, place]}"
                )
        is_valid = (self.ids < vocabulary) & _mask_first(self.ids, self.lengths)
        return self._replace(lengths=_count_leading(is_valid))

    def check_forced(self, counts, limits):
        """Raises if the step forbids a token of a prefix; a compiled graph cannot raise.

        Args:
            counts: Int32 `(batch,)`, how many tokens the search could take for each element.
            limits: Int32 `(batch,)`, the maximum number of tokens of each element.
        """
        counts = get_static_value(counts)
        if counts is None or self.static_lengths is None:
            return
        rows = np.flatnonzero(counts < np.minimum(self.static_lengths, get_static_value(limits)))
        if len(rows):
            place = counts[rows[0]]
            raise ValueError(
                f"{self.owner} expects prefixes that `step` permits, but found a token whose logit "
                f"is -1e9 or less beside larger ones, or NaN. Change or omit the prefixes of "
                f"the batch elements {rows[:10].tolist()}. Received: "
                f"prefix[{rows[0]}, "
                f"{place}]={get_static_value(self.ids)[rows[0], place]}"
            )

    def get_forced(self, time):
        """Returns the ids forced at step `time`, `(batch,)`, and whether they are forced."""
        place = ops.minimum(time, get_shape(self.ids)[1] - 1)
        return ops.take(self.ids, place, axis=1), time < self.lengths


def _count_leading(flags):
    """Returns the number of leading True values in each row, int32."""
    return ops.sum(ops.cumprod(ops.cast(flags, "int32"), axis=1), axis=1)


def _mask_first(ids, lengths):
    """Returns True at the first `lengths` places of each row."""
    places = ops.arange(get_shape(ids)[1], dtype="int32")
    return ops.expand_dims(places, 0) < ops.expand_dims(lengths, 1)


def _check_values(owner, ids, lengths, special_ids):
    values = get_static_value(ids)
    if values is None:
        return
    width, pad_id = values.shape[1], special_ids.pad_id
    stated = None if lengths is None else get_static_value(lengths)
    if stated is not None and stated.size and (stated.min() < 0 or stated.max() > width):
        raise ValueError(
            f"{owner} expects `prefix_lengths` between 0 and {width}, the width of `prefix`. "
            f"Received: prefix_lengths={stated.tolist()}"
        )
    if stated is None:  # all ids up to the last that is not padding
        stated = np.max(np.where(values == pad_id, 0, np.arange(width) + 1), axis=1, initial=0)
    counted = np.arange(width)[None, :] < stated[:, None]
    ends = is_end(values, special_ids.end_ids)
    wrong = np.argwhere(counted & (ends | (values == pad_id) | (values < 0)))
    if len(wrong):
        row, place = wrong[0]
        raise ValueError(
            f"{owner} expects a prefix without EOS, padding or negative ids, which nothing can "
            f"follow. Omit the EOS token, and pad only after the ids. Received: "
            f"prefix[{row}, {place}]={values[row, place]}, end_id={special_ids.end_id}, "
            f"pad_id={pad_id}"
        )
