"""The PyTorch peers of the captioner, of the HAN and of the LSTMN compute what ours compute."""

import dataclasses
import math

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

from benchmarks.torch_models.training import as_tensors, make_step  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SIZES = {
    "show-attend-tell": {"batch": 5, "side": 24, "target_length": 7, "width": 12},
    "han": {"batch": 5, "sentences": 3, "source_length": 7, "width": 12},
    "lstmn": {"batch": 5, "target_length": 7, "width": 12},
}
LENGTHS = (7, 1, 5, 2, 6)


def copy_show_attend_tell(model, peer):
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    blocks = peer.encoder.blocks
    for number, (convolution, norm) in enumerate(zip(blocks[1::4], blocks[2::4], strict=True), 1):
        kernel = array(encoder.get_layer(f"convolution_{number}").kernel)
        assign(convolution.weight, kernel.transpose(3, 2, 0, 1))
        ours = encoder.get_layer(f"normalization_{number}")
        assign(norm.weight, array(ours.gamma))
        assign(norm.bias, array(ours.beta))
        assign(norm.running_mean, array(ours.moving_mean))
        assign(norm.running_var, array(ours.moving_variance))
    assign(peer.encoder.positions, array(encoder.get_layer("positions").table))

    theirs, attention, cell = peer.decoder, decoder.attention, decoder.recurrence.cell
    assign(theirs.embedding.weight, array(decoder.embedding.embeddings))
    assign_dense(theirs.begin, decoder.initial_hidden_dense, decoder.initial_cell_dense)
    assign(theirs.key.weight, array(attention.scorer.key_kernel).T)
    assign(theirs.key.bias, array(attention.scorer.bias))
    assign(theirs.query.weight, array(attention.scorer.query_kernel).T)
    assign(theirs.score, array(attention.scorer.vector)[:, 0])
    assign(theirs.gate.weight, array(attention.gate_kernel).T)
    assign(theirs.gate.bias, array(attention.gate_bias))
    kernel = order_gates(array(cell.kernel), "ifgo", "ifog")  # inputs: embedding, context
    recurrent = order_gates(array(cell.recurrent_kernel), "ifgo", "ifog")
    words = theirs.embedding.embedding_dim
    assign(theirs.words.weight, kernel[:words].T)
    assign(theirs.words.bias, order_gates(array(cell.bias), "ifgo", "ifog"))
    assign(theirs.fed.weight, np.concatenate([kernel[words:], recurrent]).T)
    assign_dense(theirs.readout, decoder.readout_dense)
    assign_dense(theirs.logits, decoder.logits)


def copy_han(model, peer):
    attention = model.get_layer("attention")
    assign(peer.embedding.weight, array(model.get_layer("words").embeddings))
    for theirs, encoder, pooling in (
        (peer.words, attention.word_encoder, attention.word_pooling),
        (peer.sentences, attention.sentence_encoder, attention.sentence_pooling),
    ):
        for layer, suffix in ((encoder.forward_layer, ""), (encoder.backward_layer, "_reverse")):
            weights = layer.cell.kernel, layer.cell.recurrent_kernel, *array(layer.cell.bias)
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            for name, weight in zip(names, weights, strict=True):
                value = order_gates(array(weight), "zrh", "rzh")
                assign(getattr(theirs.encoder, f"{name}_l0{suffix}"), value.T)
        assign_dense(theirs.hidden, pooling)
        assign(theirs.score, array(pooling.vector)[:, 0])
    assign_dense(peer.logits, model.get_layer("logits"))


def copy_lstmn(model, peer):
    layer = model.get_layer("lstmn_0")
    assign(peer.embedding.weight, array(model.get_layer("embedding").embeddings))
    assign(peer.inputs.weight, order_gates(array(layer.kernel), "ifgo", "ifog").T)
    assign(peer.inputs.bias, order_gates(array(layer.bias), "ifgo", "ifog"))
    assign(peer.recurrent.weight, order_gates(array(layer.recurrent_kernel), "ifgo", "ifog").T)
    assign(peer.queries.weight, array(layer.input_query_kernel).T)
    assign(peer.attended.weight, array(layer.query_kernel).T)
    assign(peer.key.weight, array(layer.key_kernel).T)
    assign(peer.score, array(layer.vector)[:, 0])
    assign_dense(peer.logits, model.get_layer("output"))


