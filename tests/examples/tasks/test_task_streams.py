"""Streams: a function of (seed, epoch, batch) alone, in a few shapes."""

import numpy as np
import pytest
import tensorflow as tf

from examples.tasks import TASKS, find
from examples.tasks.streams import LinearCurriculum, Stream

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def make(name="copy", **options):
    given = {"batch_size": 3, "batches_per_epoch": 11, "seed": 5, **options}
    return Stream(find(name), **given)


def arrays(dataset):
    return [tf.nest.map_structure(lambda t: t.numpy(), batch) for batch in dataset]


def same(one, other):
    one, other = tf.nest.flatten(one), tf.nest.flatten(other)
    return len(one) == len(other) and all(map(np.array_equal, one, other))


@each_task
def test_batches_are_the_examples_padded_to_a_shape(task):
    stream = Stream(task, batch_size=3, batches_per_epoch=29, seed=5, max_shapes=2)
    batches = arrays(stream.epoch(2))
    assert len(batches) == stream.batches_per_epoch(2) == 29
    assert len(stream.shapes()) <= 2
    for (inputs, targets, due), example in zip(batches, stream.take(29, epoch=2), strict=True):
        inputs = inputs["inputs"]
        time = example.due.shape[1]
        assert due.shape in stream.shapes()
        assert inputs.shape == (*due.shape, task.input_dim)
        assert targets.shape == (*due.shape, task.output_dim)
        # No shorter shape would have held it.
        assert not any(time <= other < due.shape[1] for _, other in stream.shapes())
        for array, drawn in ((inputs, example.inputs), (targets, example.targets)):
            np.testing.assert_array_equal(array[:, :time], drawn)
            assert not array[:, time:].any() and array.dtype == np.float32
        np.testing.assert_array_equal(due[:, :time], example.due)
        assert not due[:, time:].any(), "padding is not due"


@pytest.mark.parametrize("name, max_shapes", [("copy", 1), ("copy", 5), ("repeat-copy", 7)])
def test_shapes_are_few_and_all_are_taken(name, max_shapes):
    stream = make(name, batches_per_epoch=150, max_shapes=max_shapes)
    taken = {due.shape for _, _, due in arrays(stream.epoch(0))}
    assert taken == set(stream.shapes())
    assert len(taken) <= max_shapes
    assert stream.shapes() == sorted(stream.shapes())


def test_with_a_shape_for_every_length_nothing_is_padded():
    stream = make("associative-recall")
    assert stream.shapes() == [(3, 4 * items + 8) for items in range(2, 7)]
    assert all(due[:, -3:].all() for _, _, due in arrays(stream.epoch(0)))


@pytest.mark.parametrize("start", [0, 1, 7, 11, 12])
def test_an_epoch_goes_on_at_any_batch(start):
    stream = make("repeat-copy")
    assert same(arrays(stream.epoch(3, start=start)), arrays(stream.epoch(3))[start:])


def test_an_epoch_of_any_size_starts_at_once():
    stream = make(batches_per_epoch=10**12)
    far = next(iter(stream.epoch(1, start=10**11)))
    assert same(far[2][:, :1], np.zeros((3, 1)))


def test_the_same_seed_gives_the_same_stream_and_another_seed_another():
    first = arrays(make().epoch(1))
    assert same(first, arrays(make().epoch(1)))
    assert not same(first, arrays(make(seed=6).epoch(1)))
    assert not same(first, arrays(make().epoch(0)))


def test_seed_epoch_and_batch_are_not_mixed_up():
    drawn = {}
    for seed in range(3):
        for epoch in range(3):
            for batch in range(3):
                example = make("ngrams", seed=seed).example(epoch, batch)
                drawn[example.inputs.tobytes()] = seed, epoch, batch
    assert len(drawn) == 27


