"""What a translator model must be to be written, read or exported: checked before anything runs."""

import keras

from keras_attention.export.tokenizers import Tokenizer

DECODER_METHODS = ("prepare", "start", "step")


def check_translator(owner: str, model) -> None:
    """Raises unless `model` has the children `encoder` and `decoder` of a translator.

    Args:
        owner: Name of the function the user called.
        model: What should be a functional `keras.Model` over `source` and `target` ids.

    Raises:
        ValueError: If it is not a model, lacks a child, or its decoder lacks a method.
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
    lacking = [name for name in DECODER_METHODS if not callable(getattr(decoder, name, None))]
    if lacking:
        raise ValueError(
            f"{owner} expects the layer `decoder` to have the methods prepare, start and step. "
            f"Received: {type(decoder).__name__} without {', '.join(lacking)}"
        )


def check_vocabularies(model, source_tokenizer, target_tokenizer) -> None:
    """Raises unless the model has an embedding and a logit for every id of its tokenizers.

    Wider embeddings and logits (padded to a multiple of 8, say) are fine.

    Raises:
        ValueError: If a tokenizer is not one, or has more ids than the model.
    """
    for name, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
        if not isinstance(tokenizer, Tokenizer):
            raise ValueError(
                f"The {name} tokenizer is expected to be a tokenizer of "
                f"keras_attention.export.tokenizers. Received: {type(tokenizer).__name__}"
            )
    logits = model.output.shape[-1]
    _check_size("target", target_tokenizer, logits, "the decoder's logits")
    for embedding in _embeddings(model.get_layer("encoder")):
        _check_size("source", source_tokenizer, embedding.input_dim, "the encoder's embedding")


def _check_size(side, tokenizer, size, what):
    if size is not None and size < tokenizer.vocabulary_size:
        raise ValueError(
            f"The {side} tokenizer has more ids than {what}; they do not belong together. "
            f"Received: vocabulary_size={tokenizer.vocabulary_size}, {what}: {size}"
        )


def _embeddings(layer):
    if isinstance(layer, keras.layers.Embedding):
        yield layer
    for child in getattr(layer, "layers", ()):
        yield from _embeddings(child)
