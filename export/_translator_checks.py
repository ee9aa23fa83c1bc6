"""Checks that a Keras model is a translator, before it is written, read or exported.

encoder   named "encoder": source ids (batch, source) -> {"memory": (batch, source, dim),
          "initial_state": the start of the decoder, absent if it needs none}
decoder   named "decoder": prepare, start and step, see docs/architecture.md
model     functional, {"source", "target"} ids -> the decoder's logits
"""

import keras

from keras_attention.decoders import CopyNetDecoder, PointerGeneratorDecoder
from keras_attention.export.tokenizers import Tokenizer

DECODER_METHODS = ("prepare", "start", "step")


def check_translator(owner: str, model) -> None:
    """Raises unless `model` has the children `encoder` and `decoder` of a translator.

    Args:
        owner: Name of the function that the user called.
        model: A functional `keras.Model` from `source` and `target` ids, to be checked.

    Raises:
        ValueError: If it is not a model, or a child or a method of its decoder is missing.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"{owner} expects `model` to be a keras.Model with the layers `encoder` and "
            f"`decoder`. Received: model of type {type(model).__name__}"
        )
    names = [layer.name for layer in model.layers]
    missing = [name for name in ("encoder", "decoder") if name not in names]
    if missing:
        raise ValueError(
            f"{owner} expects `model` to have the layers `encoder` and `decoder`. "
            f"Received: a model without {' and '.join(missing)}, with the layers {names}"
        )
    decoder = model.get_layer("decoder")
    check_decoder_methods(owner, decoder)
    try:
        outputs = model.get_layer("encoder").output
    except AttributeError:  # called more than once: its outputs are checked while tracing
        return
    standardize_encoder_outputs(owner, outputs)


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
        ValueError: If a part has another name, or the encoder has other outputs.
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


def check_vocabularies(model, source_tokenizer, target_tokenizer) -> None:
    """Raises unless the model has an embedding and a logit for every id of its tokenizers.

    Wider embeddings and logits, such as those padded to a multiple of 8, are accepted.

    Raises:
        ValueError: If an argument is not a tokenizer, or a tokenizer has more ids than the model.
    """
    for name, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
        if not isinstance(tokenizer, Tokenizer):
            raise ValueError(
                f"The {name} tokenizer is expected to be a tokenizer of "
                f"keras_attention.export.tokenizers. Received: {type(tokenizer).__name__}"
            )
    logits = model.output.shape[-1]
    _check_size("target", target_tokenizer, logits, "the decoder's logits")
    for embedding in _find_embeddings(model.get_layer("encoder")):
        _check_size("source", source_tokenizer, embedding.input_dim, "the encoder's embedding")


def _check_size(side, tokenizer, size, what):
    if size is not None and size < tokenizer.vocabulary_size:
        raise ValueError(
            f"The {side} tokenizer has more ids than {what}; they do not belong together. "
            f"Received: vocabulary_size={tokenizer.vocabulary_size}, {what}: {size}"
        )


def _find_embeddings(layer):
    if isinstance(layer, keras.layers.Embedding):
        yield layer
    for child in getattr(layer, "layers", ()):
        yield from _find_embeddings(child)
