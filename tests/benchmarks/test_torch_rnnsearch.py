"""The PyTorch peer computes what our RNNsearch computes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks.custom_step import CustomStep
from benchmarks.training_systems import example_batch

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: the training benchmark's peer is NOT tested"
)
from rnnsearch_twins import VOCABULARY, WIDTH, make_twins  # noqa: E402  needs PyTorch

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def twins():
    return make_twins()


def test_logits_are_the_same_also_with_padding(twins):
    from torch_batches import as_torch, make_padded_batch

    model, peer = twins
    source, target, _ = make_padded_batch(VOCABULARY)
    ours = keras.ops.convert_to_numpy(model({"source": source, "target": target}))
    with torch.no_grad():
        theirs = peer(*as_torch(source, target)).numpy()
    assert ours.std() > 0.1, "the comparison needs logits that differ"
    np.testing.assert_allclose(theirs, ours, atol=1e-4, rtol=0)


def test_both_have_the_same_number_of_parameters(twins):
    model, peer = twins
    assert sum(parameter.numel() for parameter in peer.parameters()) == model.count_params()


def test_loss_and_gradient_norm_of_a_step_are_the_same(twins):
    from torch_batches import as_torch, make_padded_batch

    from benchmarks.torch_models.training import make_step

    model, peer = twins
    source, target, labels = make_padded_batch(VOCABULARY)
    optimizer = torch.optim.SGD(peer.parameters(), 0.0)
    loss = make_step(peer, optimizer, 1e9)(*as_torch(source, target, labels))
    norm = sum(float((parameter.grad**2).sum()) for parameter in peer.parameters()) ** 0.5
    step = CustomStep(model, keras.optimizers.SGD(0.0), clip_norm=1e9, jit_compile=False)
    inputs = {"source": tf.constant(source), "target": tf.constant(target)}
    our_loss, our_norm = step(inputs, tf.constant(labels))
    assert float(our_loss) == pytest.approx(loss, rel=1e-5)
    assert float(our_norm) == pytest.approx(norm, rel=1e-4)


def test_the_peer_learns():
    from torch_batches import as_torch

    from benchmarks.torch_models.rnnsearch import TorchRNNsearch
    from benchmarks.torch_models.training import make_step

    torch.manual_seed(1)
    peer = TorchRNNsearch(VOCABULARY, WIDTH)
    step = make_step(peer, torch.optim.Adam(peer.parameters(), 0.01))
    batch = as_torch(*example_batch(3, 5, 4, VOCABULARY))
    losses = [step(*batch) for _ in range(60)]
    assert losses[0] == pytest.approx(np.log(VOCABULARY), rel=0.1)
    assert losses[-1] < 0.5 * losses[0]
