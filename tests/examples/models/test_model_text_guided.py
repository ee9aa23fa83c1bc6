import keras
import numpy as np
import pytest
from seeds import set_seed

from examples.models import han, ram, seq2seq, show_attend_tell, text_guided
from examples.models.encoders import image_encoder
from examples.recipes.captioner import captioner

SMALL = {"units": 7, "embedding_dim": 5, "sentence_dim": 6, "annotation_dim": 8}
SIDE, VOCABULARY = 24, 13
INPUTS = {
    "image": np.random.default_rng(1).uniform(0, 255, (2, SIDE, SIDE, 1)).astype("float32"),
    "guide": np.array([[5, 7, 0], [11, 0, 0]], "int32"),
    "target": np.array([[2, 5, 7, 4, 8], [2, 9, 0, 0, 0]], "int32"),
}


@pytest.fixture(scope="module", params=["gru", "bag"])
def model(request):
    set_seed(1)
    return text_guided.build(VOCABULARY, SIDE, **SMALL, sentence_encoder=request.param, seed=1)


def test_a_sentence_looks_once_and_its_padding_changes_nothing(model):
    outputs = model.predict_on_batch(INPUTS)
    assert outputs["logits"].shape == (2, 5, VOCABULARY)
    assert outputs["weights"].shape == (2, 1, 9)
    np.testing.assert_allclose(outputs["weights"].sum(axis=2), 1.0, rtol=1e-5)
    longer = {**INPUTS, "guide": np.pad(INPUTS["guide"], [(0, 0), (0, 2)])}
    again = model.predict_on_batch(longer)
    np.testing.assert_allclose(again["weights"], outputs["weights"], rtol=1e-5)
    other = {**INPUTS, "guide": INPUTS["guide"][::-1]}
    assert not np.allclose(model.predict_on_batch(other)["weights"], outputs["weights"], atol=1e-7)


def test_a_sentence_without_words_gives_numbers(model):
    outputs = model.predict_on_batch({**INPUTS, "guide": np.zeros((2, 3), "int32")})
    for name in ("logits", "weights"):
        assert np.isfinite(outputs[name]).all()


def test_the_bonus_for_looking_around_is_there_in_training_alone(model):
    model(INPUTS, training=True)
    (bonus,) = model.losses
    assert -0.002 * np.log(9) <= float(bonus) < 0
    model(INPUTS, training=False)
    assert not model.losses


def test_a_saved_model_comes_back_without_the_examples(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    for one, other in zip(
        *(keras.tree.flatten(m.predict_on_batch(INPUTS)) for m in (model, again)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
def test_a_sentence_encoder_of_ones_own_may_stand_in(tmp_path):
    ids = keras.Input([None], dtype="int32")
    words = keras.layers.Embedding(VOCABULARY, 4, mask_zero=True)(ids)
    own = keras.Model(ids, keras.layers.LSTM(3)(words), name="own")
    model = text_guided.build(VOCABULARY, SIDE, **SMALL, sentence_encoder=own, seed=1)
    assert model.get_layer("encoder").get_layer("own") is own
    test_a_sentence_looks_once_and_its_padding_changes_nothing(model)
    test_captions_are_written_from_what_the_sentence_chose(model)
    test_a_saved_model_comes_back_without_the_examples(model, tmp_path)


def test_a_sentence_encoder_that_there_is_not_or_that_gives_no_vector_is_refused():
    text = "`sentence_encoder` to be one of 'gru', 'bag'.*Received: sentence_encoder='lstm'"
    with pytest.raises(ValueError, match=text):
        text_guided.build(VOCABULARY, SIDE, **SMALL, sentence_encoder="lstm")
    words = keras.layers.Embedding(VOCABULARY, 4)
    with pytest.raises(ValueError, match=r"`sentence_encoder` of rank 2, \(batch, dim\)"):
        text_guided.build(VOCABULARY, SIDE, **SMALL, sentence_encoder=words)


@pytest.mark.thorough
def test_captions_are_written_from_what_the_sentence_chose(model):
    writer = captioner(model, max_length=3)
    assert sorted(writer.input) == ["guide", "image"]
    written = writer.predict_on_batch({name: INPUTS[name] for name in writer.input})
    assert written["ids"].shape == (2, 3)
    expected = model.predict_on_batch(INPUTS)
    np.testing.assert_allclose(written["weights"], expected["weights"], rtol=1e-5)
    first = expected["logits"][:, 0]
    first[:, [0, 2]] = -np.inf  # never produced
    np.testing.assert_array_equal(written["ids"][:, 0], first.argmax(axis=1))


def test_it_begins_with_what_another_captioner_has_learned_to_see(model):
    other = show_attend_tell.build(VOCABULARY, SIDE, units=7, annotation_dim=8)
    for layer in other.get_layer("encoder").layers:
        layer.set_weights([np.full(w.shape, 0.25, "float32") for w in layer.weights])
    copied = image_encoder.copy_weights(other, model)
    assert len(copied) == 2 * 4 + 1  # convolutions and their normalizations, positions
    for name in copied:
        for weight in model.get_layer("encoder").get_layer(name).weights:
            assert np.all(np.array(weight) == 0.25), name
    other = show_attend_tell.build(VOCABULARY, SIDE, units=7, annotation_dim=12)
    with pytest.raises(ValueError, match="--annotation-dim.*another convolution_1"):
        image_encoder.copy_weights(other, model)


@pytest.mark.parametrize(
    ("module", "sizes"),
    [
        (ram, {"height": 8, "width": 8}),
        (seq2seq, {"source_vocabulary_size": 11, "target_vocabulary_size": 11}),
        (han, {"vocabulary_size": 11, "num_classes": 2}),
    ],
)
def test_it_begins_with_no_model_that_is_no_captioner(model, module, sizes):
    other = module.build(**sizes, units=4)
    with pytest.raises(ValueError, match=f"taken from a captioner.*Received: a .*{other.name}"):
        image_encoder.copy_weights(other, model)
