"""What all tasks promise: shapes, zeros and ones, sizes, names, the paper's settings."""

import numpy as np
import pytest

from examples.tasks import TASKS, find
from examples.tasks.base import Example, cost_in_bits

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@each_task
def test_sequences_have_the_shapes_the_task_names(task):
    low = {name: ends[0] for name, ends in task.sizes.items()}
    example = task.draw(np.random.default_rng(1), batch_size=3, **low)
    time = task.time(**low)
    assert example.inputs.shape == (3, time, task.input_dim)
    assert example.targets.shape == (3, time, task.output_dim)
    assert example.due.shape == (3, time)
    assert {a.dtype for a in (example.inputs, example.targets, example.due)} == {
        np.dtype("float32")
    }


@each_task
def test_targets_are_bits_and_nothing_is_said_where_nothing_is_due(task):
    example = task.draw(np.random.default_rng(2), batch_size=7)
    assert set(np.unique(example.targets)) <= {0, 1} and set(np.unique(example.due)) <= {0, 1}
    assert example.due.sum() > 0
    assert not example.targets[example.due == 0].any()
    assert (example.due == example.due[0]).all(), "one length"


@each_task
def test_what_is_drawn_depends_on_the_generator_alone(task):
    one, same, other = (task.draw(np.random.default_rng(n), 7) for n in (3, 3, 4))
    np.testing.assert_array_equal(one.inputs, same.inputs)
    np.testing.assert_array_equal(one.targets, same.targets)
    assert one.inputs.shape != other.inputs.shape or (one.inputs != other.inputs).any()


@each_task
def test_the_sequences_of_a_batch_differ(task):
    top = {name: ends[1] for name, ends in task.sizes.items()}
    inputs = task.draw(np.random.default_rng(5), 7, **top).inputs
    assert len({row.tobytes() for row in inputs}) == 7


def test_sizes_are_uniform_over_their_range():
    generator = np.random.default_rng(6)
    steps = [find("copy").draw(generator, 1).due.sum() for _ in range(4000)]
    counts = np.bincount(np.array(steps, int), minlength=21)
    assert counts[0] == 0 and len(counts) == 21
    assert abs(counts[1:] - 200).max() < 4 * np.sqrt(4000 * 0.05 * 0.95)


def test_padding_is_blank_and_not_due():
    example = Example(np.ones((2, 3, 5)), np.ones((2, 3, 7)), np.ones((2, 3)))
    padded = example.pad(11)
    assert padded.inputs.shape == (2, 11, 5) and padded.targets.shape == (2, 11, 7)
    for array in (padded.inputs, padded.targets, padded.due):
        assert array[:, :3].all() and not array[:, 3:].any()
    with pytest.raises(ValueError, match="length of the sequences, 3. Received: time=2"):
        example.pad(2)


def test_a_cost_is_summed_over_channels_where_targets_are_due():
    targets = np.array([[[1, 0], [1, 1]], [[0, 0], [0, 1]]], np.float32)
    example = Example(np.zeros((2, 2, 1)), targets, np.array([[0, 1], [1, 1]], np.float32))
    probabilities = np.array([[[0, 0], [0.5, 0.25]], [[0.75, 0], [0.5, 0.125]]])
    assert cost_in_bits(probabilities, example).tolist() == [3, 6]
    probabilities[0, 1, 0] = 0
    assert cost_in_bits(probabilities, example).tolist() == [np.inf, 6]


@pytest.mark.parametrize(
    "sizes, text",
    [
        ({"length": 0}, "`length` to be an int of at least 1.*length=0"),
        ({"length": (5, 4)}, r"a range \(low, high\).*length=\(5, 4\)"),
        ({"length": (1, 2, 3)}, r"length=\(1, 2, 3\)"),
        ({"length": 2.5}, "length=2.5"),
        ({"length": True}, "length=True"),
        ({"repeats": 3}, "copy has the sizes 'length'. Received: repeats=3"),
    ],
)
def test_wrong_sizes_are_refused(sizes, text):
    with pytest.raises(ValueError, match=text):
        find("copy").draw(np.random.default_rng(1), 2, **sizes)


@pytest.mark.parametrize(
    "name, sizes", [("associative-recall", {"items": 1}), ("ngrams", {"length": 5})]
)
def test_sizes_with_nothing_to_ask_are_refused(name, sizes):
    with pytest.raises(ValueError, match=f"at least {[*sizes.values()][0] + 1}"):
        find(name).draw(np.random.default_rng(1), 2, **sizes)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="Copy expects `batch_size`.*batch_size=0"):
        find("copy").draw(np.random.default_rng(1), 0)


def test_tasks_are_found_by_name():
    assert [*TASKS] == ["copy", "repeat-copy", "associative-recall", "ngrams", "priority-sort"]
    assert all(find(name).name == name for name in TASKS)
    with pytest.raises(ValueError, match="no task 'sort'. Choose one of copy, repeat-copy"):
        find("sort")


def test_the_settings_are_those_printed_in_the_paper():
    printed = {
        "copy": (1, (100,), 1, (100,), 1e-4, 17_162, 67_561),
        "repeat-copy": (1, (100,), 1, (100,), 1e-4, 16_712, 66_111),
        "associative-recall": (4, (256,), 1, (100,), 1e-4, 146_845, 70_330),
        "ngrams": (1, (100,), 1, (100,), 3e-5, 14_656, 61_749),
        "priority-sort": (8, (512,), 5, (100, 100), 3e-5, 508_305, 269_038),
    }
    for name, row in printed.items():
        task = TASKS[name]
        forward, lstm = task.paper["feed_forward"], task.paper["lstm"]
        assert row[:4] == (forward["heads"], forward["units"], lstm["heads"], lstm["units"])
        assert {forward["learning_rate"], lstm["learning_rate"]} == {row[4]}
        assert {(s["memory_size"], s["word_size"]) for s in (forward, lstm)} == {(128, 20)}
        assert task.published_parameters == {"feed_forward": row[5], "lstm": row[6]}
