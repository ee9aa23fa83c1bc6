"""What a translator model must be to be written, read or exported: checked before anything runs.

encoder   named "encoder": source ids (batch, source) -> {"memory": (batch, source, dim),
          "initial_state": what the decoder starts from, left out if it needs none}
decoder   named "decoder": prepare, start and step, see docs/architecture.md
model     functional, {"source", "target"} ids -> the decoder's logits
"""

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
    try:
        outputs = model.get_layer("encoder").output
    except AttributeError:  # called more than once: what it returns is seen while tracing
        return
    encoder_outputs(owner, outputs)


def connect_parts(owner: str, encoder, decoder, name: str = "translator") -> keras.Model:
    """Returns the functional model of an encoder before a decoder, over `source` and `target` ids.

    Args:
        owner: Name of the function or class the user called.
        encoder: A layer or model named "encoder", see above.
        decoder: A layer named "decoder".
        name: Name of the model.

    Raises:
        ValueError: If a part has another name, or the encoder returns something else.
    """
    for part, wanted in ((encoder, "encoder"), (decoder, "decoder")):
        if getattr(part, "name", None) != wanted:
            raise ValueError(
                f"{owner} expects the {wanted} to have `name={wanted!r}`: search and export find "
                f"it by that. Received: name={getattr(part, 'name', None)!r}"
            )
    source = keras.Input([None], dtype="int32", name="source")
    target = keras.Input([None], dtype="int32", name="target")
    encoded = encoder_outputs(owner, encoder(source))
    begin = {key: encoded[key] for key in ("initial_state",) if key in encoded}
    logits = decoder(target, encoded["memory"], **begin)
    return keras.Model({"source": source, "target": target}, logits, name=name)


def encoder_outputs(owner: str, outputs) -> dict:
    """Returns what an encoder returned as a dict with `memory` and perhaps `initial_state`.

    A single tensor is the memory of a decoder that needs no initial state.

    Args:
        owner: Name of the function or class the user called.
        outputs: What the encoder returned, values or symbolic tensors.

    Raises:
        ValueError: If it is a list, a tuple or a dict without `memory`: nothing says which of
            its tensors is which.
    """
    if hasattr(outputs, "shape"):
        return {"memory": outputs}
    if isinstance(outputs, dict) and hasattr(outputs.get("memory"), "shape"):
        return outputs
    raise ValueError(
        f"{owner} expects the layer `encoder` to return a dict with `memory`, a tensor (batch, "
        "source, dim), and, if the decoder starts from one, `initial_state`; or the memory alone. "
        'Name them: keras.Model(source, {"memory": memory, "initial_state": state}, '
        f'name="encoder"). Received: {_described(outputs)}'
    )


def _described(outputs):
    """What an encoder returned, in words."""
    if isinstance(outputs, dict):
        return f"a dict with the keys {sorted(map(str, outputs))}"
    if isinstance(outputs, (list, tuple)):
        shapes = [tuple(part.shape) for part in keras.tree.flatten(outputs)]
        return f"a {type(outputs).__name__} of tensors of the shapes {shapes}"
    return f"a {type(outputs).__name__}"


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
