"""Scores by blocks and custom gradients on every backend: no crash, no wrong second derivative."""

import keras
import numpy as np
import pytest
from backends import BACKEND
from seeds import set_seed

import keras_attention as ka
from keras_attention.kernels import execution_mode

torch_only = pytest.mark.skipif(BACKEND != "torch", reason=f"the backend is {BACKEND}")


def draw(*shape):
    return np.random.RandomState(len(shape)).randn(*shape).astype("float32")


@pytest.mark.parametrize("scorer", [ka.AdditiveScorer, ka.ConcatScorer])
@pytest.mark.parametrize(
    "make",
    [
        ka.Attention,
        lambda scorer: ka.LocalAttention(3, scorer=scorer),
        lambda scorer: ka.MultiHeadAttention(2, 3, scorer=scorer),
    ],
)
def test_blockwise_scores_work(scorer, make):
    query, value = draw(2, 4, 5), draw(2, 7, 5)
    results = []
    for blockwise in (True, False):
        set_seed(1)
        results.append(make(scorer(4, blockwise=blockwise))(query, value))
    one, other = map(keras.ops.convert_to_numpy, results)
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_gpu_is_looked_for():
    assert execution_mode.has_gpu() in (True, False)


def sum_of_second_derivatives(function, inputs):
    import torch

    inputs = torch.tensor(inputs, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(inputs), inputs, create_graph=True)
    return gradient, torch.autograd.grad(gradient.sum(), inputs)[0]


@torch_only
@pytest.mark.parametrize(
    "make",
    [
        lambda: ka.EntmaxNormalizer(),
        lambda: ka.LSTMN(5, 3),
        lambda: ka.BahdanauGRU(5),
        lambda: ka.NTM(ka.NTMCell(3, 7, 5)),
        lambda: ka.NTM(ka.NTMCell(3, 7, 5), return_sequences=True),
    ],
)
@pytest.mark.parametrize("power", [1, 2])
def test_a_second_derivative_through_what_was_computed_raises(make, power):
    layer, inputs = make(), draw(2, 6, 5)

    def loss(inputs):  # the cubes have a second derivative of their own
        return (layer(inputs) ** power).sum() + (inputs**3).sum()

    with pytest.raises(RuntimeError, match="no second derivative on PyTorch"):
        sum_of_second_derivatives(loss, inputs)


@torch_only
def test_a_gradient_of_inputs_alone_has_a_second_derivative():
    layer, mask = ka.ReverseTokens(), keras.ops.ones((2, 6), "bool")
    inputs = draw(2, 6, 5)
    _, second = sum_of_second_derivatives(lambda x: (layer(x, mask=mask) ** 3).sum(), inputs)
    np.testing.assert_allclose(second.detach(), 6 * inputs, rtol=1e-5)
