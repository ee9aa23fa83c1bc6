"""Any encoder before any decoder."""

import keras


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
    for part, wanted in ((encoder, "encoder"), (decoder, "decoder")):
        if part.name != wanted:
            raise ValueError(
                f"translator expects an {wanted} with `name={wanted!r}`: search and export find "
                f"it by that. Received: name={part.name!r}"
            )
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    encoded = encoder(source)
    begin = {key: encoded[key] for key in ("initial_state",) if key in encoded}
    logits = decoder(target, encoded["memory"], **begin)
    return keras.Model({"source": source, "target": target}, logits, name=name)
