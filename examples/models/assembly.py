"""Any encoder before any decoder."""

import keras

from keras_attention.export import connect_encoder_decoder


def translator(encoder: keras.Model, decoder: keras.layers.Layer, name: str) -> keras.Model:
    """Returns a functional model from `source` and `target` ids to logits.

    Search and export find the two parts again with `get_layer("encoder")` and
    `get_layer("decoder")`.

    Args:
        encoder: A functional model named "encoder", from source ids to a dict of `memory`
            and, if the decoder begins from it, `initial_state`; see
            `examples.models.encoders`.
        decoder: A layer named "decoder" with `prepare`, `start`, `step` and a full call.
        name: Name of the model.
    """
    return connect_encoder_decoder("translator", encoder, decoder, name)