def test_a_large_seed_is_not_a_small_seed_of_another_epoch():
    """NumPy seeds alike from [2**32 + 1, 0, 0] and [1, 1, 0]: held-out data was trained on."""
    held_out = make("ngrams", seed=2**32 + 1).example(0, 0)
    assert not same(held_out.inputs, make("ngrams", seed=1).example(1, 0).inputs)
    assert same(held_out.inputs, make("ngrams", seed=2**32 + 1).example(0, 0).inputs)


def test_the_batches_do_not_depend_on_the_shapes():
    assert same(make(max_shapes=1).take(5)[3].inputs, make(max_shapes=4).take(5)[3].inputs)


def test_sizes_may_be_given_as_numbers_and_as_ranges():
    assert make(length=7).shapes() == [(3, 15)]
    steps = {int(example.due[0].sum()) for example in make(length=(7, 9)).take(40)}
    assert steps == {7, 8, 9}
    assert make("repeat-copy", length=3, repeats=(2, 2)).shapes() == [(3, 12)]


def test_a_curriculum_widens_the_ranges_linearly():
    curriculum = LinearCurriculum(epochs=4)
    full = {"length": (2, 10), "repeats": (3, 3)}
    seen = [curriculum.ranges(full, epoch) for epoch in range(6)]
    assert [ranges["length"] for ranges in seen] == [(2, n) for n in (2, 4, 6, 8, 10, 10)]
    assert {ranges["repeats"] for ranges in seen} == {(3, 3)}


def test_a_stream_follows_its_curriculum():
    stream = make(curriculum=LinearCurriculum(4), length=(1, 9), batches_per_epoch=60)
    longest = [
        max(int(example.due[0].sum()) for example in stream.take(60, epoch)) for epoch in range(6)
    ]
    assert longest == [1, 3, 5, 7, 9, 9]
    assert stream.shapes() == make(length=(1, 9)).shapes()
    assert same(arrays(stream.epoch(2, start=50)), arrays(stream.epoch(2))[50:])


def test_a_finished_curriculum_changes_nothing():
    grown = make(curriculum=LinearCurriculum(2)).take(5, epoch=2)
    assert same([e.inputs for e in grown], [e.inputs for e in make().take(5, epoch=2)])


def test_datasets_tell_their_shapes():
    inputs, targets, due = make("repeat-copy").epoch(0).element_spec
    assert inputs["inputs"].shape.as_list() == [3, None, 10]
    assert targets.shape.as_list() == [3, None, 9]
    assert due.shape.as_list() == [3, None]


def test_a_stream_says_what_it_is():
    assert str(make(batches_per_epoch=1000)) == (
        "copy: 1,000 batches an epoch of 3 sequences, 5 shapes of at most 41 steps"
    )


@pytest.mark.parametrize(
    "options, text",
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batches_per_epoch": 0}, "batches_per_epoch=0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**64}, "seed=18446744073709551616"),
        ({"max_shapes": 0}, "max_shapes=0"),
        ({"lenght": 5}, "has the sizes 'length'. Received: lenght=5"),
        ({"length": 5, "curriculum": LinearCurriculum(3)}, "Leave the curriculum out"),
    ],
)
def test_wrong_arguments_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        make(**options)


def test_a_name_is_no_task():
    with pytest.raises(ValueError, match="`examples.tasks.find` gives one.*task='copy'"):
        Stream("copy", 3, 11, 5)


@pytest.mark.parametrize("options, text", [({"number": -1}, "number=-1"), ({"start": 2.5}, "2.5")])
def test_wrong_places_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        make().epoch(**{"number": 0, **options})


def test_a_curriculum_lasts_at_least_an_epoch():
    with pytest.raises(ValueError, match="LinearCurriculum expects `epochs`.*epochs=0"):
        LinearCurriculum(0)


def test_sizes_that_do_not_fit_each_other_are_refused_before_anything_is_drawn():
    with pytest.raises(ValueError, match="outputs=16, length=15"):
        make("priority-sort", length=(15, 20))
