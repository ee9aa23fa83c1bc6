"""Beginnings that are given: the ids every hypothesis of a row has to start with.

y_1 .. y_P given, y_{P+1} .. searched;  log p(y) counts all of them
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention.decoding import steps


class Prefix(NamedTuple):
    """Forced ids.

    `ids` are int32 `(batch, prefix)`, of which a row's first `lengths` `(batch,)` are forced.
    """

    ids: object
    lengths: object
    owner: str
    known: object  # lengths as NumPy, or None inside a graph

    @classmethod
    def checked(cls, owner, batch, max_length, special_ids, prefix, lengths):
        """Returns the prefixes of a search, or None where there are none.

        What cannot be read inside a compiled graph is put right there: a prefix is cut before
        its first padding, end mark or id that does not exist.

        Raises:
            ValueError: If the ids or lengths do not fit, or an end mark or padding is forced.
        """
        if prefix is None:
            if lengths is not None:
                raise ValueError(
                    f"{owner} expects `prefix` beside `prefix_lengths`. Received: prefix=None"
                )
            return None
        _, end_id, pad_id = special_ids
        ids = steps.int_tensor(owner, "prefix", prefix, 2, "int ids (batch, prefix)")
        steps.check_rows(owner, "prefix", ids, batch)
        if ids.shape[1] == 0:
            return None
        if lengths is not None:
            lengths = steps.int_tensor(owner, "prefix_lengths", lengths, 1, "one int a row")
            steps.check_rows(owner, "prefix_lengths", lengths, batch)
        _check_values(owner, ids, lengths, end_id, pad_id)
        ids = ops.pad(ids, ((0, 0), (0, 1)), constant_values=pad_id)  # there is a place to read
        sound = (ids != pad_id) & (ids != end_id) & (ids >= 0)
        counted = _leading(sound if lengths is None else sound & _first(ids, lengths))
        known = steps.concrete(counted)
        if known is not None and known.max(initial=0) > max_length:
            raise ValueError(
                f"{owner} expects prefixes of at most max_length={max_length} ids. "
                f"Received: prefix_lengths={known.tolist()}"
            )
        return cls(ids, counted, owner, known)

    def within(self, vocabulary):
        """Returns the prefixes cut before ids that do not exist; where known, raises instead."""
        values = None if self.known is None else steps.concrete(self.ids)
        if values is not None:
            counted = np.arange(values.shape[1])[None, :] < self.known[:, None]
            wrong = np.argwhere(counted & (values >= vocabulary))
            if len(wrong):
                row, place = wrong[0]
                raise ValueError(
                    f"{self.owner} expects `prefix` with ids below {vocabulary}, the vocabulary "
                    f"of the logits. Received: prefix[{row}, {place}]={values[row, place]}"
                )
        sound = (self.ids < vocabulary) & _first(self.ids, self.lengths)
        return self._replace(lengths=_leading(sound))

    def check_found(self, counts, limits):
        """Raises if the step forbids a token of a prefix; a compiled graph cannot.

        Args:
            counts: Int32 `(batch,)`, how many tokens of its row a search could take.
            limits: Int32 `(batch,)`, the most tokens of each row.
        """
        counts = steps.concrete(counts)
        if counts is None or self.known is None:
            return
        rows = np.flatnonzero(counts < np.minimum(self.known, steps.concrete(limits)))
        if len(rows):
            place = counts[rows[0]]
            raise ValueError(
                f"{self.owner} expects prefixes that `step` permits, but finds a token whose logit "
                f"is -1e9 or less beside larger ones, or NaN. Change or leave out the prefixes of "
                f"the rows {rows[:10].tolist()}. Received: "
                f"prefix[{rows[0]}, {place}]={steps.concrete(self.ids)[rows[0], place]}"
            )

    def at(self, time):
        """Returns the ids forced at step `time`, `(batch,)`, and whether they are, boolean."""
        place = ops.minimum(time, ops.shape(self.ids)[1] - 1)
        return ops.take(self.ids, place, axis=1), time < self.lengths


def _leading(flags):
    """Returns how many places of each row are True before the first False, int32."""
    return ops.sum(ops.cumprod(ops.cast(flags, "int32"), axis=1), axis=1)


def _first(ids, lengths):
    """Returns True at the first `lengths` places of each row."""
    places = ops.arange(ops.shape(ids)[1], dtype="int32")
    return ops.expand_dims(places, 0) < ops.expand_dims(lengths, 1)


def _check_values(owner, ids, lengths, end_id, pad_id):
    values = steps.concrete(ids)
    if values is None:
        return
    width = values.shape[1]
    stated = None if lengths is None else steps.concrete(lengths)
    if stated is not None and stated.size and (stated.min() < 0 or stated.max() > width):
        raise ValueError(
            f"{owner} expects `prefix_lengths` between 0 and {width}, the width of `prefix`. "
            f"Received: prefix_lengths={stated.tolist()}"
        )
    if stated is None:  # all up to the last that is no padding
        stated = np.max(np.where(values == pad_id, 0, np.arange(width) + 1), axis=1, initial=0)
    counted = np.arange(width)[None, :] < stated[:, None]
    wrong = np.argwhere(counted & ((values == end_id) | (values == pad_id) | (values < 0)))
    if len(wrong):
        row, place = wrong[0]
        raise ValueError(
            f"{owner} expects a prefix without end mark, padding or negative ids: nothing could "
            f"follow it. Leave the end mark away, and pad behind the ids. Received: "
            f"prefix[{row}, {place}]={values[row, place]}, end_id={end_id}, pad_id={pad_id}"
        )
