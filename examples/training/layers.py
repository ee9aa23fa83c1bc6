"""The layers of a model, those inside its parts too."""

from collections.abc import Iterator

import keras


def every_layer(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Yields the model, its layers and the layers of those that are models."""
    yield model
    for layer in getattr(model, "layers", ()):
        yield from every_layer(layer)


def batch_normalizations(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Returns the batch normalizations whose statistics move, each once; frozen ones do not.

    Example:

    >>> frozen = keras.layers.BatchNormalization(trainable=False)
    >>> model = keras.Sequential([keras.Input([3]), keras.layers.BatchNormalization(), frozen])
    >>> len(batch_normalizations(model))
    1
    """
    found = {id(layer): layer for layer in every_layer(model)}.values()
    return [
        layer
        for layer in found
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]
