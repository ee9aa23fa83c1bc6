"""Embedding, scale and positions in one; and one table shared between two parts of a model."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf
from transformer_reference import positions

from keras_attention import TransformerDecoder, TransformerEmbedding

B, T, V, D = 3, 5, 13, 10
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])


def test_embeddings_are_scaled_and_positions_added():
    layer = TransformerEmbedding(V, D, dropout=0.0, dtype="float64")
    outputs = layer(IDS)
    expected = np.sqrt(D) * np.array(layer.table.embeddings)[IDS] + positions(T, D)
    np.testing.assert_allclose(outputs, expected, atol=1e-12)
    steps = [layer(IDS[:, t], np.full(B, t, "int32")) for t in range(T)]
    np.testing.assert_allclose(np.stack(steps, axis=1), expected, atol=1e-12)


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_positions_of_attention_add_nothing(positions):
    layer = TransformerEmbedding(V, D, positions, dropout=0.0, dtype="float64")
    expected = np.sqrt(D) * np.array(layer(IDS)) / np.sqrt(D)
    np.testing.assert_allclose(expected, np.sqrt(D) * np.array(layer.table.embeddings)[IDS])


@pytest.mark.parametrize("mask_zero", [True, False])
def test_padding_is_masked_where_asked(mask_zero):
    symbol = TransformerEmbedding(V, D, mask_zero=mask_zero)(keras.Input([None], dtype="int32"))
    mask = TransformerEmbedding(V, D, mask_zero=mask_zero).compute_mask(IDS)
    assert (getattr(symbol, "_keras_mask", None) is not None) == mask_zero
    assert np.array_equal(mask, IDS != 0) if mask_zero else mask is None


def test_a_drawn_vector_has_a_length_of_about_one():
    layer = TransformerEmbedding(4001, 50)
    layer.build((None, None))
    lengths = np.linalg.norm(np.array(layer.table.embeddings), axis=1)
    assert 0.95 < lengths.mean() < 1.05


def _share_table(table):
    """Returns a model with one table inside of a nested model and in the decoder."""
    source = keras.Input([None], dtype="int32")
    embedded = TransformerEmbedding(V, D, dropout=0.0, embedding=table, name="embed")(source)
    encoder = keras.Model(source, embedded, name="encoder")
    decoder = TransformerDecoder(V, D, 1, 5, 11, 0.0, embedding=table, name="decoder")
    source, target = keras.Input([None], dtype="int32"), keras.Input([None], dtype="int32")
    return keras.Model([source, target], decoder(target, encoder(source)))


@pytest.mark.thorough
def test_a_shared_table_is_one_variable_before_and_after_a_file(tmp_path):
    model = _share_table(keras.layers.Embedding(V, D))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one in (model, again):
        tables = [w for w in one.trainable_weights if w.shape == (V, D)]
        assert len(tables) == 1
        sides = one.get_layer("encoder").get_layer("embed"), one.get_layer("decoder")
        assert all(side.embedding.embeddings is tables[0] for side in sides)
    data = [IDS, IDS[:, ::-1].copy()]
    np.testing.assert_array_equal(again(data), model(data))
    before = np.array(again.get_layer("encoder")(IDS))
    again.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    again.train_on_batch(data, IDS)
    assert np.abs(np.array(again.get_layer("encoder")(IDS)) - before).max() > 1e-4
    again.save(tmp_path / "again.keras")
    third = keras.saving.load_model(tmp_path / "again.keras")
    np.testing.assert_array_equal(third(data), again(data))


def test_tables_that_are_not_shared_stay_apart(tmp_path):
    model = _share_table(None)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len([w for w in again.trainable_weights if w.shape == (V, D)]) == 2
    data = [IDS, IDS]
    np.testing.assert_array_equal(again(data), model(data))


def test_both_sides_give_the_shared_table_its_gradient():
    model = _share_table(keras.layers.Embedding(V, D))
    table = next(w for w in model.trainable_weights if w.shape == (V, D))
    source, target = np.full((1, 2), 7), np.full((1, 2), 9)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model([source, target])[..., :3] ** 2)
    gradient = np.array(tf.convert_to_tensor(tape.gradient(loss, table.value)))
    moved = np.flatnonzero(np.abs(gradient).max(axis=1))
    assert moved.tolist() == [0, 1, 2, 7, 9]  # the logits, the source, the target


@pytest.mark.parametrize(
    "make", [TransformerEmbedding, lambda *sizes: TransformerDecoder(*sizes, 1, num_heads=1)]
)
def test_sines_and_cosines_are_refused_an_odd_width(make):
    with pytest.raises(ValueError, match=r"an even `dim` for `positions='sinusoidal'`.*dim=7"):
        make(V, 7)
    TransformerEmbedding(V, 7, positions="learned")
