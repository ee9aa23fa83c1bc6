"""Gated convolutions: the paper's arithmetic by hand, lengths, causality, steps, variance."""

import keras
import numpy as np
import pytest
from conv_reference import gate_in_numpy, linear_in_numpy
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import GatedConvBlock
from keras_attention.convolutional import scaled_normal
from keras_attention.convolutional.gated_conv_block import stack_windows

B, T, D, N = 3, 11, 5, 7
INPUTS = np.random.RandomState(1).randn(B, T, D)
MASK = np.arange(T) < np.array([[11], [4], [0]])
KINDS = [(3, False), (5, False), (1, False), (3, True), (2, True), (1, True)]


def make_block(*arguments, **options):
    set_seed(1)
    block = GatedConvBlock(*arguments, **{"dtype": "float64", **options})
    block.build((None, None, D))
    random = np.random.RandomState(2)
    block.set_weights([random.randn(*w.shape) for w in block.weights])
    return block


def block_in_numpy(block, z):
    y = gate_in_numpy(z, *linear_in_numpy(block.convolution), block.kernel_size, block.causal)
    if block.projection is not None:
        kernel, bias = linear_in_numpy(block.projection)
        z = z @ kernel + bias
    return (y + z) * np.sqrt(0.5)


@pytest.mark.parametrize("units", [D, N])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("k", "causal"), KINDS)
def test_it_is_the_papers_arithmetic(k, causal, normalized, units):
    block = make_block(units, k, causal, weight_normalization=normalized)
    outputs = np.array(block(INPUTS))
    for row in range(B):
        np.testing.assert_allclose(outputs[row], block_in_numpy(block, INPUTS[row]), atol=1e-12)


def test_the_worked_gate():
    block = GatedConvBlock(2, 1, weight_normalization=False, dtype="float64")
    block.build((None, None, 2))
    block.convolution.set_weights([np.zeros((2, 4)), np.array([1.0, -2, 0, 2])])
    expected = np.array([0.5, -1.761594]) * np.sqrt(0.5)
    np.testing.assert_allclose(np.array(block(np.zeros((1, 1, 2))))[0, 0], expected, atol=1e-6)


def test_k_minus_1_zeros_on_the_left_keep_the_length():
    """n 7, k 3: padded on both sides there are 9 outputs; k fewer are 6, k - 1 fewer are 7."""
    inputs, k = np.arange(1.0, 8).reshape(1, 7, 1), 3
    padded = np.pad(inputs[0, :, 0], k - 1)
    both = [padded[i : i + k] for i in range(len(padded) - k + 1)]
    assert (len(both), len(both[:-k]), len(both[: -(k - 1)])) == (9, 6, 7)
    np.testing.assert_array_equal(stack_windows(inputs, k, causal=True)[0], both[: -(k - 1)])


