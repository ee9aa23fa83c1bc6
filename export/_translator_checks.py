"""Checks that a Keras model is a translator, before it is written, read or exported.

encoder   named "encoder": source ids (batch, source) -> {"memory": (batch, source, dim),
          "initial_state": the start of the decoder, absent if it needs none}
decoder   named "decoder": prepare, start and step, see docs/architecture.md
model     functional, {"source", "target"} ids -> the decoder's logits
"""

import keras

from keras_attention.decoders import CopyNetDecoder, PointerGeneratorDecoder
from keras_attention.export._connect_encoder_decoder import (
    check_decoder_methods,
    standardize_encoder_outputs,
)
from keras_attention.export.tokenizers import Tokenizer

#: The decoders that copy words of the source.
COPYING_DECODERS = (PointerGeneratorDecoder, CopyNetDecoder)


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
    encoder = model.get_layer("encoder")
    try:
        outputs = encoder.output
    except AttributeError:  # called more than once: its outputs are checked while tracing
        return
    if isinstance(encoder, keras.Model) or not isinstance(outputs, list):
        standardize_encoder_outputs(owner, outputs)  # a layer's list has lost the names of a dict


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


def check_copied_words(owner, decoder, source, target, replace_unknown) -> None:
    """Raises unless the tokenizers and options fit a decoder that copies words, if it is one."""
    if not isinstance(decoder, COPYING_DECODERS):
        return
    sides = [(one.kind, one.lowercase, one.symbols, one.get_content()) for one in (source, target)]
    if sides[0] != sides[1] or source.kind != "words":
        raise ValueError(
            f"{owner} expects one word tokenizer of both sides for a decoder that copies words: "
            "a copied word has the same id on both. Subwords spell unknown words anyway. "
            f"Received: source={source.kind}, target={target.kind}"
            + ("" if sides[0] == sides[1] else ", which differ")
        )
    size, found = target.vocabulary_size, decoder.decoder.vocabulary_size
    num_extra = found - decoder.first_copied_id
    if found != size + num_extra:
        count = "one" if num_extra == 1 else num_extra
        raise ValueError(
            f"{owner} expects a decoder that copies words to have {size + num_extra} "
            f"ids inside, {count} more than the tokenizer. Received: a decoder with {found}"
        )
    if replace_unknown is not False:
        raise ValueError(
            f"{owner} expects no `replace_unknown` for a decoder that copies unknown words itself. "
            "Leave it out."
        )


def _check_size(side, tokenizer, size, what):
    if size is not None and size < tokenizer.vocabulary_size:
        raise ValueError(
            f"The {side} tokenizer has more ids than {what}; they do not belong together. "
            f"Received: vocabulary_size={tokenizer.vocabulary_size}, {what}: {size}"
        )


def _find_embeddings(layer):
    if isinstance(layer, keras.layers.Embedding):
        yield layer
    for child in getattr(layer, "encoders", getattr(layer, "layers", ())):
        yield from _find_embeddings(child)
