"""RNNsearch of the examples and of PyTorch, with the same weights."""

import keras
import numpy as np
import torch
from seeds import set_seed

from benchmarks.torch_models.rnnsearch import TorchRNNsearch
from examples.models import rnnsearch

WIDTH, VOCABULARY = 10, 23


def make_twins():
    """Our model with random weights and the PyTorch model with copies of them."""
    set_seed(3)
    sizes = {"units": WIDTH, "embedding_dim": WIDTH, "maxout_units": WIDTH}
    model = rnnsearch.build(VOCABULARY, VOCABULARY, **sizes)
    generator = np.random.default_rng(3)
    for weight in model.weights:  # biases too, which begin at zero
        weight.assign(generator.normal(scale=0.5, size=weight.shape))
    peer = TorchRNNsearch(VOCABULARY, WIDTH)
    copy_weights(model, peer)
    return model, peer


def assign(parameter, *arrays):
    """Sets a PyTorch parameter to arrays laid side by side."""
    array = np.concatenate([keras.ops.convert_to_numpy(array) for array in arrays], axis=-1)
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))


def assign_dense(linear, layer):
    assign(linear.weight, keras.ops.transpose(layer.kernel))
    assign(linear.bias, layer.bias)


def copy_weights(model, peer):
    """Copies the weights of our model into the PyTorch model."""
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    assign(peer.encoder.embedding.weight, encoder.get_layer("source_embedding").embeddings)
    both = encoder.get_layer("annotations")
    for direction, layer in enumerate([both.forward_layer, both.backward_layer]):
        assign(peer.encoder.kernel[direction], layer.cell.kernel)
        assign(peer.encoder.bias[direction, 0], layer.cell.bias)
        recurrent = keras.ops.convert_to_numpy(layer.cell.recurrent_kernel)
        assign(peer.encoder.gates_kernel[direction], recurrent[:, : 2 * WIDTH])
        assign(peer.encoder.candidate_kernel[direction], recurrent[:, 2 * WIDTH :])
    assign_dense(peer.encoder.initial_state, encoder.get_layer("initial_state"))

    theirs, scorer, cell = peer.decoder, decoder.attention.scorer, decoder.recurrence.cell
    assign(theirs.embedding.weight, decoder.embedding.embeddings)
    assign(theirs.key.weight, keras.ops.transpose(scorer.key_kernel))
    assign(theirs.key.bias, scorer.bias)
    assign(theirs.score, scorer.vector[:, 0])
    kernel = keras.ops.convert_to_numpy(cell.kernel).T  # inputs: embedding, context
    assign(theirs.words.weight, kernel[:, :WIDTH])
    assign(theirs.context.weight, kernel[:, WIDTH:])
    assign(theirs.words.bias, cell.bias)
    recurrent = keras.ops.convert_to_numpy(cell.recurrent_kernel)
    query = keras.ops.convert_to_numpy(scorer.query_kernel)
    assign(theirs.state.weight, np.concatenate([query, recurrent[:, : 2 * WIDTH]], axis=1).T)
    assign(theirs.candidate.weight, recurrent[:, 2 * WIDTH :].T)
    assign_dense(theirs.readout, decoder.pairs)
    assign_dense(theirs.logits, decoder.logits)
