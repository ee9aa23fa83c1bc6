import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples.models import show_attend_tell
from examples.models.encoders import image_encoder
from examples.recipes.caption_metrics import CaptionTrainer, make_loss, make_metrics
from examples.recipes.captioner import captioner
from examples.training.fitting import make_trainer

SMALL = {"units": 7, "embedding_dim": 5, "annotation_dim": 8}
SIDE, VOCABULARY = 24, 11
DRAW = np.random.default_rng(1)
INPUTS = {
    "image": DRAW.uniform(0, 255, (3, SIDE, SIDE, 1)).astype("float32"),
    "target": np.array([[2, 5, 7, 4], [2, 9, 0, 0], [2, 6, 10, 0]], "int32"),
}


def built(**options):
    set_seed(1)
    return show_attend_tell.build(VOCABULARY, SIDE, **SMALL, seed=1, **options)


@pytest.fixture(scope="module", params=["soft", "hard"])
def model(request):
    return built(attention=request.param)


def test_every_word_has_a_look_at_the_locations(model):
    outputs = model.predict_on_batch(INPUTS)
    assert outputs["logits"].shape == (3, 4, VOCABULARY)
    assert outputs["weights"].shape == (3, 4, 9)  # 24 points, 8 between two locations
    np.testing.assert_allclose(outputs["weights"].sum(axis=2), 1.0, rtol=1e-5)
    is_hard = model.get_layer("decoder").attention.auxiliary_outputs
    assert (outputs["weights"].max(axis=2) == 1).all() == bool(is_hard)


def test_an_attention_that_there_is_not_is_refused():
    text = "`attention` to be one of 'soft', 'hard'. Received: attention='stochastic'"
    with pytest.raises(ValueError, match=text):
        built(attention="stochastic")


