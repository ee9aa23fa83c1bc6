"""RNNsearch with several sources: which encoder reads what, missing sources, steps."""

import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples.models import multi_source, rnnsearch
from examples.models.encoders.several_sources import HideSource
from keras_attention.decoders import check_decoder

# 4 separates the sources. The second text has no second source, the third two separators.
SOURCE = np.array([[5, 7, 4, 6, 8, 3, 0], [9, 7, 3, 0, 0, 0, 0], [6, 4, 8, 10, 4, 5, 3]], "int32")
TARGET = np.array([[2, 5, 6, 4, 0], [2, 4, 0, 0, 0], [2, 7, 4, 4, 9]], "int32")
FIRST = [3, 3, 2]  # positions of the first source
UNITS = 5
COMBINATIONS = pytest.mark.parametrize("combination", ["flat", "hierarchical"])


def build(combination="flat", **options):
    set_seed(3)
    options = {"units": UNITS, "embedding_dim": 3, "seed": 3, **options}
    return multi_source.build(11, 13, combination=combination, **options)


@COMBINATIONS
def test_padding_changes_no_logit_and_steps_equal_the_full_call(combination):
    model = build(combination, sentinel=True)
    logits = np.array(model({"source": SOURCE, "target": TARGET}))
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(model({"source": wide, "target": TARGET}), logits, atol=1e-5)
    encoded, mask = model.get_layer("encoder")(SOURCE), tf.constant(SOURCE != 0)
    decoder, state = model.get_layer("decoder"), encoded["initial_state"]
    assert check_decoder(decoder, TARGET, encoded["memory"], mask, state) < 1e-5


def test_each_encoder_reads_its_own_source():
    encoder = build().get_layer("encoder")
    memory = np.array(encoder(SOURCE)["memory"])
    width = 2 * UNITS
    assert memory.shape == (3, 7, 2 * width + 2)
    for row, ids, first in zip(memory, SOURCE, FIRST, strict=True):
        places = np.arange(7)
        own = [places < first, (places >= first) & (ids != 0)]
        np.testing.assert_array_equal(row[:, -2:], np.transpose(own))
        for index, valid in enumerate(own):
            vectors = row[:, index * width : (index + 1) * width]
            np.testing.assert_array_equal(np.any(vectors != 0, axis=-1), valid)
    changed = SOURCE.copy()
    changed[0, 3] = 10
    found = np.array(encoder(changed)["memory"])
    np.testing.assert_array_equal(found[0, :3], memory[0, :3])
    assert np.all(np.any(found[0, 3:6] != memory[0, 3:6], axis=-1))


def test_an_encoder_of_a_source_is_that_of_rnnsearch():
    model, other = build(), rnnsearch.build(11, 13, UNITS, 3).get_layer("encoder")
    part = model.get_layer("encoder").get_layer("encoder_1")
    other.set_weights(part.get_weights())
    memory = model.get_layer("encoder")(SOURCE)["memory"]
    expected = other(SOURCE[:1, 3:6])["memory"]
    np.testing.assert_allclose(memory[:1, 3:6, 2 * UNITS : 4 * UNITS], expected, atol=1e-6)


@COMBINATIONS
def test_a_source_that_is_missing_has_no_weight(combination):
    model = build(combination)
    encoded = model.get_layer("encoder")(SOURCE[1:2])
    weights = model.get_layer("decoder")(
        TARGET[1:2],
        encoded["memory"],
        initial_state=encoded["initial_state"],
        memory_mask=SOURCE[1:2] != 0,
        return_attention_scores=True,
    )[1]
    np.testing.assert_allclose(np.sum(np.array(weights)[:, :, :3], axis=-1), 1, atol=1e-6)
    assert np.all(np.isfinite(model({"source": SOURCE, "target": TARGET})))


def test_one_source_is_hidden_of_some_examples_in_training_alone():
    ids = tf.ones((3001, 2), "int32")
    layer = HideSource(0.5, seed=3)
    hidden = np.array([part[:, 0] == 0 for part in layer([ids, ids, ids], training=True)])
    np.testing.assert_allclose(hidden.mean(axis=1), 0.5 / 3, atol=0.03)
    assert hidden.sum(axis=0).max() == 1
    again = np.array([part[:, 0] == 0 for part in layer([ids, ids, ids], training=True)])
    assert np.any(again != hidden)
    for part in layer([ids, ids, ids]):
        np.testing.assert_array_equal(part, ids)


@COMBINATIONS
def test_a_hidden_source_changes_the_training_and_nothing_else(combination):
    inputs = {"source": SOURCE, "target": TARGET}
    kept, hiding = build(combination, source_dropout=0.0), build(combination, source_dropout=0.99)
    hiding.set_weights([*kept.get_weights()])
    np.testing.assert_array_equal(hiding(inputs), kept(inputs))
    np.testing.assert_array_equal(kept(inputs, training=True), kept(inputs))
    assert np.all(np.isfinite(hiding(inputs, training=True)))
    assert not np.allclose(hiding(inputs, training=True), kept(inputs))
