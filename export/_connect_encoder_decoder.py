"""Joins the encoder and the decoder of a translator, and reads what an encoder returns.

encoder   named "encoder": source ids (batch, source) -> {"memory": (batch, source, dim),
          "initial_state": the start of the decoder, absent if it needs none}
decoder   named "decoder": prepare, start and step, see docs/architecture.md
"""

import keras

from keras_attention.decoders import CopyNetDecoder, PointerGeneratorDecoder

DECODER_METHODS = ("prepare", "start", "step")


def check_decoder_methods(owner: str, decoder) -> None:
    """Raises a `ValueError` if a decoder lacks one of the methods that a search calls."""
    missing = [name for name in DECODER_METHODS if not callable(getattr(decoder, name, None))]
    if missing:
        raise ValueError(
            f"{owner} expects the layer `decoder` to have the methods prepare, start and step. "
            f"Received: {type(decoder).__name__} without {', '.join(missing)}"
        )


def connect_encoder_decoder(
    owner: str,
    encoder: keras.layers.Layer,
    decoder: keras.layers.Layer,
    name: str = "translator",
) -> keras.Model:
    """Returns the functional model of an encoder and a decoder, from `source` and `target` ids.

    Args:
        owner: Name of the function or class that the user called.
        encoder: A layer or model named "encoder", see above.
        decoder: A layer named "decoder".
        name: Name of the model.

    Raises:
        ValueError: If a part has a different name, or the encoder has different outputs.
    """
    for part, wanted in ((encoder, "encoder"), (decoder, "decoder")):
        if getattr(part, "name", None) != wanted:
            raise ValueError(
                f"{owner} expects the {wanted} to have `name={wanted!r}`: search and export find "
                f"it by its name. Received: name={getattr(part, 'name', None)!r}"
            )
    check_decoder_methods(owner, decoder)
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    known, options = source, {}
    if isinstance(
        decoder, (PointerGeneratorDecoder, CopyNetDecoder)
    ):  # the encoder knows no copied words
        known, options = decoder.replace_copied_ids(source), {"copy_ids": source}
    encoded = standardize_encoder_outputs(owner, encoder(known))
    options |= {key: encoded[key] for key in ("initial_state",) if key in encoded}
    logits = decoder(target, encoded["memory"], **options)
    return keras.Model({"source": source, "target": target}, logits, name=name)


def standardize_encoder_outputs(owner: str, outputs) -> dict:
    """Returns an encoder's outputs as a dict with `memory` and perhaps `initial_state`.

    A single tensor is taken as the memory.

    Args:
        owner: Name of the function or class that the user called.
        outputs: The outputs of the encoder, values or symbolic tensors.

    Raises:
        ValueError: If they are a list, a tuple or a dict without `memory`: their meaning is
            ambiguous.
    """
    if hasattr(outputs, "shape"):
        return {"memory": outputs}
    if isinstance(outputs, dict) and hasattr(outputs.get("memory"), "shape"):
        return outputs
    raise ValueError(
        f"{owner} expects the layer `encoder` to return a dict with `memory`, a tensor (batch, "
        "source, dim), and, if the decoder starts from one, `initial_state`; or the memory alone. "
        'Name them: keras.Model(source, {"memory": memory, "initial_state": state}, '
        f'name="encoder"). Received: {_describe_outputs(outputs)}'
    )


def _describe_outputs(outputs):
    """Describes the outputs of an encoder, for an error message."""
    if isinstance(outputs, dict):
        return f"a dict with the keys {sorted(map(str, outputs))}"
    if isinstance(outputs, (list, tuple)):
        shapes = [tuple(part.shape) for part in keras.tree.flatten(outputs)]
        return f"a {type(outputs).__name__} of tensors of the shapes {shapes}"
    return f"a {type(outputs).__name__}"
