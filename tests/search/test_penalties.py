import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.search import (
    AverageLengthPenalty,
    BeamOptions,
    CoveragePenalty,
    GNMTLengthPenalty,
)
from keras_attention.search._ranking import Ranking

LOG_PROBS = np.array([[-1.5, -3.25], [-0.5, -7.0]], "float32")
LENGTHS = np.array([[1, 10], [4, 7]], "int32")


def test_gnmt_penalty_of_the_worked_number():
    # SPEC 23: alpha .6, length 10 divides by 1.732862.
    score = GNMTLengthPenalty(0.6)(ops.array([[-1.0]]), ops.array([[10]]))
    np.testing.assert_allclose(score, [[-1.0 / 1.732862]], rtol=1e-6)


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 2.0])
def test_gnmt_penalty_is_its_formula(alpha):
    scores = GNMTLengthPenalty(alpha)(ops.array(LOG_PROBS), ops.array(LENGTHS))
    np.testing.assert_allclose(scores, LOG_PROBS / ((5.0 + LENGTHS) / 6.0) ** alpha, rtol=1e-6)


def test_numbers_of_numpy_are_numbers():
    assert json.dumps(GNMTLengthPenalty(np.float32(0.5)).get_config()) == '{"alpha": 0.5}'
    assert json.dumps(CoveragePenalty(np.float32(0.25)).get_config()) == '{"beta": 0.25}'


def test_average_penalty_is_the_mean():
    scores = AverageLengthPenalty()(ops.array(LOG_PROBS), ops.array(LENGTHS))
    np.testing.assert_allclose(scores, LOG_PROBS / LENGTHS, rtol=1e-6)


@pytest.mark.parametrize(
    "penalty", [AverageLengthPenalty(), *(GNMTLengthPenalty(a) for a in (-2.0, 0.0, 0.6, 1.7))]
)
def test_no_continuation_beats_the_bound(penalty):
    draw = np.random.default_rng(0)
    now = -draw.gamma(2.0, size=(3, 5)).astype("float32")
    upper_bound = ops.convert_to_numpy(
        penalty.upper_bound(ops.array(now), 4, ops.array([[9], [4], [6]]))
    )
    reached = []
    for length in range(4, 10):
        within = np.array([9, 4, 6]) >= length
        for loss in (0.0, 0.01, 2.0):
            scores = ops.convert_to_numpy(penalty(ops.array(now - loss), length))
            assert (scores[within] <= upper_bound[within]).all()
            reached.append(np.where(within[:, None], scores, -np.inf))
    np.testing.assert_allclose(
        np.max(reached, axis=0), upper_bound, rtol=1e-6
    )  # and it is the least


def test_coverage_penalty_is_its_formula():
    coverage = np.array([[[0.5, 1.7, 0.25], [1.0, 1.0, 1.0]]], "float32")
    penalties = CoveragePenalty(0.3)(ops.array(coverage))
    np.testing.assert_allclose(penalties, [[0.3 * np.log(0.5 * 0.25), 0.0]], rtol=1e-6)


def test_coverage_of_padding_does_not_count_and_of_skipped_words_does():
    coverage = ops.array([[[0.5, 0.0, 0.0]]])
    np.testing.assert_allclose(CoveragePenalty(1.0)(coverage), [[np.log(0.5)]], rtol=1e-6)
    mask = ops.array([[True, True, False]])
    masked = CoveragePenalty(1.0)(coverage, mask)
    np.testing.assert_allclose(masked, [[np.log(0.5) + np.log(1e-9)]], rtol=1e-6)


@pytest.mark.parametrize(
    "penalty", [GNMTLengthPenalty(1.2), AverageLengthPenalty(), CoveragePenalty(0.4)]
)
def test_configuration_round_trip(penalty):
    config = keras.saving.serialize_keras_object(penalty)
    assert config["registered_name"] == f"keras_attention>{type(penalty).__name__}"
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(penalty) and again.get_config() == penalty.get_config()


@pytest.mark.parametrize("alpha", [11, "0.6", None, float("nan"), True])
def test_alpha_must_be_a_number_in_range(alpha):
    with pytest.raises(ValueError, match=r"`alpha` to be a number in \[-10, 10\]. Received: alpha"):
        GNMTLengthPenalty(alpha)


@pytest.mark.parametrize("beta", [-0.1, float("inf")])
def test_beta_must_not_be_negative_or_infinite(beta):
    with pytest.raises(ValueError, match=rf"`beta` to be a number in \[0, inf\).*beta={beta}"):
        CoveragePenalty(beta)


def test_a_number_is_the_factor_of_a_penalty():
    assert BeamOptions(coverage_penalty=0.2).coverage_penalty.get_config() == {"beta": 0.2}
    for length_penalty in (0.6, np.float32(0.6), 1):
        found, expected = (
            Ranking("test", penalty, None, 1).length_penalty(ops.array([[-3.0]]), ops.array([[7]]))
            for penalty in (length_penalty, GNMTLengthPenalty(length_penalty))
        )
        assert float(found[0, 0]) == float(expected[0, 0]) != -3.0
