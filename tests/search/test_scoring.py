import numpy as np
import pytest
from keras import ops
from search_models import END, HashModel
from search_runs import build_arguments
from tf_or_skip import tf

from keras_attention.search import check_beam_search, score_sequences

IDS = np.array(
    [
        [4, 6, 1, 5, 6],  # no EOS token
        [5, END, 0, 0, 0],
        [END, 0, 0, 0, 0],
        [4, 4, END, 6, 5],  # junk after the EOS token
        [6, 0, 4, END, 0],  # junk after padding
    ]
)
LENGTHS = [5, 2, 1, 3, 1]


def score(model, ids, **options):
    ids = ops.convert_to_tensor(ids)
    result = score_sequences(
        model.step, model.state(), model.memory(), ids, **build_arguments(**options)
    )
    return {name: ops.convert_to_numpy(value) for name, value in result.items()}


def test_scores_are_sums_over_the_tokens_up_to_the_end():
    model = HashModel(seed=41, batch=5, vocabulary=7)
    result = score(model, IDS)
    np.testing.assert_array_equal(result["lengths"], LENGTHS)
    for row, length in enumerate(LENGTHS):
        expected = np.zeros(5)
        alignment = np.zeros((5, 3))
        for time in range(length):
            log_probs, alignment[time] = model.reference(row, IDS[row, :time].tolist())
            expected[time] = log_probs[IDS[row, time]]
        np.testing.assert_allclose(result["token_log_probs"][row], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(result["log_probs"][row], expected.sum(), rtol=1e-5)
        np.testing.assert_allclose(result["alignments"][row], alignment, atol=1e-6)


def test_probabilities_of_all_sequences_sum_to_one():
    # With two other tokens and the EOS token, those that end or fill three places are everything.
    model = HashModel(seed=42, batch=1, vocabulary=6)
    model.logits[:, [0, 2, 5]] = -1e9
    sequences = [[END, 0, 0]]
    sequences += [[a, END, 0] for a in (1, 4)]
    sequences += [[a, b, c] for a in (1, 4) for b in (1, 4) for c in (1, 3, 4)]
    result = score(model.rows([0] * len(sequences)), np.array(sequences))
    np.testing.assert_allclose(np.exp(result["log_probs"]).sum(), 1.0, rtol=1e-5)


def test_junk_and_padding_columns_change_nothing():
    model = HashModel(seed=43, batch=5, vocabulary=7)
    plain = score(model, IDS)
    clean = np.where(np.arange(5) < np.array(LENGTHS)[:, None], IDS, 0)
    wider = score(model, np.pad(clean, ((0, 0), (0, 3))))
    np.testing.assert_array_equal(plain["log_probs"], wider["log_probs"])
    np.testing.assert_array_equal(plain["alignments"], wider["alignments"][:, :5])
    assert (wider["alignments"][:, 5:] == 0).all()


@pytest.mark.thorough
def test_eager_graph_and_xla_agree_with_unknown_sizes():
    model = HashModel(seed=44, batch=5, vocabulary=7)

    def run(offsets, ids):
        zeros = tf.zeros_like(offsets)
        floats = tf.zeros((tf.shape(offsets)[0], 2, 3))
        state = {"hash": zeros, "nested": [{"position": zeros}, (floats,)]}
        return score_sequences(model.step, state, {"offsets": offsets}, ids)

    signature = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None], tf.int32)]
    graph = tf.function(run, signature, autograph=False)
    compiled = tf.function(run, signature, autograph=False, jit_compile=True)
    for rows, length in ((5, 5), (2, 3)):
        arguments = tf.constant(model.offsets[:rows]), tf.constant(IDS[:rows, :length], tf.int32)
        eager = run(*arguments)
        for other in (graph(*arguments), *([compiled(*arguments)] if rows == 5 else [])):
            for name, value in eager.items():
                np.testing.assert_allclose(value, other[name], rtol=1e-5, atol=1e-6)


def test_ids_outside_the_vocabulary_are_impossible_inside_a_graph():
    model = HashModel(seed=45, batch=3, vocabulary=7)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(ids):
        return score_sequences(model.step, model.state(), model.memory(), ids)

    result = run(tf.constant([[4, 99, 3], [4, 5, 3], [-4, 3, 0]]))
    assert result["token_log_probs"][0, 1] == -1e9 and result["log_probs"][0] == -1e9
    assert result["token_log_probs"][2, 0] == -1e9
    expected = score(model.rows([1]), np.array([[4, 5, 3]]))
    np.testing.assert_allclose(result["log_probs"][1], expected["log_probs"][0], rtol=1e-6)


def test_a_token_without_probability_scores_finitely():
    model = HashModel(seed=46, batch=2, vocabulary=7)
    model.logits[:, 5] = -np.inf
    result = score(model, np.array([[4, 5, 5, END], [4, 6, END, 0]]))
    assert (result["token_log_probs"][0, 1:3] == -1e9).all() and result["log_probs"][0] == -1e9
    assert all(np.isfinite(value).all() for value in result.values())
    assert result["log_probs"][1] > -50.0


@pytest.mark.thorough
@pytest.mark.parametrize("offset", [300.0, 1e4, -1e4])
def test_an_offset_that_all_logits_share_costs_no_digits(offset):
    # 1/64 steps: the float32 logits are exact whatever the offset.
    table = np.random.default_rng(0).integers(-128, 128, size=(9, 9)) / 64

    def step(ids, state, memory):
        logits = ops.convert_to_tensor((table + offset).astype("float32"))
        return ops.take(logits, ids, axis=0), state, ops.zeros((ids.shape[0], 1))

    ids = np.array([[5, 7, 4, 8, 6, 1, 4, 5, 8, 3]])
    result = score_sequences(step, {}, np.zeros((1, 1), "float32"), ids)
    exact = table - np.log(np.exp(table).sum(axis=1, keepdims=True))
    before = [2, *ids[0, :-1]]
    expected = exact[before, ids[0]]
    np.testing.assert_allclose(result["token_log_probs"][0], expected, rtol=0, atol=2e-6)
    check_beam_search(step, {"a": ops.zeros((2, 1))}, ops.zeros((2, 1)), max_length=4)