@pytest.mark.thorough
def test_a_saved_model_comes_back_without_the_examples(model, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    for one, other in zip(
        *(keras.tree.flatten(m.predict_on_batch(INPUTS)) for m in (model, again)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
def test_what_is_written_has_the_score_that_the_model_gives_it(model):
    written = captioner(model, max_length=4, beam_width=3).predict_on_batch(
        {"image": INPUTS["image"]}
    )
    assert written["weights"].shape == (3, 4, 9)
    decoder = model.get_layer("decoder")
    memory = model.get_layer("encoder")(INPUTS["image"])["memory"]
    ids = written["ids"]
    targets = np.concatenate([np.full((3, 1), 2), ids[:, :-1]], axis=1)
    logits = keras.ops.log_softmax(decoder(targets, memory))
    chosen = np.take_along_axis(np.array(logits), ids[:, :, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(written["score"], (chosen * (ids != 0)).sum(axis=1), rtol=1e-4)
    np.testing.assert_array_equal(written["length"], ((ids != 0) & (ids != 3)).sum(axis=1))


@pytest.mark.thorough
def test_only_hard_attention_has_the_losses_of_reinforce():
    for options, terms in (
        ({"attention": "hard"}, 1),
        ({"attention": "soft"}, 0),
        ({"attention": "soft", "doubly_stochastic": 0.5}, 1),
    ):
        model = built(**options)
        model(INPUTS, training=True)
        assert len(model.losses) == terms, options
        assert all(np.isfinite(float(loss)) for loss in model.losses)


@pytest.mark.thorough
def test_without_reinforce_and_expected_looks_nothing_teaches_where_to_look():
    def is_reached(**options):
        model = built(attention="hard", expected_rate=0.0, entropy=0.0, **options)
        with tf.GradientTape() as tape:
            logits = model(INPUTS, training=True)["logits"]
            cost = tf.add_n([tf.reduce_sum(logits**2), *model.losses])
        attention = model.get_layer("decoder").attention
        gradient = tape.gradient(cost, attention.scorer.key_kernel.value)
        return gradient is not None and float(tf.norm(gradient)) > 0

    assert is_reached(reinforce=0.5)
    assert not is_reached(reinforce=0.0)


@pytest.mark.slow
def test_hard_attention_learns_in_a_compiled_step_in_half_precision():
    model = built(attention="hard", dropout=0.1, dtype="mixed_bfloat16")
    optimizer = keras.optimizers.Adam(0.01, global_clipnorm=5.0)
    metrics = make_metrics((3, 3), SIDE)
    trainer = make_trainer(model, make_loss(), metrics, optimizer, trainer=CaptionTrainer)
    caption = tf.constant([[5, 7, 4, 3], [9, 3, 0, 0], [6, 10, 3, 0]])
    labels = {"logits": caption, "weights": tf.ones((3, 4, 4))}
    losses = []
    for _ in range(30):  # the metrics begin anew in each: they are those of the batch
        trainer.reset_metrics()
        numbers = trainer.train_on_batch(INPUTS, labels, return_dict=True)
        losses.append(float(np.log(numbers["perplexity"])))
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.8 * losses[0]
    assert float(model.get_layer("reinforce").baseline) < 0  # it has moved


@pytest.mark.thorough
@pytest.mark.parametrize(("convolutions", "sees"), [(3, 17), (4, 33), (5, 41), (6, 45)])
def test_a_location_sees_a_square_around_its_middle(convolutions, sees):
    set_seed(1)
    image = keras.Input([72, 72, 1])
    options = {"annotation_dim": 16, "convolutions": convolutions}
    annotations, locations = image_encoder.annotations(image, **options)
    assert locations == (9, 9)
    network = keras.Model(image, annotations)
    base = np.array(network(np.zeros((1, 72, 72, 1), "float32")))[0, 4 * 9 + 4]
    seen = []
    for y in range(0, 72):
        spot = np.zeros((1, 72, 72, 1), "float32")
        spot[0, y, :, 0] = 255
        if not np.array_equal(np.array(network(spot))[0, 4 * 9 + 4], base):
            seen.append(y)
    assert abs((seen[0] + seen[-1]) / 2 - 35.5) <= 0.5  # locations 32 to 39, of the middle
    assert seen == list(range(seen[0], seen[-1] + 1))
    assert len(seen) == sees


def test_an_image_is_halved_three_times():
    with pytest.raises(ValueError, match="convolutions.*at least 3.*2"):
        image_encoder.annotations(keras.Input([16, 16, 1]), convolutions=2)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["vgg16", "mobilenet_v2", "densenet", "efficientnet"])
def test_colors_are_prepared_as_the_backbone_wants_them(name, channels):
    module = importlib.import_module(f"keras.applications.{name}")
    image = DRAW.uniform(0, 255, (2, 3, 4, channels)).astype("float32")
    kernel, bias = image_encoder.affine(module.preprocess_input, channels)
    expected = module.preprocess_input(np.repeat(image, 3 // channels, axis=-1).copy())
    np.testing.assert_allclose(image @ kernel + bias, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.thorough
def test_a_backbone_by_name_is_frozen_and_takes_the_users_weights(tmp_path):
    options = {"backbone": "MobileNetV2", "backbone_size": 32, "annotation_dim": 4}
    image = keras.Input([24, 24, 1])
    set_seed(2)
    network = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(32, 32, 3)
    )
    path = str(tmp_path / "mobilenet.weights.h5")
    network.save_weights(path)
    annotations, locations = image_encoder.annotations(image, backbone_weights=path, **options)
    model = keras.Model(image, annotations)
    assert locations == (1, 1)
    assert len(model.trainable_variables) == 3  # projection and positions
    (inside,) = [layer for layer in model.layers if layer.name.startswith("mobilenetv2")]
    for one, other in zip(inside.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    wrong = tmp_path / "wrong.weights.h5"
    wrong.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="expected weights of MobileNetV2"):
        image_encoder.annotations(image, backbone_weights=str(wrong), **options)
    with pytest.raises(ValueError, match="one of .*MobileNetV2.*Received: Mobile"):
        image_encoder.annotations(image, backbone="Mobile")
