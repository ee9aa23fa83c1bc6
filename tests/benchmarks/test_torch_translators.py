"""The PyTorch peers of the Transformer and of ConvS2S compute what ours compute."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from benchmarks.custom_step import CustomStep
from benchmarks.training_systems import SYSTEMS

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: the training benchmark's peers are NOT tested"
)
from torch_weights import array, assign, assign_dense, draw_weights  # noqa: E402  needs PyTorch

pytestmark = pytest.mark.usefixtures("one_torch_thread")

WIDTH, VOCABULARY = 12, 23


def assign_norm(norm, layer):
    assign(norm.weight, array(layer.gamma))
    assign(norm.bias, array(layer.beta))


def assign_attention(peer, layer, cross):
    if cross:
        assign_dense(peer.query, layer.query_dense)
        assign_dense(peer.source, layer.key_dense, layer.value_dense)
    else:
        assign_dense(peer.projection, layer.query_dense, layer.key_dense, layer.value_dense)
    assign_dense(peer.output, layer.output_dense)


def assign_network(peer, layer):
    assign_dense(peer[0], layer.intermediate_dense)
    assign_dense(peer[2], layer.feed_forward_output_dense)


def copy_transformer(model, peer):
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    assign(peer.source.weight, array(encoder.get_layer("source_embedding").table.embeddings))
    assign(peer.target.weight, array(decoder.embed.table.embeddings))
    for number, theirs in enumerate(peer.encoder):
        ours = encoder.get_layer(f"layer_{number}")
        assign_attention(theirs.attention, ours.attention, cross=False)
        assign_network(theirs.network, ours)
        assign_norm(theirs.norms[0], ours.attention_normalization)
        assign_norm(theirs.norms[1], ours.feed_forward_normalization)
    for ours, theirs in zip(decoder.stack, peer.decoder, strict=True):
        assign_attention(theirs.attention, ours.self_attention, cross=False)
        assign_attention(theirs.cross, ours.cross_attention, cross=True)
        assign_network(theirs.network, ours)
        for norm, name in zip(theirs.norms, ours.sublayers, strict=True):
            assign_norm(norm, getattr(ours, f"{name}_normalization"))


def assign_normalized(peer, layer):
    """A weight-normalized map; a convolution's kernel is `(kernel * dim, outputs)` with us."""
    gain, direction = (getattr(peer.parametrizations.weight, f"original{n}") for n in (0, 1))
    kernel = array(layer.kernel)
    if direction.ndim == 3:
        kernel = kernel.reshape(direction.shape[2], direction.shape[1], -1).transpose(2, 1, 0)
    else:
        kernel = kernel.T
    assign(direction, kernel)
    assign(gain, array(layer.gain).reshape(gain.shape))
    assign(peer.bias, array(layer.bias))


def copy_convs2s(model, peer):
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    assign(peer.words[0].weight, array(encoder.get_layer("source_embedding").embeddings))
    assign(peer.words[1].weight, array(decoder.embedding.embeddings))
    for table, layer in zip(
        peer.places, (encoder.get_layer("positions"), decoder.positions), strict=True
    ):
        assign(table.weight, array(layer.weights[0])[: len(table.weight)])
    for number, theirs in enumerate(peer.encoder):
        assign_normalized(theirs.conv, encoder.get_layer(f"block_{number}").convolution)
    maps = (
        encoder.get_layer("input_projection"),
        encoder.get_layer("output_projection"),
        decoder.input_projection,
        decoder.output_projection,
    )
    for theirs, ours in zip((*peer.maps, peer.logits), (*maps, decoder.logits), strict=True):
        assign_normalized(theirs, ours)
    for ours, conv, attention in zip(decoder.layers, peer.decoder, peer.attention, strict=True):
        assign_normalized(conv.conv, ours.block.convolution)
        assign_normalized(attention.query, ours.attention.query_map)
        assign_normalized(attention.output, ours.attention.output_map)


COPY = {"transformer": copy_transformer, "convs2s": copy_convs2s}


@pytest.fixture(scope="module", params=COPY)
def twins(request):
    set_seed(3)
    system, sizes = SYSTEMS[request.param], {"vocabulary": VOCABULARY, "width": WIDTH}
    model, peer = system.ours(sizes, None), system.torch(sizes)
    draw_weights(model, 0.4)
    COPY[request.param](model, peer)
    return model, peer


def test_logits_are_the_same_also_with_padding(twins):
    from torch_batches import as_torch, make_padded_batch

    model, peer = twins
    source, target, labels = make_padded_batch(VOCABULARY)
    ours = array(model({"source": source, "target": target}))
    with torch.no_grad():
        theirs = peer(*as_torch(source, target)).numpy()
    assert ours.std() > 0.1, "the comparison needs logits that differ"
    real = labels > 0
    np.testing.assert_allclose(theirs[real], ours[real], atol=2e-4, rtol=1e-4)


def test_loss_and_gradient_norm_of_a_step_are_the_same(twins):
    from torch_batches import as_torch, make_padded_batch

    from benchmarks.torch_models.training import make_step

    model, peer = twins
    source, target, labels = make_padded_batch(VOCABULARY)
    optimizer = torch.optim.SGD(peer.parameters(), 0.0)
    loss = make_step(peer, optimizer, 1e9)(*as_torch(source, target, labels))
    norm = sum(float((p.grad**2).sum()) for p in peer.parameters() if p.grad is not None) ** 0.5
    step = CustomStep(model, keras.optimizers.SGD(0.0), clip_norm=1e9, jit_compile=False)
    inputs = {"source": tf.constant(source), "target": tf.constant(target)}
    our_loss, our_norm = step(inputs, tf.constant(labels))
    assert float(our_loss) == pytest.approx(loss, rel=1e-5)
    assert float(our_norm) == pytest.approx(norm, rel=1e-3)
