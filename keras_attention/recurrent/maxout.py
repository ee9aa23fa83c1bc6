"""Maxout over neighboring pairs, Goodfellow et al. 2013 (https://arxiv.org/abs/1302.4389), as in
the readouts of Cho et al. 2014 and Bahdanau et al. 2015.

    t_i = max(t~_{2i-1}, t~_{2i})
"""

from keras import ops

from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention._utils.tensor_types import Tensor, TensorLike


def maxout(tensor: TensorLike, pieces: int = 2) -> Tensor:
    """Returns the maximum of every group of `pieces` neighbors on the last axis.

    Groups consist of neighbors, not of halves: `[1, 4, 3, 2]` gives `[4, 3]`.

    Raises:
        ValueError: If the last axis is not a multiple of `pieces`.

    Example:

    >>> [float(value) for value in maxout(ops.array([1.0, 4.0, 3.0, 2.0, -1.0, -5.0]))]
    [4.0, 3.0, -1.0]
    """
    width = tensor.shape[-1]
    if width is None or width % pieces:
        raise ValueError(
            f"maxout expects a last axis that is a multiple of `pieces`={pieces}. "
            f"Received: shape={tuple(tensor.shape)}"
        )
    groups = ops.reshape(tensor, (*get_shape(tensor)[:-1], width // pieces, pieces))
    return reduce_rows(ops.max, groups, axis=-1)
