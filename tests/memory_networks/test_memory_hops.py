"""The memory network: hops by hand for both tyings, padding, noise, linear start, logits."""

import keras
import numpy as np
import pytest
from finite_differences import assert_gradients_are_right
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import MemoryHops, Normalizer, half_relu

V, D, B, M, J = 13, 5, 3, 7, 4
RANDOM = np.random.RandomState(1)
STORY, QUESTION = RANDOM.randint(1, V, size=(B, M, J)), RANDOM.randint(1, V, size=(B, 3))
STORY[1, 4:] = 0  # a story of four sentences
STORY[0, 2, 3:] = 0  # a sentence of three words
STORY[0, 5] = 0  # an empty memory in the middle
STORY[2] = 0  # no story at all
QUESTION[1, 2] = 0


def _reader(**options):
    set_seed(1)
    reader = MemoryHops(V, D, **{"num_hops": 3, "max_memories": 11, "dtype": "float64", **options})
    reader(STORY, QUESTION)
    for index, weight in enumerate(reader.trainable_weights):
        weight.assign(np.random.RandomState(index).randn(*weight.shape))
    return reader


def _sentence(table, words):
    """sum_j l_j * E x_j as printed in section 4.1, J the number of words in the sentence."""
    length = max((j for j, word in enumerate(words, 1) if word), default=1)
    total = np.zeros(D)
    for j, word in enumerate(words, 1):
        if word:
            for k in range(1, D + 1):
                weight = (1 - j / length) - k / D * (1 - 2 * j / length)
                total[k - 1] += weight * table[word, k - 1]
    return total


def _answer(reader, row, linear=False):
    """Follows one story through all hops; returns the state and the weights of each hop."""
    named = {w.name: np.array(w) for w in reader.weights}
    adjacent = reader.weight_tying == "adjacent"
    there = [i for i in range(M) if STORY[row, i].any()]

    def memories(table):
        words, rows = named[f"embeddings_{table}"], named.get(f"temporal_{table}")
        vectors = []
        for age, i in enumerate(reversed(there)):
            vector = _sentence(words, STORY[row, i])
            vectors.append(vector if rows is None else vector + rows[age])
        return np.array(vectors[::-1]).reshape(-1, D)

    asked = named["embeddings_0"] if adjacent else named["question"]
    u, weights = _sentence(asked, QUESTION[row]), np.zeros((reader.num_hops, M))
    for hop in range(reader.num_hops):
        m, c = (memories(hop), memories(hop + 1)) if adjacent else (memories(0), memories(1))
        p = m @ u
        if not linear and there:
            empty = reader.max_memories - len(there) if reader.pad_to_max_memories else 0
            p = np.exp(p) / (np.exp(p).sum() + empty)  # the score of an empty memory is 0
        weights[hop, there] = p
        u = (u if adjacent else named["hop_kernel"].T @ u) + p @ c
    return u, weights


