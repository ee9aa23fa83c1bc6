"""Our Transformer in CTranslate2's format, the peer of the `decode` benchmark.

The same weights, so the same outputs: nothing here is an approximation. CTranslate2 reads a
folder with the weights, the two vocabularies and how they are wired; tokens are `t0`, `t1`, ...,
but for the special ones.
"""

from pathlib import Path

import numpy as np

SPECIAL = ("<blank>", "<unk>", "<s>", "</s>")


def tokens(vocabulary_size: int) -> list[str]:
    """Returns the names of the ids."""
    return [*SPECIAL, *(f"t{number}" for number in range(len(SPECIAL), vocabulary_size))]


def write(model, directory: Path, longest: int = 512) -> None:
    """Writes a Transformer of `examples.models.transformer` as a CTranslate2 model.

    Args:
        model: The Keras model: normalization "post" or "pre", sinusoidal positions.
        directory: Where to write; the folder is made.
        longest: How many positions are written.
    """
    from ctranslate2 import specs

    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    layers = decoder.num_layers
    is_pre = decoder.normalization == "pre"
    spec = specs.TransformerSpec.from_config(
        layers, decoder.num_heads, pre_norm=is_pre, alignment_heads=decoder.num_heads
    )  # the alignment is the mean over the heads of the last layer, as ours
    embedding = encoder.get_layer("source_embedding")
    spec.encoder.embeddings[0].weight = _array(embedding.table.embeddings)
    spec.decoder.embeddings.weight = _array(decoder.embed.table.embeddings)
    spec.decoder.projection.weight = _array(decoder.embed.table.embeddings)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = True
        side.position_encodings.encodings = positions(longest, decoder.dim)
    for number, layer in enumerate(spec.encoder.layer):
        ours = encoder.get_layer(f"layer_{number}")
        _self_attention(layer.self_attention, ours.attention, ours.attention_normalization)
        _network(layer.ffn, ours)
    for ours, layer in zip(decoder.stack, spec.decoder.layer, strict=True):
        _self_attention(
            layer.self_attention, ours.self_attention, ours.self_attention_normalization
        )
        _cross_attention(layer.attention, ours.cross_attention)
        _norm(layer.attention.layer_norm, ours.cross_attention_normalization)
        _network(layer.ffn, ours)
    if is_pre:
        _norm(spec.encoder.layer_norm, encoder.get_layer("final_normalization"))
        _norm(spec.decoder.layer_norm, decoder.final_normalization)
    spec.register_source_vocabulary(tokens(embedding.vocabulary_size))
    spec.register_target_vocabulary(tokens(decoder.vocabulary_size))
    spec.config.decoder_start_token = "<s>"
    spec.config.add_source_eos = False
    spec.validate()
    directory.mkdir(parents=True, exist_ok=True)
    spec.save(str(directory))


def positions(length: int, dim: int) -> np.ndarray:
    """Returns the table of positions, sines and cosines in turn, float32."""
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, dim).astype("float32")


def _self_attention(spec, layer, normalization):
    _linear(spec.linear[0], layer.query_dense, layer.key_dense, layer.value_dense)
    _linear(spec.linear[1], layer.output_dense)
    _norm(spec.layer_norm, normalization)


def _cross_attention(spec, layer):
    _linear(spec.linear[0], layer.query_dense)
    _linear(spec.linear[1], layer.key_dense, layer.value_dense)
    _linear(spec.linear[2], layer.output_dense)


def _network(spec, layer):
    _linear(spec.linear_0, layer.intermediate_dense)
    _linear(spec.linear_1, layer.feed_forward_output_dense)
    _norm(spec.layer_norm, layer.feed_forward_normalization)


def _linear(spec, *layers):
    """One linear map from dense layers side by side."""
    kernels = np.concatenate([_array(layer.kernel) for layer in layers], axis=1)
    spec.weight = np.ascontiguousarray(kernels.T)
    if layers[0].use_bias:
        spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _norm(spec, layer):
    spec.gamma, spec.beta = _array(layer.gamma), _array(layer.beta)


def _array(weight):
    return np.array(weight, "float32")
