"""Repeat copy: the number of repeats on its own channel, the bits over and over, an EOS token."""

import numpy as np
import pytest

from examples.tasks.repeat_copy import RepeatCopy, repeat_copy_example


def test_a_sequence_of_two_vectors_twice():
    example = repeat_copy_example(np.array([[[1, 0, 1], [0, 1, 1]]]), repeats=2)
    asked = pytest.approx((2 - 5.5) / 2.8722813)
    assert example.inputs[0, :4].tolist() == [
        [1, 0, 1, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, asked],
    ]
    assert not example.inputs[0, 4:].any()
    assert example.targets[0].tolist() == [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [1, 0, 1, 0],
        [0, 1, 1, 0],
        [1, 0, 1, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
    ]
    assert example.due.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 1]]


@pytest.mark.parametrize("repeats", [1, 3, 10, 17])
def test_targets_are_the_vectors_as_often_as_the_inputs_say(repeats):
    task = RepeatCopy()
    example = task.draw(np.random.default_rng(2), batch_size=5, length=7, repeats=repeats)
    for inputs, targets, due in zip(example.inputs, example.targets, example.due, strict=True):
        flag = inputs[:, 8].tolist().index(1)
        # The scale of 1 to 10, for 17 repeats too.
        asked = inputs[flag + 1, 9] * np.std(np.arange(1, 11)) + np.mean(np.arange(1, 11))
        assert asked == pytest.approx(repeats, abs=1e-5)
        expected = []
        for _ in range(repeats):
            for row in inputs[:flag]:
                expected.append([*row[:8], 0])
        expected.append([0] * 8 + [1])
        assert targets[flag + 2 :].tolist() == expected
        assert not inputs[flag + 2 :].any() and not targets[: flag + 2].any()
        assert not inputs[:flag, 8:].any() and np.count_nonzero(inputs[flag : flag + 2]) == 2
        assert due.tolist() == [0] * (flag + 2) + [1] * (7 * repeats + 1)


def test_the_repeats_of_the_training_range_are_standardized():
    told = [repeat_copy_example(np.zeros((1, 1, 8)), n).inputs[0, 2, 9] for n in range(1, 11)]
    np.testing.assert_allclose([np.mean(told), np.std(told)], [0, 1], atol=1e-6)