@pytest.mark.parametrize(
    ("max_memories", "pad"), [(11, False), (11, True), (7, True), (None, False)]
)
@pytest.mark.parametrize("weight_tying", ["adjacent", "layer_wise"])
def test_it_is_the_papers_arithmetic(weight_tying, max_memories, pad):
    reader = _reader(weight_tying=weight_tying, max_memories=max_memories, pad_to_max_memories=pad)
    state, weights = reader(STORY, QUESTION, return_attention_scores=True)
    for row in range(B):
        expected, num_hops = _answer(reader, row)
        np.testing.assert_allclose(np.array(state)[row], expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(np.array(weights)[row], num_hops, atol=1e-10)


@pytest.mark.parametrize(
    ("weight_tying", "count"),
    [("adjacent", 4 * (V * D + 11 * D)), ("layer_wise", 3 * V * D + 2 * 11 * D + D * D)],
)
def test_the_number_of_weights_is_the_tyings(weight_tying, count):
    reader = _reader(weight_tying=weight_tying)
    assert sum(np.prod(w.shape) for w in reader.trainable_weights) == count


class OneHot(Normalizer):
    """Puts all weight on the third memory."""

    def normalize(self, scores, mask=None, previous_weights=None, training=None, noise=None):
        return keras.ops.one_hot(keras.ops.full_like(scores[:, 0], 2, "int32"), scores.shape[1])


def test_one_hop_with_one_hot_weights_gives_u_plus_c_exactly():
    reader = _reader(num_hops=1, normalizer=OneHot(dtype="float64"), max_memories=None)
    state = np.array(reader(STORY, QUESTION))
    first, second = (np.array(w) for w in reader.trainable_weights)
    for row in range(2):
        expected = _sentence(first, QUESTION[row]) + _sentence(second, STORY[row, 2])
        np.testing.assert_allclose(state[row], expected, atol=1e-12)


@pytest.mark.parametrize(("encoding", "pad"), [("paper", False), ("paper", True), ("bag", False)])
def test_padding_changes_nothing_wherever_it_stands(encoding, pad):
    reader = _reader(position_encoding=encoding, pad_to_max_memories=pad)
    expected, weights = reader(STORY, QUESTION, return_attention_scores=True)
    longer = np.pad(STORY, ((0, 0), (2, 3), (0, 2)))
    state, moved = reader(longer, np.pad(QUESTION, ((0, 0), (0, 1))), return_attention_scores=True)
    np.testing.assert_allclose(np.array(state), np.array(expected), atol=1e-12)
    np.testing.assert_allclose(np.array(moved)[:, :, 2:-3], np.array(weights), atol=1e-12)
    assert not np.array(moved)[:, :, :2].any() and not np.array(moved)[:, :, -3:].any()


@pytest.mark.parametrize("pad", [False, True])
def test_a_story_without_a_word_leaves_the_question(pad):
    reader = _reader(pad_to_max_memories=pad)
    state = np.array(reader(STORY, QUESTION))[2]
    table = np.array(reader.trainable_weights[0])
    np.testing.assert_allclose(state, _sentence(table, QUESTION[2]), atol=1e-12)


@pytest.mark.parametrize("pad", [False, True])
def test_of_a_longer_story_the_most_recent_sentences_are_read(pad):
    reader = _reader(max_memories=2, pad_to_max_memories=pad)
    state, weights = reader(STORY, QUESTION, return_attention_scores=True)
    assert np.array_equal(
        np.array(weights)[:, 0] > 0, [[0, 0, 0, 0, 1, 0, 1], [0, 0, 1, 1, 0, 0, 0], [0] * 7]
    )
    recent = np.array(STORY)
    recent[0, :4] = recent[1, :2] = 0
    np.testing.assert_allclose(np.array(reader(recent, QUESTION)), np.array(state), atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("weight_tying", ["adjacent", "layer_wise"])
def test_gradients_agree_with_differences(weight_tying):
    reader = _reader(weight_tying=weight_tying, num_hops=2)
    for weight in reader.trainable_weights:
        weight.assign(0.3 * np.array(weight))
    assert_gradients_are_right(lambda: reader(STORY, QUESTION), reader.trainable_weights, samples=3)


def test_the_null_word_has_no_gradient():
    reader = _reader()
    with tf.GradientTape() as tape:
        state, logits = reader(STORY, QUESTION, return_logits=True)
        total = tf.reduce_sum(state) + tf.reduce_sum(logits**2)
    for gradient in tape.gradient(total, reader.trainable_weights[:4]):
        assert np.all(np.array(tf.convert_to_tensor(gradient))[0] == 0)


def test_logits_are_those_of_the_last_table():
    reader = _reader()
    state, logits = reader(STORY, QUESTION, return_logits=True)
    table = np.array(reader.trainable_weights[3])
    expected = np.array(state) @ table.T
    expected[:, 0] = 0
    np.testing.assert_allclose(np.array(logits), expected, rtol=1e-10, atol=1e-10)
    rough = MemoryHops(V, D, dtype="mixed_bfloat16")
    state, logits = rough(STORY, QUESTION, return_logits=True)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (state, logits)]
    assert dtypes == ["bfloat16", "float32"]
    symbols = rough(keras.Input((None, None), dtype="int32"), keras.Input((None,), dtype="int32"))
    assert symbols.shape == (None, D)


@pytest.mark.parametrize("pad", [False, True])
def test_without_the_softmax_the_weights_are_the_scores(pad):
    reader = _reader(linear_start=True, pad_to_max_memories=pad)
    assert reader.is_linear()
    state, weights = reader(STORY, QUESTION, return_attention_scores=True)
    for row in range(2):
        expected, num_hops = _answer(reader, row, linear=True)
        np.testing.assert_allclose(np.array(state)[row], expected, rtol=1e-9)
        np.testing.assert_allclose(np.array(weights)[row], num_hops, rtol=1e-9)


@pytest.mark.parametrize("xla", [False, True])
def test_a_compiled_function_follows_the_switch_without_a_new_trace(xla):
    reader, traces = _reader(), []

    @tf.function(jit_compile=xla)
    def run():
        traces.append(1)
        return reader(tf.constant(STORY, "int32"), tf.constant(QUESTION, "int32"))

    results = []
    for linear in (False, True, False):
        reader.set_linear(linear)
        np.testing.assert_allclose(np.array(run()), np.array(reader(STORY, QUESTION)), rtol=1e-9)
        results.append(np.array(run()))
    assert len(traces) == 1
    assert not np.allclose(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_noise_takes_weight_while_training_only():
    reader = _reader(empty_memory_rate=0.5, seed=3)
    _, weights = reader(STORY, QUESTION, return_attention_scores=True)
    np.testing.assert_allclose(np.array(weights).sum(-1)[:2], 1, atol=1e-12)
    state, weights = reader(STORY, QUESTION, training=True, return_attention_scores=True)
    assert weights.shape == (B, 3, M)
    assert np.all(np.array(weights).sum(-1) < 1 + 1e-12)
    assert np.any(np.array(weights).sum(-1)[:2] < 0.99)
    other = reader(STORY, QUESTION, training=True)
    assert not np.allclose(np.array(state), np.array(other))


def test_noise_leaves_fewer_memories_empty():
    reader = _reader(empty_memory_rate=0.9, seed=3, pad_to_max_memories=True)
    for weight in reader.trainable_weights:
        weight.assign(keras.ops.zeros(weight.shape))  # every score is 0
    _, weights = reader(STORY, QUESTION, training=True, return_attention_scores=True)
    there = STORY.any(-1)
    expected = np.where(there, 1 / 11, 0)[:, None].repeat(3, 1)  # of 11, whatever was inserted
    np.testing.assert_allclose(np.array(weights), expected, atol=1e-12)


def test_a_language_model_asks_with_a_constant_over_single_words():
    reader = MemoryHops(
        V, D, 1, "layer_wise", "bag", max_memories=None, activation=half_relu, dtype="float64"
    )
    words = STORY[:2, :4, 0]
    state, weights = reader(words, return_attention_scores=True)
    assert [w.name for w in reader.trainable_weights] == [
        "embeddings_0",
        "embeddings_1",
        "hop_kernel",
    ]
    a, c, h = (np.array(w) for w in reader.trainable_weights)
    for row in range(2):
        u = np.full(D, 0.1)
        p = np.exp(a[words[row]] @ u)
        p = p / p.sum()
        np.testing.assert_allclose(np.array(weights)[row, 0], p, atol=1e-12)
        u = h.T @ u + p @ c[words[row]]
        u[D // 2 :] = np.maximum(u[D // 2 :], 0)
        np.testing.assert_allclose(np.array(state)[row], u, atol=1e-12)


def test_tables_start_apart():
    reader = MemoryHops(V, D)
    reader(STORY, QUESTION)
    first, second = (np.array(w) for w in reader.trainable_weights[:2])
    assert not np.allclose(first, second)
    assert 0.07 < np.std([first, second]) < 0.13


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: MemoryHops(0, D), "`vocabulary_size`.*vocabulary_size=0"),
        (lambda: MemoryHops(V, D, 0), "`num_hops`.*num_hops=0"),
        (lambda: MemoryHops(V, D, weight_tying="tied"), "'adjacent', 'layer_wise'.*'tied'"),
        (lambda: MemoryHops(V, D, position_encoding="sine"), "'paper', 'centered'"),
        (lambda: MemoryHops(V, D, max_memories=0), "`max_memories`.*max_memories=0"),
        (lambda: MemoryHops(V, D, empty_memory_rate=1.0), r"`empty_memory_rate`.*\[0, 1\)"),
        (
            lambda: MemoryHops(V, D, empty_memory_rate=0.1, max_memories=None),
            "`max_memories` with",
        ),
        (
            lambda: MemoryHops(V, D, pad_to_max_memories=True, max_memories=None),
            "pads stories to `max_memories`.*max_memories=None",
        ),
        (lambda: MemoryHops(V, D).set_linear(True), "needs a built layer"),
        (lambda: MemoryHops(V, D)(STORY[None], QUESTION), "`story_ids` of shape"),
        (lambda: MemoryHops(V, D)(STORY, QUESTION[0]), "`question_ids` of shape"),
        (lambda: MemoryHops(V, D)(STORY, QUESTION[:2]), "same size on axis 0"),
        (lambda: MemoryHops(9, D)(STORY, QUESTION), "`story_ids` between 0 and 8"),
        (
            lambda: MemoryHops(V, D, weight_tying="layer_wise")(
                STORY, QUESTION, return_logits=True
            ),
            "`keras.layers.Dense` to the state",
        ),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()


def test_a_first_call_without_a_question_makes_no_table_for_one():
    reader = MemoryHops(V, D, weight_tying="layer_wise")
    reader(STORY)
    with pytest.raises(ValueError, match="Pass `question_ids` in the first call"):
        reader(STORY, QUESTION)
