"""Associative recall: items between delimiters, one of them again, the one after it is due."""

import numpy as np

from examples.tasks.associative_recall import AssociativeRecall, recall_example


def recall(inputs):
    """Returns (step after the closing delimiter, item due there), from one row of inputs."""
    items, query, kind = [], [], None
    for step, row in enumerate(inputs):
        if row[6] == 1:
            kind = "item"
            items.append([])
        elif row[7] == 1 and kind == "query":
            asked = [number for number, item in enumerate(items) if item == query]
            return step + 1, items[asked[0] + 1], asked, len(items)
        elif row[7] == 1:
            kind = "query"
        else:
            (items[-1] if kind == "item" else query).append(row[:6].tolist())
    raise AssertionError("no closing delimiter")


def test_two_items_of_two_vectors_of_two_bits():
    items = np.array([[[[1, 0], [1, 1]], [[0, 1], [0, 0]]]])
    example = recall_example(items, query=np.array([0]))
    assert example.inputs[0].tolist() == [
        [0, 0, 1, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 1],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert example.targets[0].tolist() == [[0, 0]] * 10 + [[0, 1], [0, 0]]
    assert example.due.tolist() == [[0] * 10 + [1, 1]]


def test_the_target_is_the_item_after_the_one_asked_for():
    example = AssociativeRecall().draw(np.random.default_rng(2), batch_size=31, items=5)
    for inputs, targets, due in zip(example.inputs, example.targets, example.due, strict=True):
        first, item, asked, count = recall(inputs)
        assert (first, count, len(asked)) == (25, 5, 1)
        assert targets[first:].tolist() == item
        assert not inputs[first:].any() and not targets[:first].any()
        assert due.tolist() == [0] * 25 + [1] * 3
        delimiters = inputs[:, 6:].sum(axis=1) > 0
        assert delimiters.sum() == 7 and not inputs[delimiters, :6].any()


def test_every_item_but_the_last_is_asked_for_equally_often():
    example = AssociativeRecall().draw(np.random.default_rng(3), batch_size=2000, items=6)
    asked = [recall(inputs)[2][0] for inputs in example.inputs]
    counts = np.bincount(asked, minlength=6)
    assert counts[5] == 0
    assert abs(counts[:5] - 400).max() < 4 * np.sqrt(2000 * 0.2 * 0.8)


def test_of_two_items_the_first_is_asked_for():
    example = AssociativeRecall().draw(np.random.default_rng(3), batch_size=50, items=2)
    assert {tuple(recall(inputs)[2]) for inputs in example.inputs} == {(0,)}