@pytest.mark.parametrize(("k", "causal"), KINDS)
def test_an_input_reaches_the_outputs_that_see_it_and_no_others(k, causal):
    block, changed = make_block(D, k, causal), INPUTS.copy()
    changed[:, 5] += 1.0
    moved = np.any(np.array(block(changed)) != np.array(block(INPUTS)), axis=(0, 2))
    first, last = (5, 5 + k - 1) if causal else (5 - (k - 1) // 2, 5 + (k - 1) // 2)
    assert np.flatnonzero(moved).tolist() == list(range(first, last + 1))


def test_six_layers_of_five_see_25_inputs():
    blocks = [make_block(D, 5) for _ in range(6)]
    inputs = tf.constant(np.random.RandomState(3).randn(1, 41, D))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = inputs
        for block in blocks:
            outputs = block(outputs)
        middle = tf.reduce_sum(outputs[:, 20])
    reached = np.any(np.array(tape.gradient(middle, inputs)) != 0, axis=(0, 2))
    assert np.flatnonzero(reached).tolist() == list(range(8, 33))


@pytest.mark.parametrize("policy", ["float64", "mixed_bfloat16"])
@pytest.mark.parametrize(("k", "units"), [(3, D), (2, N), (1, N)])
def test_steps_equal_the_call(k, units, policy):
    block = make_block(units, k, causal=True, dtype=policy)
    whole, state = np.array(block(INPUTS)).astype("float64"), block.start(B)
    atol = 1e-12 if policy == "float64" else 2e-2 * np.abs(whole).max()
    for i in range(T):
        shapes = keras.tree.map_structure(lambda x: tuple(x.shape), state)
        assert shapes == {"window": (B, k - 1, D)}
        output, state = block.step(tf.constant(INPUTS[:, i]), state)
        np.testing.assert_allclose(np.array(output).astype("float64"), whole[:, i], atol=atol)


@pytest.mark.parametrize(("k", "causal"), [(3, False), (3, True)])
def test_padding_and_batch_mates_change_nothing(k, causal):
    block = make_block(N, k, causal)
    outputs = np.array(block(INPUTS, mask=MASK))
    for row, length in enumerate([11, 4]):
        alone = block_in_numpy(block, INPUTS[row, :length])
        np.testing.assert_allclose(outputs[row, :length], alone, atol=1e-12)
    assert np.all(outputs[~MASK] == 0)


@pytest.mark.parametrize("normalized", [True, False])
def test_gradients_agree_with_differences(normalized):
    block = make_block(N, 3, weight_normalization=normalized)
    inputs = tf.Variable(INPUTS)
    assert_gradients_are_right(
        lambda: block(tf.convert_to_tensor(inputs), mask=MASK),
        [*block.trainable_weights, inputs],
        samples=4,
    )


EMBEDDED = np.sqrt(0.1**2 + 0.1**2)  # the deviation of word plus position, where blocks begin


@pytest.mark.parametrize("causal", [False, True])
def test_the_variance_of_embeddings_is_kept_through_ten_blocks(causal):
    set_seed(5)
    outputs = EMBEDDED * np.random.RandomState(4).randn(16, 43, 128)
    for _ in range(10):
        outputs = np.array(GatedConvBlock(128, 3, causal)(outputs))
        assert 0.9 < outputs.var() / EMBEDDED**2 < 1.1


def test_the_variance_of_unit_inputs_grows_by_what_the_gate_lets_through():
    """A gate passes E sig(b)^2 of the variance: 1/4 at small b, .348 at the deviation of 2 here."""
    set_seed(5)
    random = np.random.RandomState(4)
    passed = np.mean(1 / (1 + np.exp(-2 * random.randn(10**6))) ** 2)
    outputs = np.array(GatedConvBlock(128, 3)(random.randn(16, 43, 128)))
    np.testing.assert_allclose(outputs.var(), (1 + 4 * passed) / 2, rtol=0.03)


def test_the_variance_is_kept_under_dropout():
    """Its share p of the variance of the kernels makes up for the inputs that are scaled up."""
    set_seed(5)
    block, random = GatedConvBlock(128, 3, dropout=0.4, seed=1), np.random.RandomState(4)
    outputs = np.array(block(EMBEDDED * random.randn(16, 43, 128), training=True))
    assert 0.9 < outputs.var() / EMBEDDED**2 < 1.1
    deviation = np.array(block.convolution.kernel).std()
    np.testing.assert_allclose(deviation, np.sqrt(4 * 0.6 / (3 * 128)), rtol=0.02)
    np.testing.assert_allclose(
        np.array(scaled_normal(0.6)((200, 300))).std(), np.sqrt(0.6 / 200), rtol=0.02
    )


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: GatedConvBlock(0, 3), "`units` to be a positive int"),
        (lambda: GatedConvBlock(5, 0), "`kernel_size` to be a positive int"),
        (lambda: GatedConvBlock(5, 4), "odd `kernel_size`.*unless `causal`.*kernel_size=4"),
        (lambda: GatedConvBlock(5, 3, dropout=1.0), r"\[0, 1\).*dropout=1.0"),
        (lambda: make_block(5, 3)(INPUTS[0]), r"\(batch, time, dim\).*\(11, 5\)"),
        (lambda: make_block(5, 3)(INPUTS, mask=MASK[:, :4]), r"`mask` of shape \(batch, time\)"),
        (lambda: make_block(5, 3).start(2), "step by step only if it is causal"),
        (lambda: GatedConvBlock(5, 3, True).step(tf.constant(INPUTS[:, 0]), {}), "no weights yet"),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
