"""The gated unit of RNNsearch: worked numbers, masks, the gradient that is written out."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import BahdanauGRU, BahdanauGRUCell
from keras_attention.kernels.gru_sequence import gru_sequence
from keras_attention.recurrent import maxout

B, T, D, N = 3, 7, 5, 4
MASK = np.arange(T) < np.array([[7], [4], [0]])


def _random(*shape, dtype="float32"):
    return np.random.RandomState(sum(shape)).randn(*shape).astype(dtype)


def make_weights(sign=1):
    """SPEC 23, GRU step: kernels and recurrent kernels of update (times `sign`), reset, new."""
    update, update_state = np.array([[0.1, 0.2], [0.3, -0.1]]), 0.2 * np.eye(2)
    reset, reset_state = np.array([[0.3, 0.1], [0, 0.2]]), np.array([[0.1, 0.1], [-0.1, 0.3]])
    new, new_state = np.array([[0.5, -0.5], [0.25, 0.1]]), np.array([[0.4, 0.2], [0.1, 0.3]])
    return [
        np.concatenate([sign * update.T, reset.T, new.T], axis=1),
        np.concatenate([sign * update_state.T, reset_state.T, new_state.T], axis=1),
    ]


def run_step(cell, weights):
    cell.build((1, 2))
    cell.set_weights(weights)
    state, _ = cell(np.array([[1.0, -1.0]]), [np.array([[0.5, -0.25]])])
    return np.array(state)[0]


def test_one_step_is_the_one_worked_by_hand():
    cell = BahdanauGRUCell(2, use_bias=False, dtype="float64")
    np.testing.assert_allclose(run_step(cell, make_weights()), [0.648481, -0.018107], atol=1e-6)


@pytest.mark.parametrize(
    ("reset_after", "expected"), [(False, [0.648481, -0.018107]), (True, [0.647229, -0.022031])]
)
def test_keras_unit_with_its_update_gate_negated_is_ours_or_that_of_yang(reset_after, expected):
    """What `forward_gru` and HAN rest on: the blends differ in the sign of one gate."""
    cell = keras.layers.GRUCell(2, use_bias=False, reset_after=reset_after, dtype="float64")
    np.testing.assert_allclose(run_step(cell, make_weights(sign=-1)), expected, atol=1e-6)


def test_the_layer_equals_the_cell_in_keras_loop_with_masks():
    layer = BahdanauGRU(N, return_sequences=True, return_state=True)
    inputs = _random(B, T, D)
    states, last = layer(inputs, mask=MASK)
    loop = keras.layers.RNN(
        layer.cell, return_sequences=True, return_state=True, zero_output_for_mask=True
    )
    expected, expected_last = loop(inputs, mask=MASK)
    np.testing.assert_allclose(np.array(states), np.array(expected), atol=1e-6)
    np.testing.assert_allclose(np.array(last), np.array(expected_last), atol=1e-6)
    assert np.all(np.array(last)[2] == 0), "nothing to read leaves the initial state"


def test_backwards_begins_at_the_last_real_token():
    layer = BahdanauGRU(N, return_sequences=True, go_backwards=True)
    inputs = _random(B, T, D)
    states = np.array(layer(inputs, mask=MASK))[:, ::-1]
    short = np.array(layer(inputs[1:2, :4]))[:, ::-1]
    np.testing.assert_allclose(states[1, :4], short[0], atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("jit", [False, True])
def test_the_written_gradient_is_that_of_finite_differences(masked, jit):
    tensors = [
        _random(B, T, 3 * N, dtype="float64"),
        _random(B, N, dtype="float64"),
        _random(N, 3 * N, dtype="float64"),
    ]
    upstream = _random(B, T, N, dtype="float64")
    mask = tf.constant(MASK) if masked else None

    @tf.function(jit_compile=jit)
    def loss_and_gradients(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            loss = tf.reduce_sum(gru_sequence(*arguments, mask) * upstream)
        return loss, tape.gradient(loss, arguments)

    constants = [tf.constant(tensor) for tensor in tensors]
    _, gradients = loss_and_gradients(*constants)
    random = np.random.RandomState(1)
    for index, gradient in enumerate(gradients):
        direction = random.randn(*tensors[index].shape)
        losses = []
        for step in (1e-5, -1e-5):
            moved = list(constants)
            moved[index] = tf.constant(tensors[index] + step * direction)
            losses.append(float(loss_and_gradients(*moved)[0]))
        numeric = (losses[0] - losses[1]) / 2e-5
        assert numeric == pytest.approx(np.sum(gradient.numpy() * direction), rel=1e-6, abs=1e-8)


def test_each_recurrent_matrix_starts_orthogonal():
    cell = BahdanauGRUCell(N)
    cell.build((None, D))
    blocks = np.split(np.array(cell.recurrent_kernel), 3, axis=1)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(N), atol=1e-5)
    assert not np.allclose(blocks[0], blocks[1])


def test_bidirectional_gives_the_backward_state_at_the_first_word():
    layer = keras.layers.Bidirectional(BahdanauGRU(N, return_sequences=True, return_state=True))
    annotations, forward, backward = layer(_random(B, T, D), mask=MASK)
    np.testing.assert_allclose(np.array(annotations)[:2, 0, N:], np.array(backward)[:2], atol=1e-6)
    np.testing.assert_allclose(np.array(annotations)[1, 3, :N], np.array(forward)[1], atol=1e-6)


def test_maxout_takes_the_larger_of_neighbors():
    found = maxout(np.array([1.0, 4.0, 3.0, 2.0, -1.0, -5.0]))
    np.testing.assert_array_equal(np.array(found), [4, 3, -1])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: BahdanauGRU(0), "BahdanauGRU.*`units`.*units=0"),
        (lambda: BahdanauGRUCell(-3), "units=-3"),
        (lambda: BahdanauGRU(2)(_random(2, 3)), r"\(batch, time, dim\)"),
        (lambda: BahdanauGRU(2)(_random(B, T, D), mask=MASK[:, :3]), "`mask` of shape"),
        (lambda: BahdanauGRUCell(2).project(_random(2, 3)), "no weights yet"),
        (lambda: maxout(np.ones((2, 3))), "multiple of `pieces`=2"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()


def test_an_attached_mask_is_read_beside_an_initial_state():
    sequences = tf.random.stateless_normal((2, 5, 3), (1, 2))
    mask = tf.sequence_mask([5, 2], 5)
    layer = BahdanauGRU(4)
    expected = layer(sequences, initial_state=tf.ones((2, 4)), mask=mask)
    sequences._keras_mask = mask
    np.testing.assert_array_equal(layer(sequences, initial_state=tf.ones((2, 4))), expected)
