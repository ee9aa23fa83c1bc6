"""The maximum and minimum lengths of a search, one of each for every batch element."""

import numbers

from keras import ops

from keras_attention.search._argument_tensors import check_rows, get_static_value, to_int32_tensor


def resolve_max_lengths(owner, max_length, max_lengths, batch):
    """Returns the length limit of each element, int32 `(batch,)`, within `1..max_length`."""
    if max_lengths is None:
        return ops.full((batch,), max_length, dtype="int32")
    hint = "int32 with one limit per batch element"
    limits = to_int32_tensor(owner, "max_lengths", max_lengths, 1, hint)
    check_rows(owner, "max_lengths", limits, batch)
    values = get_static_value(limits)
    if values is not None and values.size and (values.min() < 1 or values.max() > max_length):
        raise ValueError(
            f"{owner} expects `max_lengths` between 1 and max_length={max_length}. "
            f"Received: max_lengths={values.tolist()}"
        )
    return ops.clip(limits, 1, max_length)


def resolve_min_lengths(owner, min_length, max_length, batch):
    """Returns the minimum lengths, int32 `(batch,)`, or None if there are none."""
    if isinstance(min_length, numbers.Integral) and not isinstance(min_length, bool):
        if min_length > max_length:
            raise ValueError(
                f"{owner} expects `min_length` to be at most `max_length`. "
                f"Received: min_length={min_length}, max_length={max_length}"
            )
        return ops.full((batch,), min_length, dtype="int32") if min_length > 1 else None
    if len(getattr(min_length, "shape", (1,))) == 0:  # one for the whole batch, as a tensor
        min_length = ops.broadcast_to(min_length, (batch,))
    lengths = to_int32_tensor(owner, "min_length", min_length, 1, "an int, or one int per element")
    check_rows(owner, "min_length", lengths, batch)
    values = get_static_value(lengths)
    if values is not None and values.size and values.max() > max_length:
        raise ValueError(
            f"{owner} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={values.tolist()}, max_length={max_length}"
        )
    return lengths
