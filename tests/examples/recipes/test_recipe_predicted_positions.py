"""Distances of predicted positions, counted out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from examples.models import luong, rnnsearch
from examples.recipes.predicted_positions import (
    measure_predicted_positions,
    predicts_positions,
)

OPTIONS = dict(units=5, embedding_dim=3, layers=1, window=3, seed=1)


@pytest.fixture(scope="module")
def local():
    return luong.build(11, 13, local_attention="predictive", **OPTIONS)


@pytest.fixture(scope="module")
def batch():
    source = [[5, 6, 7, 8, 9, 10, 3], [4, 5, 3, 0, 0, 0, 0]]
    target = [[2, 5, 6, 7], [2, 9, 0, 0]]
    labels = [[5, 6, 7, 3], [9, 3, 0, 0]]
    inputs = {"source": tf.constant(source), "target": tf.constant(target)}
    return inputs, tf.constant(labels)


@pytest.mark.thorough
def test_only_a_decoder_that_predicts_positions_has_any(local):
    assert predicts_positions(local)
    assert not predicts_positions(luong.build(11, 13, **OPTIONS))
    assert not predicts_positions(luong.build(11, 13, local_attention="monotonic", **OPTIONS))
    assert not predicts_positions(rnnsearch.build(11, 13, 5, 3, 4))
    sampled = luong.build(
        11, 13, local_attention="predictive", scheduled_sampling="constant:0.5", **OPTIONS
    )
    assert predicts_positions(sampled)


def test_distances_are_those_of_real_tokens(local, batch):
    free = luong.build(11, 13, **OPTIONS)
    inputs, labels = batch
    apart = []
    for row, (length, steps) in enumerate(((7, 3), (3, 1))):  # alone, without padding
        source, target = (inputs[side][row : row + 1, :n] for side, n in
                          (("source", length), ("target", steps + 1)))  # fmt: skip
        results = []
        for model, wanted in (
            (local, "return_auxiliary_outputs"),
            (free, "return_attention_scores"),
        ):
            encoded = model.get_layer("encoder")(source)
            decoder = model.get_layer("decoder")
            state = encoded["initial_state"]
            results.append(decoder(target, encoded["memory"], initial_state=state, **{wanted: 1}))
        for step in range(steps):
            predicted = float(results[0][-1]["position"][0, step])
            apart.append(abs(predicted - int(np.argmax(results[1][-1][0, step]))))
    numbers = measure_predicted_positions(local, [(inputs, labels, None)] * 2, free)
    assert numbers["position_distance"] == pytest.approx(np.mean(apart), abs=1e-4)
    assert numbers["position_within_one"] == pytest.approx(np.mean(np.array(apart) <= 1))


def test_a_sampled_decoder_is_measured_as_the_one_it_holds(local, batch):
    sampled = luong.build(
        11, 13, local_attention="predictive", scheduled_sampling="constant:0.5", **OPTIONS
    )
    for one, other in zip(sampled.trainable_weights, local.trainable_weights, strict=True):
        one.assign(other)
    found = measure_predicted_positions(sampled, [batch], sampled)
    expected = measure_predicted_positions(local, [batch], local)
    assert found == pytest.approx(expected, abs=1e-5)
