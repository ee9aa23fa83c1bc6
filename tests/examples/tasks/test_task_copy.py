"""Copy: bits, a flag, then the same bits again."""

import numpy as np

from examples.tasks.copy_task import Copy, copy_example


def copy_bits(inputs):
    """Returns (first step, the vectors due from there on), read from one row of inputs."""
    vectors = []
    for step, row in enumerate(inputs):
        if row[8] == 1:
            return step + 1, vectors
        vectors.append(row[:8].tolist())
    raise AssertionError("no flag")


def test_a_sequence_of_two_vectors_of_three_bits():
    example = copy_example(np.array([[[1, 0, 1], [0, 1, 1]], [[0, 0, 1], [1, 0, 0]]]))
    assert example.inputs[0].tolist() == [
        [1, 0, 1, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert example.targets[1].tolist() == [[0] * 3, [0] * 3, [0] * 3, [0, 0, 1], [1, 0, 0]]
    assert example.due.tolist() == [[0, 0, 0, 1, 1]] * 2


def test_targets_are_what_stands_before_the_flag():
    example = Copy().draw(np.random.default_rng(2), batch_size=5, length=7)
    for inputs, targets, due in zip(example.inputs, example.targets, example.due, strict=True):
        first, vectors = copy_bits(inputs)
        assert first == 8 and targets[first:].tolist() == vectors
        assert not inputs[first:].any() and not targets[:first].any()
        assert due.tolist() == [0] * 8 + [1] * 7


def test_bits_are_fair_and_independent():
    bits = Copy().draw(np.random.default_rng(3), batch_size=500, length=20).targets[:, 21:]
    assert set(np.unique(bits)) == {0, 1}
    deviation = 0.5 / np.sqrt(bits.size)
    assert abs(bits.mean() - 0.5) < 4 * deviation
    signs = 2 * bits - 1
    for axis in range(3):  # between sequences, steps and channels
        assert abs((signs * np.roll(signs, 1, axis)).mean()) < 4 * 2 * deviation
    channels = bits.mean(axis=(0, 1))
    assert abs(channels - 0.5).max() < 4 * 0.5 / np.sqrt(500 * 20)