def order_gates(weight, gates, wanted):
    """Reorders the columns of gates side by side."""
    columns = dict(zip(gates, np.split(weight, len(gates), axis=-1), strict=True))
    return np.concatenate([columns[gate] for gate in wanted], axis=-1)


COPY = {"show-attend-tell": copy_show_attend_tell, "han": copy_han, "lstmn": copy_lstmn}


@dataclasses.dataclass
class Twins:
    """Our model and PyTorch's with copies of its weights, and a batch with padding."""

    name: str
    model: keras.Model
    peer: torch.nn.Module
    inputs: dict[str, np.ndarray]
    labels: np.ndarray

    @property
    def ignore_class(self):
        return SYSTEMS[self.name].ignore_class

    def is_real(self):
        return self.labels != self.ignore_class

    def tensors(self):
        return as_tensors(self.inputs, self.labels)


@pytest.fixture(scope="module", params=COPY)
def twins(request):
    set_seed(3)
    system, sizes = SYSTEMS[request.param], {**SIZES[request.param], "vocabulary": 23}
    model, peer = system.ours(sizes, None), system.torch(sizes)
    draw_weights(model, 0.4)
    COPY[request.param](model, peer)
    inputs, labels = system.batch(sizes)
    pad(inputs, labels)
    return Twins(request.param, model, peer, inputs, labels)


def pad(inputs, labels):
    """Shortens texts and captions; of documents, sentences and the number of sentences."""
    for row, length in enumerate(LENGTHS):
        for ids in [ids for name, ids in inputs.items() if name != "image"]:
            ids[row, ..., length:] = 0
        if "sentences" in inputs:
            inputs["sentences"][row, 1 + row % 3 :] = 0
            inputs["sentences"][row, 0, 1 + row :] = 0
        else:
            labels[row, length:] = 0


def test_logits_are_the_same_also_with_padding(twins):
    ours = array(twins.model(twins.inputs)["logits"])
    *inputs, _ = twins.tensors()
    twins.peer.eval()
    with torch.no_grad():
        theirs = twins.peer(*inputs).numpy()
    assert ours.std() > 0.1, "the comparison needs logits that differ"
    real = twins.is_real()
    np.testing.assert_allclose(theirs[real], ours[real], atol=2e-4, rtol=1e-4)


def test_logits_without_padding_are_the_same(twins):
    system, sizes = SYSTEMS[twins.name], {**SIZES[twins.name], "vocabulary": 23}
    inputs, labels = system.batch(sizes)
    ours = array(twins.model(inputs)["logits"])
    twins.peer.eval()
    with torch.no_grad():
        theirs = twins.peer(*as_tensors(inputs, labels)[:-1]).numpy()
    np.testing.assert_allclose(theirs, ours, atol=2e-4, rtol=1e-4)


def test_both_have_the_same_number_of_parameters(twins):
    ours = sum(math.prod(weight.shape) for weight in twins.model.trainable_weights)
    assert sum(parameter.numel() for parameter in twins.peer.parameters()) == ours


def test_loss_and_gradient_norm_of_a_step_are_the_same(twins):
    peer = twins.peer.train()
    optimizer = torch.optim.SGD(peer.parameters(), 0.0)
    loss = make_step(peer, optimizer, 1e9, ignore_class=twins.ignore_class)(*twins.tensors())
    norm = sum(float((parameter.grad**2).sum()) for parameter in peer.parameters()) ** 0.5
    step = CustomStep(
        twins.model,
        keras.optimizers.SGD(0.0),
        clip_norm=1e9,
        jit_compile=False,
        ignore_class=twins.ignore_class,
    )
    inputs, labels = keras.tree.map_structure(tf.constant, (twins.inputs, twins.labels))
    our_loss, our_norm = step(inputs, labels)
    assert float(our_loss) == pytest.approx(loss, rel=1e-5)
    assert float(our_norm) == pytest.approx(norm, rel=1e-3)
