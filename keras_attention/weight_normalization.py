"""Weight normalization, Salimans and Kingma 2016 (https://arxiv.org/abs/1602.07868).

    w = g v / |v|          equation 2, for each output channel

The length g and the direction v of a kernel's columns are learned apart. g starts at |v|, so
that the first kernel is the one its initializer drew.
"""

from keras import ops

TINY = 1e-24  # inside the root: a direction of zeros keeps a finite gradient


def column_norms(direction):
    """Returns |v| of each output channel, the last axis of a kernel.

    Example:

    >>> [round(float(norm), 6) for norm in column_norms(ops.array([[3.0], [4.0]]))]
    [5.0]
    """
    axes = tuple(range(len(direction.shape) - 1))
    return ops.sqrt(ops.sum(ops.square(direction), axis=axes) + TINY)


def normalized_kernel(direction, gain):
    """Returns `g v / |v|` for a kernel of any rank whose last axis is the output channel.

    Example:

    >>> kernel = normalized_kernel(ops.array([[3.0], [4.0]]), ops.array([2.0]))
    >>> [round(float(weight), 6) for weight in kernel[:, 0]]
    [1.2, 1.6]
    """
    return direction * (gain / column_norms(direction))


def gain_initializer(direction):
    """Returns an initializer that starts g at |v| of the weight `direction`."""

    def draw(shape, dtype=None):
        return ops.cast(column_norms(ops.convert_to_tensor(direction)), dtype)

    return draw
