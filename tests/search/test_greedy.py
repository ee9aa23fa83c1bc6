import functools

import numpy as np
import pytest
from keras import ops
from search_models import END, HashModel, TableModel
from search_runs import run
from tf_or_skip import tf

from keras_attention.search import greedy_search, sample_search, score_sequences


def search(model, **options):
    return run(greedy_search, model, **options)


def by_hand(model, row, max_length, min_length=0):
    """Returns the ids and the log-probability that the rule gives, token by token."""
    ids, total = [], 0.0
    while len(ids) < max_length and END not in ids:
        log_probs, _ = model.reference(row, ids)
        permitted = log_probs.copy()
        permitted[[0, 2]] = -np.inf
        if len(ids) + 1 < min_length:
            permitted[END] = -np.inf
        ids.append(int(permitted.argmax()))
        total += log_probs[ids[-1]]
    return ids, total


@pytest.mark.parametrize("end_bias", [-9.0, 0.0, 2.0])
@pytest.mark.parametrize("min_length", [0, 3])
def test_greedy_takes_the_likeliest_token_of_each_step(end_bias, min_length):
    model = HashModel(seed=31, batch=5, vocabulary=11, end_bias=end_bias)
    model.logits[:, [0, 2]] += 3.0  # liked best, and never produced
    result = search(model, max_length=7, min_length=min_length)
    for row in range(5):
        ids, log_prob = by_hand(model, row, 7, min_length)
        assert result["ids"][row].tolist() == ids + [0] * (7 - len(ids))
        assert result["lengths"][row] == len(ids)
        np.testing.assert_allclose(result["log_probs"][row], log_prob, rtol=1e-5, atol=1e-5)


def test_log_probs_and_alignments_are_those_of_the_ids():
    model = HashModel(seed=32, batch=5, vocabulary=11, end_bias=1.5)
    result = search(model, max_length=6)
    scored = score_sequences(
        model.step, model.state(), model.memory(), ops.convert_to_tensor(result["ids"])
    )
    assert len(set(result["lengths"])) > 1
    for name in ("log_probs", "lengths", "alignments"):
        np.testing.assert_allclose(result[name], scored[name], rtol=1e-6, atol=1e-6)


def test_each_row_stops_at_its_own_limit_and_alone_is_as_in_a_batch():
    model = HashModel(seed=33, batch=4, vocabulary=9, end_bias=-1.0)
    limits = [5, 1, 3, 4]
    result = search(model, max_length=6, max_lengths=np.array(limits))
    for row, limit in enumerate(limits):
        alone = search(model.rows([row]), max_length=limit)
        np.testing.assert_array_equal(result["ids"][row, :limit], alone["ids"][0])
        np.testing.assert_allclose(result["log_probs"][row], alone["log_probs"][0], rtol=1e-6)
        assert (result["ids"][row, limit:] == 0).all()
        assert (result["alignments"][row, limit:] == 0).all()


SAMPLE = functools.partial(sample_search, seed=np.array([7, 8]))


@pytest.mark.parametrize("function", [greedy_search, SAMPLE], ids=["greedy", "sample"])
def test_a_search_stops_when_every_row_has_ended(function):
    tables = np.full((2, 6, 6), -1e9)
    tables[0, :, END], tables[1, 2, 4], tables[1, 4, END] = 0.0, 0.0, 0.0
    model, calls = TableModel(tables), []

    def step(ids, state, memory):
        calls.append(1)
        return model.step(ids, state, memory)

    result = function(step, {}, model.memory(), max_length=50)
    assert len(calls) == 2
    np.testing.assert_array_equal(result["lengths"], [1, 2])
    assert not np.any(ops.convert_to_numpy(result["ids"])[:, 2:])


def test_eager_graph_and_xla_agree_with_unknown_batch():
    model = HashModel(seed=34, batch=5, vocabulary=53, end_bias=2.0)

    def run(offsets):
        zeros = tf.zeros_like(offsets)
        floats = tf.zeros((tf.shape(offsets)[0], 2, 3))
        state = {"hash": zeros, "nested": [{"position": zeros}, (floats,)]}
        return greedy_search(model.step, state, {"offsets": offsets}, max_length=6)

    signature = [tf.TensorSpec([None], tf.int32)]
    graph = tf.function(run, signature, autograph=False)
    compiled = tf.function(run, signature, autograph=False, jit_compile=True)
    for rows in (5, 2):
        offsets = tf.constant(model.offsets[:rows])
        eager = run(offsets)
        for other in (graph(offsets), *([compiled(offsets)] if rows == 5 else [])):
            np.testing.assert_array_equal(eager["ids"], other["ids"])
            np.testing.assert_allclose(eager["log_probs"], other["log_probs"], rtol=1e-5)
            np.testing.assert_allclose(eager["alignments"], other["alignments"], atol=1e-6)
    assert graph(tf.zeros([0], tf.int32))["ids"].shape == (0, 6)


def test_nan_and_minus_infinity_stay_out_of_the_result():
    tables = np.full((2, 7, 7), -np.inf)
    tables[0] = np.nan
    tables[1, :, 5] = 0.0
    result = search(TableModel(tables), max_length=3)
    assert all(np.isfinite(value).all() for value in result.values())
    assert result["ids"][1].tolist() == [5, 5, 5]
    assert result["log_probs"][1] == 0.0
