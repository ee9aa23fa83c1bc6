"""ConvS2S assembled: its parts, padding, mixed encoders, files, training under XLA."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples import registry
from examples.models import assembly, convs2s
from examples.models.encoders import bidirectional_gru, gated_convolutional
from examples.training.fitting import make_trainer
from keras_attention import BahdanauDecoder, ConvDecoder, TokenCrossentropy
from keras_attention.decoders import check_decoder

SOURCE = np.array([[5, 7, 4, 3, 0, 0], [9, 3, 0, 0, 0, 0], [6, 6, 8, 10, 4, 3]], "int32")
TARGET = np.array([[2, 5, 6, 4, 0], [2, 4, 0, 0, 0], [2, 7, 4, 4, 9]], "int32")
SMALL = {"units": 6, "embedding_dim": 4, "encoder_layers": 2, "decoder_layers": 3}
DEEP = [(6, 3), (6, 5), (10, 3)]


def build(**options):
    set_seed(3)
    return amplify(convs2s.build(11, 13, **{**SMALL, "seed": 3, **options}))


def amplify(model):
    """Returns the model with tables of size 1, so that what is read matters."""
    for weight in model.weights:
        if weight.name in ("embeddings", "table"):
            weight.assign(10 * weight)
    return model


def logits(model, source=SOURCE, target=TARGET):
    return keras.ops.convert_to_numpy(model({"source": source, "target": target}))


def test_a_translator_has_the_agreed_parts():
    model = build()
    assert logits(model).shape == (3, 5, 13)
    encoded = model.get_layer("encoder")(SOURCE)
    assert set(encoded) == {"memory"}
    assert encoded["memory"].shape == (3, 6, 2 * 4)
    np.testing.assert_array_equal(encoded["memory"]._keras_mask, SOURCE != 0)
    assert len(model.get_layer("decoder").get_config()["convolutions"]) == 3


def test_the_memory_holds_the_embeddings_beside_the_outputs():
    encoder = build().get_layer("encoder")
    words, places = (
        encoder.get_layer(name).weights[0] for name in ("source_embedding", "positions")
    )
    expected = np.array(words)[SOURCE] + np.array(places)[None, :6]
    np.testing.assert_allclose(encoder(SOURCE)["memory"][:, :, 4:], expected, atol=1e-6)


@pytest.mark.parametrize("scaling", ["code", "paper"])
def test_padding_and_batch_mates_change_no_logit(scaling):
    model = build(scaling=scaling)
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-5)
    alone = logits(model, SOURCE[1:2, :2], TARGET[1:2, :2])
    np.testing.assert_allclose(alone[0], logits(model)[1, :2], atol=1e-5)


def test_every_word_of_the_source_is_read_and_no_later_word_of_the_target():
    model, other = build(), SOURCE.copy()
    other[:, 0] = 8
    assert np.all(np.any(logits(model, other) != logits(model), axis=-1))
    later = TARGET.copy()
    later[:, 3] = 10
    np.testing.assert_array_equal(logits(model, target=later)[:, :3], logits(model)[:, :3])


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_steps_equal_the_full_call_behind_the_encoder(policy):
    model = build(dtype=policy)
    memory = keras.ops.convert_to_tensor(model.get_layer("encoder")(SOURCE)["memory"])
    check_decoder(model.get_layer("decoder"), TARGET, memory, memory_mask=tf.constant(SOURCE != 0))


def test_the_encoder_goes_before_a_recurrent_decoder():
    encoder = gated_convolutional.build(
        11, 4, DEEP, with_embeddings=False, initial_state_units=5, seed=1
    )
    decoder = BahdanauDecoder(13, 4, 5, name="decoder")
    model = amplify(assembly.translator(encoder, decoder, "mixed"))
    encoded = encoder(SOURCE)
    assert encoded["memory"].shape == (3, 6, 4) and encoded["initial_state"].shape == (3, 5)
    kernel, bias = (np.array(w) for w in encoder.get_layer("initial_state").weights)
    rows = zip(np.array(encoded["memory"]), (SOURCE != 0).sum(axis=1), strict=True)
    means = [row[:length].mean(axis=0) for row, length in rows]
    np.testing.assert_allclose(
        encoded["initial_state"], np.tanh(np.array(means) @ kernel + bias), atol=1e-5
    )
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-5)


def test_the_decoder_goes_behind_a_recurrent_encoder():
    encoder = bidirectional_gru.build(11, 5, 3)  # hands an initial state over, too
    decoder = ConvDecoder(13, 4, DEEP, source_embeddings=False, name="decoder")
    model = amplify(assembly.translator(encoder, decoder, "mixed"))
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-5)


def test_a_file_holds_the_model(tmp_path):
    model = build()
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(reloaded), logits(model))


@pytest.mark.thorough
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_training_lowers_the_loss_on_three_shapes(xla):
    model = build(dropout=0.1, encoder_layers=1, decoder_layers=1)
    optimizer = keras.optimizers.Adam(0.03, global_clipnorm=1.0)
    trainer = make_trainer(model, TokenCrossentropy(), None, optimizer, jit_compile=xla)
    batches = []
    for rows, source, target in [(3, 6, 5), (3, 4, 3), (2, 5, 5)]:
        inputs = {"source": SOURCE[:rows, :source], "target": TARGET[:rows, :target]}
        labels = np.pad(TARGET[:rows, 1:target], ((0, 0), (0, 1)), constant_values=3)
        batches.append((keras.tree.map_structure(tf.constant, inputs), tf.constant(labels)))

    def epoch():
        return sum(trainer.train_on_batch(*batch) for batch in batches)

    first, *_, last = (epoch() for _ in range(20))
    assert last < 0.5 * first


def test_dropout_acts_in_training_only():
    model, inputs = build(dropout=0.5), {"source": SOURCE, "target": TARGET}
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 1e-3


def test_the_options_are_those_of_build():
    options = {option.name: option.default for option in registry.find("convs2s").options}
    set_seed(0)
    model = convs2s.build(11, 13, **{**options, "units": 6, "embedding_dim": 4})
    assert model.get_layer("encoder").output["memory"].shape[-1] == 8
    assert convs2s.PAPER.keys() <= options.keys()
