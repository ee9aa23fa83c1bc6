"""Which tokens end a sequence: any of `SpecialIds.end_ids`, in one comparison for each."""

import functools
import operator


def is_end(ids, end_ids):
    """Returns True where `ids`, a tensor or an array, are one of the `end_ids`."""
    return functools.reduce(operator.or_, (ids == end_id for end_id in end_ids))


def is_not_end(ids, end_ids):
    """Returns True where `ids`, a tensor or an array, are none of the `end_ids`."""
    return functools.reduce(operator.and_, (ids != end_id for end_id in end_ids))
