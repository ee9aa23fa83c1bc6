"""Learned queries: one set for a batch, and their training by a pooling."""

import keras
import numpy as np
import pytest

from keras_attention import LearnedQueries, MultiQueryPooling


def test_learned_queries_are_one_set_for_every_row():
    learned = LearnedQueries(3, 4)
    queries = np.array(learned(np.zeros((2, 5, 7))))
    assert queries.shape == (2, 3, 4)
    np.testing.assert_array_equal(
        queries, np.broadcast_to(np.array(learned.queries), queries.shape)
    )


@pytest.mark.thorough
def test_learned_queries_train_with_unknown_batch_and_length():
    """Each query has to find its own of two marked positions."""
    keras.utils.set_random_seed(2)
    inputs = keras.Input((None, 4))
    queries = LearnedQueries(2, 4)(inputs)
    outputs = MultiQueryPooling("scaled_dot")(queries, inputs)
    assert outputs.shape == (None, 8)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.2), "mse", jit_compile=True)
    values = np.random.RandomState(3).randn(64, 6, 4).astype("float32")
    values[:, :, :2] = 0
    values[:, 1, 0] = values[:, 4, 1] = 4
    targets = np.concatenate([values[:, 1], values[:, 4]], axis=-1)
    history = model.fit(values, targets, batch_size=32, epochs=40, verbose=0).history["loss"]
    assert history[-1] < 0.05 * history[0]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((0, 3), "`num_queries`.*num_queries=0"), ((3, 0), "`units`.*units=0")],
)
def test_bad_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        LearnedQueries(*sizes)
