"""The gated unit of Cho et al.: worked numbers, both forms with a context, hoisting, bad input."""

import keras
import numpy as np
import pytest
from cho_reference import cho_step

from keras_attention import ChoGRUCell

N, X, C, B = 5, 3, 2, 7


def _built(**options):
    cell = ChoGRUCell(N, C, dtype="float64", **options)
    cell.build((B, X + C))
    for index, weight in enumerate(cell.weights):
        weight.assign(np.random.RandomState(index).randn(*weight.shape))
    return cell


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


# SPEC 23, GRU step: x = [1, -1], h = [.5, -.25]. Without a context the two forms are the unit
# that resets before the product with U, and the one that resets after it.
@pytest.mark.parametrize(
    ("covers", "expected"), [(False, [0.648481, -0.086588]), (True, [0.647229, -0.089353])]
)
def test_a_step_gives_the_worked_numbers(covers, expected):
    cell = ChoGRUCell(2, reset_covers_context=covers, use_bias=False, dtype="float64")
    cell.build((1, 2))
    update, reset, candidate = (
        np.array(kernel) for kernel in ([[0.1, 0.2], [0.3, -0.1]], [[0.3, 0.1], [0, 0.2]],
                                        [[0.5, -0.5], [0.25, 0.1]])
    )  # fmt: skip
    recurrent = (0.2 * np.eye(2), np.array([[0.1, 0.1], [-0.1, 0.3]]))
    recurrent = (*recurrent, np.array([[0.4, 0.2], [0.1, 0.3]]))
    # The SPEC multiplies from the left, W x; a kernel multiplies from the right.
    cell.kernel.assign(np.concatenate([update.T, reset.T, candidate.T], axis=1))
    cell.recurrent_kernel.assign(np.concatenate([matrix.T for matrix in recurrent], axis=1))
    output, states = cell(np.array([[1.0, -1.0]]), [np.array([[0.5, -0.25]])])
    np.testing.assert_allclose(output[0], expected, atol=1e-6)
    np.testing.assert_array_equal(output, states[0])


@pytest.mark.parametrize("covers", [True, False])
def test_a_step_is_that_of_the_paper(covers):
    cell = _built(reset_covers_context=covers)
    x, c, h = _random(B, X), _random(B, C), _random(B, N)
    output, _ = cell(np.concatenate([x, c], axis=1), [h])
    expected = [cho_step(cell, *row) for row in zip(x, c, h, strict=True)]
    np.testing.assert_allclose(output, expected, atol=1e-12)


@pytest.mark.parametrize("covers", [True, False])
def test_the_parts_of_the_input_can_be_projected_by_themselves(covers):
    cell = _built(reset_covers_context=covers)
    x, c, h = _random(B, X), _random(B, C), _random(B, N)
    inputs = np.concatenate([x, c], axis=1)
    parts = cell.project(x) + cell.project(c, first=X)
    np.testing.assert_allclose(parts, cell.project(inputs), atol=1e-12)
    np.testing.assert_allclose(cell.update(parts, [h])[0], cell(inputs, [h])[0], atol=1e-12)
    # A slice that holds the end of x and the beginning of c.
    parts = cell.project(inputs[:, :2]) + cell.project(inputs[:, 2:4], first=2)
    parts = parts + cell.project(inputs[:, 4:], first=4)
    np.testing.assert_allclose(parts, cell.project(inputs), atol=1e-12)


def test_it_runs_in_a_layer_of_keras():
    outputs = keras.layers.RNN(ChoGRUCell(N))(_random(B, 4, X).astype("float32"))
    assert outputs.shape == (B, N)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: ChoGRUCell(0), "`units` to be a positive int.*units=0"),
        (lambda: ChoGRUCell(3, -1), "`context_dim` to be an int of at least 0.*context_dim=-1"),
        (lambda: ChoGRUCell(3, 5).build((2, 5)), r"x at least one.*inputs.shape=\(2, 5\)"),
        (lambda: ChoGRUCell(3).build((2, None)), r"a known last dimension.*\(2, None\)"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
