"""Checks of the arguments that describe a stack of convolutions."""

from keras_attention import validation


def check_convolutions(owner, convolutions):
    """Returns `convolutions` as a list of `(units, kernel_size)`, or raises."""
    pairs = isinstance(convolutions, (list, tuple)) and [
        tuple(one) for one in convolutions if isinstance(one, (list, tuple))
    ]
    if not pairs or len(pairs) < len(convolutions) or any(len(one) != 2 for one in pairs):
        raise ValueError(
            f"{owner} expects `convolutions` to be a list of (units, kernel_size), one pair per "
            f"layer. Received: convolutions={convolutions!r}"
        )
    for units, kernel_size in pairs:
        validation.check_positive_int(owner, "units", units)
        validation.check_positive_int(owner, "kernel_size", kernel_size)
    return pairs


def check_attention_layers(owner, attention_layers, alignment_layer, num_layers):
    """Returns the indices of the layers that attend, sorted, or raises."""
    every = range(num_layers)
    attending = every if attention_layers is None else attention_layers
    if not len(attending) or any(index not in every for index in attending):
        raise ValueError(
            f"{owner} expects `attention_layers` to be a list of at least one layer between 0 and "
            f"{num_layers - 1}, or None for all. Received: attention_layers={attention_layers!r}"
        )
    if alignment_layer not in ("mean", "last", *attending):
        raise ValueError(
            f"{owner} expects `alignment_layer` to be 'mean', 'last' or a layer that attends, one "
            f"of {sorted(attending)}. Received: alignment_layer={alignment_layer!r}"
        )
    return tuple(sorted(set(attending)))
