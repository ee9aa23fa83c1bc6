"""Scorers against numbers worked out by hand in float64, and against each other."""

import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention import (
    AdditiveScorer,
    Attention,
    BilinearScorer,
    ConcatScorer,
    CosineScorer,
    DotScorer,
    GeneralScorer,
    LocationScorer,
    LowRankBilinearScorer,
    MLPScorer,
    ScaledDotScorer,
    UniformScorer,
)

QUERY = np.array([[[1.0, 0.0, 2.0]]])
KEYS = np.array([[[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [2.0, 0.0, -1.0]]])
VALUES = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
KEY_MATRIX = np.array([[0.5, 0.0, 0.1], [0.0, -0.2, 0.3]])
QUERY_MATRIX = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, -0.4]])
VECTOR = np.array([[1.0], [-1.0]])
SQUARE = np.array([[0.2, 0.0, 0.1], [0.0, 0.3, 0.0], [-0.1, 0.0, 0.4]])
LOW_KEY = np.array([[1.0, 0.0, 0.5], [0.0, -1.0, 0.0]])
LOW_QUERY = np.array([[0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])

# name: scorer, weights in the order of `scorer.weights`, scores, weights, context
WORKED = {
    "dot": (
        DotScorer,
        {},
        [],
        [1, 2, 0],
        [0.244728, 0.665241, 0.090031],
        [0.334759, 0.755272],
    ),
    "scaled_dot": (
        ScaledDotScorer,
        {},
        [],
        [0.577350, 1.154701, 0],
        [0.299160, 0.532897, 0.167943],
        [0.467103, 0.700840],
    ),
    "cosine": (
        CosineScorer,
        {},
        [],
        [0.2, 0.632456, 0],
        [0.297640, 0.458674, 0.243687],
        [0.541326, 0.702360],
    ),
    "additive": (
        AdditiveScorer,
        {"units": 2, "use_bias": False},
        [QUERY_MATRIX.T, KEY_MATRIX.T, VECTOR],
        [1.370704, 0.801743, 1.562093],
        [0.360095, 0.203855, 0.436050],
        [0.796145, 0.639905],
    ),
    "concat": (
        ConcatScorer,
        {"units": 2},
        [np.concatenate([QUERY_MATRIX, KEY_MATRIX], axis=1).T, VECTOR],
        [1.370704, 0.801743, 1.562093],
        [0.360095, 0.203855, 0.436050],
        [0.796145, 0.639905],
    ),
    "mlp": (
        MLPScorer,
        {"units": 2},
        [np.concatenate([QUERY_MATRIX, KEY_MATRIX], axis=1).T, np.zeros(2), VECTOR, np.zeros(1)],
        [1.370704, 0.801743, 1.562093],
        [0.360095, 0.203855, 0.436050],
        [0.796145, 0.639905],
    ),
    "general": (
        GeneralScorer,
        {},
        [SQUARE],
        [0, 0.9, -0.9],
        [0.258654, 0.636186, 0.105161],
        [0.363814, 0.741346],
    ),
    "bilinear": (
        BilinearScorer,
        {},
        [SQUARE],
        [0.4, 0.7, 0.1],
        [0.323554, 0.436752, 0.239694],
        [0.563248, 0.676446],
    ),
    "low_rank": (
        LowRankBilinearScorer,
        {"rank": 2},
        [LOW_QUERY.T, LOW_KEY.T],
        [-3.5, -1.75, 0.75],
        [0.013011, 0.074871, 0.912118],
        [0.925129, 0.986989],
    ),
}


@pytest.fixture(params=WORKED)
def case(request):
    scorer_class, arguments, weights, *numbers = WORKED[request.param]
    scorer = scorer_class(**arguments, dtype="float64")
    scorer.build(QUERY.shape, KEYS.shape)
    scorer.set_weights(weights)
    return scorer, *numbers


def test_scores_weights_and_context_are_those_worked_by_hand(case):
    scorer, scores, weights, context = case
    np.testing.assert_allclose(np.array(scorer(QUERY, KEYS))[0, 0], scores, atol=1e-6)
    attention = Attention(scorer, dtype="float64")
    read, attended = attention(QUERY, VALUES, KEYS, return_attention_scores=True)
    np.testing.assert_allclose(np.array(attended)[0, 0], weights, atol=1e-6)
    np.testing.assert_allclose(np.array(read)[0, 0], context, atol=1e-6)


def test_content_scores_sharpen_the_cosine_by_the_strength():
    scorer = CosineScorer(dtype="float64")
    scores = np.array(scorer(QUERY, KEYS, strength=np.array([[2.0]])))[0, 0]
    np.testing.assert_allclose(scores, [0.4, 1.264911, 0], atol=1e-6)
    step = np.array(scorer(QUERY[:, 0], KEYS, strength=np.array([2.0])))[0]
    np.testing.assert_allclose(step, scores, atol=1e-12)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (3, [0.400547, 0.198906, 0.400547]),
        (4, [0.259980, 0.129102, 0.259980, 0.350937]),
        (6, [0.259980, 0.129102, 0.259980, 0.350937, 0.0, 0.0]),
    ],
)
def test_location_scores_use_the_rows_there_are_and_no_more(source, expected):
    rows = np.array([[0.1, 0, 0.2], [0, 0.3, -0.1], [0.5, 0, 0], [0, 0, 0.4]])
    scorer = LocationScorer(max_length=4, dtype="float64")
    scorer.build((1, 1, 3), (1, source, 5))
    scorer.set_weights([rows.T])
    attention = Attention(scorer, dtype="float64")
    _, weights = attention(QUERY, np.ones((1, source, 5)), return_attention_scores=True)
    np.testing.assert_allclose(np.array(weights)[0, 0], expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax", "argmax"])
def test_positions_out_of_reach_have_no_weight_even_if_all_others_are_masked(dtype, normalizer):
    attention = Attention(LocationScorer(max_length=2), normalizer, dtype=dtype)
    mask = np.array([[False, False, True, True, True], [False, True, True, False, True]])
    _, weights = attention(
        np.ones((2, 3, 4)), np.ones((2, 5, 7)), value_mask=mask, return_attention_scores=True
    )
    expected = np.zeros((2, 3, 5))
    expected[1, :, 1] = 1
    found = np.array(weights, "float32")
    np.testing.assert_allclose(found, expected, atol=2e-7)
    assert np.all(found[expected == 0] == 0)


def test_uniform_scores_read_the_mean_of_the_kept_values():
    attention = Attention(UniformScorer(dtype="float64"), dtype="float64")
    context = attention(QUERY, VALUES, value_mask=np.array([[True, False, True]]))
    np.testing.assert_allclose(np.array(context)[0, 0], [1.0, 0.5], atol=1e-12)


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


SCORERS = [
    CosineScorer(),
    AdditiveScorer(units=11),
    ConcatScorer(),
    GeneralScorer(),
    BilinearScorer(),
    LowRankBilinearScorer(rank=2),
    LocationScorer(max_length=13),
    MLPScorer(units=[11, 5], activation="relu"),
    ScaledDotScorer(),
]


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_prepared_and_single_step_scores_equal_the_call(scorer):
    query, key = _random(2, 3, 7), _random(2, 5, 7)
    scores = np.array(scorer(query, key))
    assert scores.shape == (2, 3, 5)
    prepared = scorer.prepare(key)
    np.testing.assert_allclose(np.array(scorer.score(query, prepared)), scores, rtol=1e-6)
    np.testing.assert_allclose(np.array(scorer(query[:, 1], key)), scores[:, 1], atol=1e-6)


def test_two_kernels_from_one_initializer_differ():
    scorer = AdditiveScorer(units=4, kernel_initializer="glorot_uniform")
    scorer.build((None, None, 4), (None, None, 4))
    assert not np.allclose(np.array(scorer.query_kernel), np.array(scorer.key_kernel))


def test_a_zero_row_has_cosine_zero_and_a_finite_gradient():
    key = tf.zeros((1, 2, 3))
    scorer = CosineScorer()

    @tf.function(jit_compile=True)
    def gradient(key):
        with tf.GradientTape() as tape:
            tape.watch(key)
            scores = scorer(tf.constant(QUERY, tf.float32), key)
        return scores, tape.gradient(scores, key)

    scores, found = gradient(key)
    assert np.all(scores.numpy() == 0)
    assert np.all(np.isfinite(found.numpy()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdditiveScorer(units=0), "AdditiveScorer.*`units`.*positive int.*units=0"),
        (lambda: AdditiveScorer(units=2.5), "units=2.5"),
        (lambda: ConcatScorer(units=-1), "None uses the width of the query.*units=-1"),
        (lambda: LowRankBilinearScorer(rank=0), "`rank`.*positive int.*rank=0"),
        (lambda: LocationScorer(max_length=0), "`max_length`.*max_length=0"),
        (lambda: MLPScorer(units=[]), "at least one hidden layer.*units=\\[\\]"),
        (lambda: MLPScorer(units=[3, 0]), "units=0"),
        (lambda: DotScorer()(_random(2, 3, 5), _random(2, 7, 4)), "of equal width.*GeneralScorer"),
        (lambda: GeneralScorer()(_random(2, 3, 5, 1), _random(2, 7, 4)), "`query` of shape"),
        (lambda: GeneralScorer()(_random(2, 3, 5), _random(2, 7)), "`key` of shape"),
        (lambda: GeneralScorer()(_random(2, 3, 5), _random(3, 7, 4)), "same size on axis 0"),
        (lambda: LowRankBilinearScorer(9)(_random(2, 3, 5), _random(2, 7, 4)), "smaller width"),
        (lambda: GeneralScorer().prepare(_random(2, 7, 4)), "no weights yet"),
    ],
)
def test_bad_arguments_say_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_built_scorer_names_the_widths_it_was_built_for():
    scorer = GeneralScorer()
    scorer(_random(2, 3, 5), _random(2, 7, 4))
    with pytest.raises(ValueError, match=r"built for `query` and `key` of widths \(5, 4\)"):
        scorer(_random(2, 3, 6), _random(2, 7, 4))


def test_prepare_refuses_symbolic_tensors():
    import keras

    scorer = GeneralScorer()
    scorer.build((None, None, 5), (None, None, 4))
    with pytest.raises(ValueError, match="symbolic tensors"):
        scorer.prepare(keras.Input((7, 4)))
