"""What the searches and the scorer refuse, by the text of the error."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from search_models import HashModel
from search_runs import build_arguments
from tf_or_skip import tf

from keras_attention.search import (
    GNMTLengthPenalty,
    beam_search,
    greedy_search,
    sample_search,
    score_sequences,
)

MODEL = HashModel(seed=0, batch=3, vocabulary=7)
SEARCHES = {
    "beam_search": beam_search,
    "greedy_search": greedy_search,
    "sample_search": functools.partial(sample_search, seed=np.arange(3)),
}
each_search = pytest.mark.parametrize("name", list(SEARCHES))


def run(name, step=MODEL.step, state=None, memory=None, **options):
    options = {"max_length": 4, **options}
    memory = MODEL.memory() if memory is None else memory
    return SEARCHES[name](
        step, MODEL.state() if state is None else state, memory, **build_arguments(**options)
    )


@pytest.mark.parametrize("beam_width", [0, -1, 2.0, True])
def test_beam_width_must_be_positive(beam_width):
    text = (
        rf"beam_search expects `beam_width` to be a positive int.*Received: beam_width={beam_width}"
    )
    with pytest.raises(ValueError, match=text):
        run("beam_search", beam_width=beam_width)


@each_search
@pytest.mark.parametrize("max_length", [0, -5, None])
def test_length_limit_must_be_positive(name, max_length):
    text = f"{name} expects `max_length` to be a positive int.*Received: max_length={max_length}"
    with pytest.raises(ValueError, match=text):
        run(name, max_length=max_length)


@each_search
@pytest.mark.parametrize(
    "limits, text",
    [
        ([4, 0, 2], r"between 1 and max_length=4. Received: max_lengths=\[4, 0, 2\]"),
        ([4, 5, 2], r"between 1 and max_length=4. Received: max_lengths=\[4, 5, 2\]"),
        ([4, 3], r"one entry for each of the 3 batch elements. Received: max_lengths.shape"),
        ([[4, 3, 2]], r"`max_lengths` of rank 1. Received: max_lengths.shape=\(1, 3\)"),
        ([4.0, 3.0, 2.0], "`max_lengths` to be int32 with one limit per batch element"),
    ],
)
def test_row_limits_must_fit(name, limits, text):
    with pytest.raises(ValueError, match=f"{name} expects.*{text}"):
        run(name, max_lengths=np.array(limits))


@each_search
def test_ragged_row_limits_are_told(name):
    with pytest.raises(ValueError, match=f"{name} expects `max_lengths` to be int32 with one"):
        run(name, max_lengths=[[4], [3, 2]])


def test_row_limits_are_clipped_where_they_cannot_be_read():
    @tf.function(autograph=False)
    def search(limits):
        return run("beam_search", max_lengths=limits)["lengths"]

    assert int(ops.max(search(tf.constant([99, 4, 1])))) <= 4


@each_search
@pytest.mark.parametrize(
    "minimum, text",
    [
        (-1, "`min_length` to be an int of at least 0.*min_length=-1"),
        (5, "`min_length` to be at most `max_length`. Received: min_length=5, max_length=4"),
        (1.5, "`min_length` to be an int, or one int per element. Received: min_length=1.5"),
    ],
)
def test_minimum_length_must_fit(name, minimum, text):
    owner = "Constraints" if minimum == -1 else name
    with pytest.raises(ValueError, match=f"{owner} expects {text}"):
        run(name, min_length=minimum)


@each_search
def test_ids_and_limits_beyond_int32_do_not_wrap(name):
    with pytest.raises(ValueError, match="between 1 and max_length=4"):
        run(name, max_lengths=np.array([2**32 + 2] * 3))
    for prefix in (np.array([[2**32 + 5]] * 3), tf.constant([[2**32 + 5]] * 3, tf.int64)):
        with pytest.raises(ValueError, match="`prefix` with ids below 7"):
            run(name, prefix=prefix)
    with pytest.raises(ValueError, match="a prefix without EOS, padding or negative ids"):
        run(name, prefix=np.array([[5 - 2**32]] * 3))


@each_search
def test_a_prefix_behind_padding_is_not_passed_over(name):
    with pytest.raises(ValueError, match=r"pad only after the ids. Received: prefix\[1, 0\]=0"):
        run(name, prefix=np.array([[4, 0], [0, 5], [0, 0]]))


def test_targets_beyond_int32_do_not_wrap():
    targets = np.array([[2**32 + 5, 3]] * 3)
    with pytest.raises(ValueError, match="score_sequences expects.*ids"):
        score_sequences(MODEL.step, MODEL.state(), MODEL.memory(), targets)

    @tf.function(autograph=False)
    def score(ids):
        return score_sequences(MODEL.step, MODEL.state(), MODEL.memory(), ids)["log_probs"]

    assert (score(tf.constant(targets)).numpy() <= -1e9).all()


@pytest.mark.parametrize("temperature", ["warm", ["warm"] * 3, -1.0, np.float64(-1.0), [[1.0]]])
def test_a_temperature_is_a_number_or_one_a_row(temperature):
    with pytest.raises(ValueError, match="sample_search expects `temperature` to be"):
        run("sample_search", temperature=temperature)


@each_search
def test_special_ids_must_be_sound(name):
    with pytest.raises(ValueError, match="`end_id` and `pad_id` to differ.*end_id=3, pad_id=3"):
        run(name, pad_id=3)
    with pytest.raises(ValueError, match="`start_id` to be an int of at least 0.*start_id=-2"):
        run(name, start_id=-2)
    text = r"logits wider than the largest special id.*logits.shape=\(3, 7\).*end_id=7"
    with pytest.raises(ValueError, match=text):
        run(name, end_id=7)


def test_stopping_and_penalties_must_be_known():
    with pytest.raises(ValueError, match="`stopping` to be one of 'exact', 'limit'.*stopping='no'"):
        run("beam_search", stopping="no")
    text = r"`length_penalty` to be None, a number, or a callable such as `GNMT.*penalty='gnmt'"
    with pytest.raises(ValueError, match=text):
        run("beam_search", length_penalty="gnmt")
    with pytest.raises(ValueError, match="`length_penalty` to be None, a number, or a callable"):
        run("beam_search", length_penalty=GNMTLengthPenalty)
    text = r"`coverage_penalty` to be None, a number, or a callable such as `Cov.*penalty='gnmt'"
    with pytest.raises(ValueError, match=text):
        run("beam_search", coverage_penalty="gnmt")
    text = r"GNMTLengthPenalty accepts as `length_penalty`. Received: length_penalty=11. GNMT"
    with pytest.raises(ValueError, match=text):
        run("beam_search", length_penalty=11)
    with pytest.raises(ValueError, match="BeamOptions expects a number that CoveragePenalty acc"):
        run("beam_search", coverage_penalty=-0.2)
    text = r"`memory_mask` of shape \(batch, source\), here \(3, 3\)"
    with pytest.raises(ValueError, match=text):
        run("beam_search", memory_mask=ops.ones((3, 5), dtype="bool"))


def test_penalties_must_return_one_number_a_hypothesis():
    text = r"`length_penalty` to return one number for each of \(batch, 8\).*of shape \(3,\)"
    with pytest.raises(ValueError, match=text):
        run("beam_search", length_penalty=lambda log_probs, lengths: log_probs[:, 0])
    text = r"`coverage_penalty` to return one number for each of \(batch, 1\).*\(3, 1, 3\)"
    with pytest.raises(ValueError, match=text):
        run("beam_search", coverage_penalty=lambda coverage, mask: coverage)


@each_search
@pytest.mark.parametrize("leaf", [None, 3, 0.5, "text"])
def test_state_leaves_must_be_tensors(name, leaf):
    with pytest.raises(ValueError, match=f"{name} expects every leaf of `state` to be a tensor"):
        run(name, state={"hash": MODEL.state()["hash"], "other": leaf})


@each_search
def test_state_leaves_must_agree_on_rows(name):
    state = {"one": ops.zeros((3, 2)), "two": [ops.zeros((4,))]}
    text = r"same first dimension. Received: leaves of shapes \(3, 2\), \(4,\)"
    with pytest.raises(ValueError, match=text):
        run(name, state=state)
    with pytest.raises(ValueError, match="the batch as first axis.*a leaf of shape ()"):
        run(name, state={"time": ops.zeros(())})


@each_search
def test_batch_must_be_known_from_somewhere(name):
    with pytest.raises(ValueError, match="infers the batch size from `state` or `memory`"):
        run(name, state={}, memory={"number": 3})


@each_search
def test_functional_tensors_are_refused(name):
    with pytest.raises(ValueError, match="runs on tensors, not inside a functional model"):
        run(name, state={"h": keras.Input((3,))})


@each_search
def test_step_must_be_callable(name):
    with pytest.raises(ValueError, match="expects `step` to be a callable .*Received: step=3"):
        run(name, step=3)


def broken(change):
    """A step whose result `change(logits, state, alignment)` replaces."""

    def step(ids, state, memory):
        return change(*MODEL.step(ids, state, memory))

    return step


@each_search
@pytest.mark.parametrize(
    "change, text",
    [
        (lambda x, s, a: (x, s), "expects `step` to return `.logits, state, alignment.`"),
        (lambda x, s, a: (x[0], s, a), r"logits of `step` of shape \(rows, vocabulary\).*\(7,\)"),
        (lambda x, s, a: (x[:2], s, a), r"here 3 rows. Received: logits.shape=\(2, 7\)"),
        (lambda x, s, a: (x, s, None), "without attention returns zeros. Received: alignment=None"),
        (lambda x, s, a: (x, s, a[:, 0]), r"alignment of `step` of shape \(rows, source\)"),
        (lambda x, s, a: (x, {"hash": s["hash"]}, a), "state of the structure it was passed"),
        (
            lambda x, s, a: (x, {**s, "hash": ops.concatenate([s["hash"]] * 2)}, a),
            r"keep the shape of every state leaf.*Received: \(3,\) became \(6,\)",
        ),
        (
            lambda x, s, a: (x, {**s, "hash": ops.cast(s["hash"], "float32")}, a),
            "keep the dtype of every state leaf. Received: int32 became float32",
        ),
    ],
)
def test_step_must_keep_its_promises(name, change, text):
    with pytest.raises(ValueError, match=text):
        run(name, step=broken(change))


def test_a_vocabulary_of_unknown_size_is_refused():
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None])])
    def search(table):
        def step(ids, state, memory):
            return tf.gather(table, ids), state, tf.zeros((tf.shape(ids)[0], 1))

        return beam_search(step, {}, tf.zeros((2, 1)), max_length=3)

    with pytest.raises(ValueError, match="logits with a static vocabulary size"):
        search(tf.zeros((5, 5)))


@pytest.mark.parametrize(
    "ids, text",
    [
        ([[4, 7, 3]] * 3, r"ids from 0 to 6.*Received: target_ids\[0, 1\]=7"),
        ([[4, 5, 3], [4, 3, 0], [-1, 3, 0]], r"Received: target_ids\[2, 0\]=-1"),
        ([[4, 3]], r"one entry for each of the 3 batch elements.*target_ids.shape=\(1, 2\)"),
        ([4, 5, 3], r"`target_ids` of rank 2. Received: target_ids.shape=\(3,\)"),
        ([[4.0, 3.0]] * 3, r"`target_ids` to be int ids"),
        (np.zeros((3, 0), "int32"), r"at least one column.*target_ids.shape=\(3, 0\)"),
    ],
)
def test_score_sequences_refuses_wrong_ids(ids, text):
    with pytest.raises(ValueError, match=f"score_sequences expects.*{text}"):
        score_sequences(MODEL.step, MODEL.state(), MODEL.memory(), np.array(ids))
