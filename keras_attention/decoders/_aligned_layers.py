"""The alignment of a decoder with several layers of attention."""

from keras import ops


def select_aligned_layers(alignment_layer, layers):
    """Returns the indices of the layers whose mean weights form the alignment.

    Args:
        alignment_layer: "mean" for all of `layers`, "last", or an index.
        layers: Indices of the layers that attend.

    Example:

    >>> [select_aligned_layers(which, (0, 2, 3)) for which in ("mean", "last", 2)]
    [[0, 2, 3], [3], [2]]
    """
    return {"mean": list(layers), "last": [layers[-1]]}.get(alignment_layer, [alignment_layer])


def average_weights(weights):
    """Returns the mean of a list of weights, in float32.

    Example:

    >>> layers = [ops.array([1.0, 0.0]), ops.array([0.0, 0.0])]
    >>> [float(weight) for weight in average_weights(layers)]
    [0.5, 0.0]
    """
    return sum(ops.cast(tensor, "float32") for tensor in weights) / len(weights)
