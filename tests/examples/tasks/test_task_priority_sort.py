"""Priority sort: the vectors of highest priority, the highest first."""

import numpy as np
import pytest

from examples.tasks.priority_sort import PrioritySort, sort_example
from examples.tasks.streams import LinearCurriculum, Stream


def test_three_vectors_of_which_two_come_out():
    vectors = np.array([[[1, 0], [0, 1], [1, 1]], [[0, 0], [1, 0], [0, 1]]])
    example = sort_example(vectors, np.array([[-0.5, 0.75, 0.25], [1, -1, -0.5]]), outputs=2)
    assert example.inputs[0].tolist() == [
        [1, 0, -0.5],
        [0, 1, 0.75],
        [1, 1, 0.25],
        [0, 0, 0],
        [0, 0, 0],
    ]
    assert example.targets[0].tolist() == [[0, 0], [0, 0], [0, 0], [0, 1], [1, 1]]
    assert example.targets[1].tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [0, 1]]
    assert example.due.tolist() == [[0, 0, 0, 1, 1]] * 2


def test_targets_are_sorted_by_priority():
    example = PrioritySort().draw(np.random.default_rng(2), batch_size=5)
    assert example.inputs.shape == (5, 36, 9) and example.targets.shape == (5, 36, 8)
    for inputs, targets, due in zip(example.inputs, example.targets, example.due, strict=True):
        left = inputs[:20].tolist()
        for target in targets[20:].tolist():
            highest = max(left, key=lambda row: row[8])
            assert target == highest[:8]
            left.remove(highest)
        assert len(left) == 4
        assert not inputs[20:].any() and not targets[:20].any()
        assert due.tolist() == [0] * 20 + [1] * 16


def test_a_blank_step_is_no_vector():
    example = PrioritySort().draw(np.random.default_rng(3), batch_size=500)
    assert example.inputs[:, :20].any(axis=2).all()


def test_priorities_are_uniform():
    example = PrioritySort().draw(np.random.default_rng(4), batch_size=500)
    priorities = example.inputs[:, :20, 8]
    counts, _ = np.histogram(priorities, bins=10, range=(-1, 1))
    assert counts.sum() == 10_000
    assert abs(counts - 1000).max() < 4 * np.sqrt(10_000 * 0.1 * 0.9)


def test_no_more_come_out_than_go_in():
    with pytest.raises(ValueError, match="at most `length`.*outputs=16, length=7"):
        PrioritySort().draw(np.random.default_rng(1), batch_size=2, length=7)


def test_what_comes_out_is_capped_by_what_goes_in():
    assert PrioritySort().cap({"length": 5, "outputs": 16}) == {"length": 5, "outputs": 5}
    assert PrioritySort().cap({"length": 20, "outputs": 16}) == {"length": 20, "outputs": 16}


def test_of_short_sequences_all_come_out():
    task, generator = PrioritySort(), np.random.default_rng(1)
    sizes = {"length": (1, 20), "outputs": (1, 16)}
    drawn = [task.draw(generator, batch_size=2, **sizes) for _ in range(300)]
    found = {(example.inputs[0].any(axis=1).sum(), int(example.due[0].sum())) for example in drawn}
    assert all(1 <= outputs <= min(length, 16) for length, outputs in found)
    assert {length for length, _ in found} == {*range(1, 21)}
    stream = Stream(task, 2, 50, 1, LinearCurriculum(4), 3, **sizes)
    assert stream.example(0, 7).due.shape == (2, 2)  # one vector, which comes out
    assert max(stream.example(4, batch).due.shape[1] for batch in range(50)) > 30
