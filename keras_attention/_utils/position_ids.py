"""The positions of the vectors of a sequence."""

from keras import ops


def compute_position_ids(length, position=None):
    """Returns the position of each vector, int32 `(1 or batch, length)`.

    Args:
        length: Int or int tensor, the number of vectors.
        position: Int `(batch,)`, the position of the first vector of each sequence, or
            `(batch, length)`, that of each; None counts from 0.
    """
    if position is not None and len(position.shape) == 2:
        return ops.cast(position, "int32")
    positions = ops.arange(length, dtype="int32")[None, :]
    return positions if position is None else positions + ops.cast(position, "int32")[:, None]
