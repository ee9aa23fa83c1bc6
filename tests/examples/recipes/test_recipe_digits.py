import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.commands.arguments import UsageError
from examples.data.digit_batches import DrawnBatches
from examples.data.rows import RowBatches
from examples.recipes.digit_losses import RecognitionLoss
from examples.recipes.drawing import Drawing, binarize
from examples.recipes.recognition import Recognition, draw_locations
from examples.training.fitting import evaluate


def batches(draw, is_training=True, seed=5, count=7):
    images = np.random.default_rng(1).integers(0, 256, (count, 11, 13)).astype("uint8")
    group = {"image": images}, {"digit": np.arange(1, count + 1, dtype="int32")}
    return DrawnBatches(RowBatches([group], 3, seed, is_training), draw)


def arrays(dataset):
    return [tf.nest.map_structure(lambda tensor: tensor.numpy(), batch) for batch in dataset]


def noise_of(found):
    return np.concatenate([inputs["noise"] for inputs, *_ in found])


@pytest.mark.parametrize(
    "draw", [draw_locations(3, True), binarize(3, 2)], ids=["looks", "drawings"]
)
def test_what_is_drawn_is_a_function_of_seed_epoch_and_batch(draw):
    whole = arrays(batches(draw).epoch(2))
    for one, other in zip(whole[1:], arrays(batches(draw).epoch(2, start=1)), strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    noise = noise_of(whole)
    assert len(np.unique(noise)) == noise.size  # no two rows, steps or batches share numbers
    assert not np.any(noise == noise_of(arrays(batches(draw).epoch(3))))
    assert not np.any(noise == noise_of(arrays(batches(draw, seed=6).epoch(2))))


def test_in_training_a_model_looks_anywhere_first_and_in_evaluation_at_the_middle():
    draw = batches(draw_locations(4, True), is_training=False)
    found = arrays(draw.epoch(0))
    starts = np.concatenate([inputs["start"] for inputs, *_ in found])
    assert starts.shape == (9, 2)
    assert np.abs(starts).max() <= 1
    assert starts.min() < 0 < starts.max()
    found = arrays(batches(draw_locations(4, False), is_training=False).epoch(0))
    inputs, digit, _ = found[0]
    assert inputs["noise"].shape == (3, 3, 2)
    assert not inputs["start"].any()
    assert not inputs["noise"].any()
    np.testing.assert_array_equal(digit, [0, 1, 2])
    assert [weights.tolist() for _, _, weights in found] == [[1] * 3, [1] * 3, [1, 0, 0]]
    original = draw.rows.groups[0][0]["image"][:3]
    np.testing.assert_allclose(inputs["image"], original / 255.0, rtol=1e-6)


def test_ink_is_drawn_by_its_grey_and_the_label_is_what_is_read():
    grey = np.broadcast_to(np.array([0, 51, 255], "uint8"), (1, 2000, 3))
    inputs, image = binarize(2, 2)({"image": grey}, np.array([0]), (3, 4))
    np.testing.assert_array_equal(inputs["image"], image)
    shares = inputs["image"].numpy()[0].mean(axis=0)
    assert shares[0] == 0
    assert shares[1] == pytest.approx(0.2, abs=0.03)
    assert shares[2] == 1


def outputs_digits_and_weights():
    random = np.random.default_rng(2)
    outputs = {
        "logits": random.normal(size=(4, 10)),
        "log_pi": random.normal(size=(4, 2)),
        "baselines": random.normal(size=(4, 2)),
    }
    outputs = {name: tf.constant(value.astype("float32")) for name, value in outputs.items()}
    best = outputs["logits"].numpy().argmax(axis=1)
    # Two are right, one is wrong, one is no picture.
    digits = np.array([best[0], best[1], (best[2] + 1) % 10, 0])
    return outputs, digits, np.array([1.0, 1.0, 1.0, 0.0], "float32")


def as_model(outputs):
    """A model that returns its inputs."""
    inputs = {name: keras.Input(value.shape[1:], name=name) for name, value in outputs.items()}
    return keras.Model(inputs, {name: 1 * tensor for name, tensor in inputs.items()})


def measure(recipe, outputs, batch):
    """What a recipe measures of a model with these outputs."""
    return evaluate(
        *(as_model(outputs), batch, recipe.make_loss(), recipe.make_metrics()),
        trainer=recipe.trainer,
    )


def test_looking_is_rewarded_where_the_digit_is_right():
    outputs, digits, weights = outputs_digits_and_weights()
    weight = 0.3
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = 3 * RecognitionLoss(weight)(digits, outputs, weights)  # a mean of 3
    gradients = tape.gradient(loss, outputs)
    reward, b = np.array([1, 1, 0])[:, None], outputs["baselines"].numpy()[:3]
    np.testing.assert_allclose(gradients["log_pi"][:3], -weight * (reward - b), rtol=1e-5)
    np.testing.assert_allclose(gradients["baselines"][:3], b - reward, rtol=1e-5)  # of a mean of 2
    logits = outputs["logits"].numpy()
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    softmax[np.arange(3), digits[:3]] -= 1
    np.testing.assert_allclose(gradients["logits"][:3], softmax[:3], rtol=1e-4)
    for gradient in gradients.values():
        assert not gradient.numpy()[3].any()


def test_draws_of_an_image_are_weighed_against_each_other():
    random = np.random.default_rng(4)
    rows, draws, weight = 2, 3, 0.3
    shapes = {"logits": (6, 10), "log_pi": (6, 2), "baselines": (6, 2)}
    outputs = {name: random.normal(size=shape) for name, shape in shapes.items()}
    outputs = {name: tf.constant(value.astype("float32")) for name, value in outputs.items()}
    logits, b = outputs["logits"].numpy(), outputs["baselines"].numpy()
    best = logits.argmax(axis=1)
    digits = np.repeat(best[[1, 3]], draws).reshape(rows, draws)
    reward = (best == digits.ravel()).astype("float32")
    assert 0 < reward.sum() < 6
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        each = RecognitionLoss(weight).call(digits, outputs)
        loss = tf.reduce_sum(each)
    gradients = tape.gradient(loss, outputs)
    left = (reward[:, None] - b).reshape(rows, draws, 2)
    for image in range(rows):
        for draw in range(draws):
            others = [left[image, other] for other in range(draws) if other != draw]
            expected = -weight * (left[image, draw] - np.mean(others, axis=0)) / draws
            found = gradients["log_pi"][image * draws + draw]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    crossentropy = -tf.nn.log_softmax(logits).numpy()[np.arange(6), digits.ravel()]
    terms = crossentropy + np.mean(left.reshape(6, 2) ** 2, axis=1)
    terms += np.sum(gradients["log_pi"] * outputs["log_pi"], axis=1) * draws
    np.testing.assert_allclose(each, terms.reshape(rows, draws).mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(gradients["baselines"], (b - reward[:, None]) / draws, rtol=1e-5)


def test_draws_of_an_image_follow_each_other_and_begin_alike():
    found = arrays(batches(draw_locations(3, True, draws=2), is_training=False).epoch(0))
    alone = arrays(batches(draw_locations(3, True), is_training=False).epoch(0))
    assert len(np.unique(noise_of(found))) == 9 * 2 * 2 * 2
    for (inputs, digit, weights), (of_one, one_digit, one_weights) in zip(
        found, alone, strict=True
    ):
        for name in ("image", "start"):
            np.testing.assert_array_equal(inputs[name], np.repeat(of_one[name], 2, axis=0))
        np.testing.assert_array_equal(digit, np.stack([one_digit] * 2, axis=1))
        np.testing.assert_array_equal(weights, one_weights)
    inputs, digit, _ = arrays(batches(draw_locations(3, False, draws=2)).epoch(0))[0]
    assert inputs["noise"].shape == (3, 2, 2)
    assert digit.shape == (3,)


def test_several_draws_are_measured_like_one():
    outputs, digits, weights = outputs_digits_and_weights()
    twice = {name: np.repeat(value, 2, axis=0) for name, value in outputs.items()}
    rows = tf.data.Dataset.from_tensors((twice, np.stack([digits] * 2, axis=1), weights))
    alone = tf.data.Dataset.from_tensors((outputs, digits, weights))
    recipe = Recognition(mnist=None)
    found, expected = (measure(recipe, outputs, batch) for batch in (rows, alone))
    for name in ("accuracy", "crossentropy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"decay_epochs": 2, "plateau": 3}, "not for --plateau. .* --plateau 3"),
        ({"decay_epochs": 3, "epochs": 2}, "from the end of --epochs, .* --decay-epochs 3"),
        ({"draws": 2, "strategy": "mirrored"}, "Received: --draws 2 --strategy mirrored"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, told):
    with pytest.raises(UsageError, match=told):
        Recognition(mnist=None, **options).check()


@pytest.mark.parametrize(("kind", "beta_1"), [(Recognition, 0.9), (Drawing, 0.5)])
def test_the_rate_falls_to_nothing_in_the_last_epochs(kind, beta_1):
    recipe = kind(mnist=None, learning_rate=0.4, epochs=3, decay_epochs=2)
    optimizer = recipe.make_optimizer(None, batches(draw_locations(3, True), count=6))
    rate = optimizer._learning_rate
    assert optimizer.beta_1 == beta_1
    assert [float(rate(step)) for step in range(6)] == pytest.approx([0.4] * 3 + [0.3, 0.2, 0.1])


def test_measured_are_cross_entropy_and_error_alone():
    outputs, digits, weights = outputs_digits_and_weights()
    outputs = {name: value.numpy() for name, value in outputs.items()}
    batch = tf.data.Dataset.from_tensors((outputs, digits, weights))
    numbers = measure(Recognition(mnist=None), outputs, batch)
    log_probs = tf.nn.log_softmax(outputs["logits"]).numpy()
    expected = -log_probs[np.arange(3), digits[:3]].mean()
    assert numbers["crossentropy"] == pytest.approx(expected, rel=1e-5)
    assert numbers["accuracy"] == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="weight"):
        RecognitionLoss(-1.0)


def test_the_bound_is_of_pixels_and_latent_numbers_and_leaves_out_what_is_no_picture():
    random = np.random.default_rng(3)
    logits, kl = random.normal(size=(2, 5, 3)), random.random((2, 4))
    image = random.integers(0, 2, (2, 5, 3)).astype("float32")
    outputs = {"logits": logits.astype("float32"), "kl": kl.astype("float32")}
    batch = tf.data.Dataset.from_tensors((outputs, image, np.array([1.0, 0.0])))
    numbers = measure(Drawing(mnist=None), outputs, batch)
    ink = 1 / (1 + np.exp(-logits[0]))
    pixels = -np.log(np.where(image[0] > 0, ink, 1 - ink)).sum()
    assert numbers["loss"] == pytest.approx(numbers["bound"])
    assert numbers["bound"] == pytest.approx(pixels + kl[0].sum(), rel=1e-5)
    assert numbers["kl"] == pytest.approx(kl[0].sum(), rel=1e-5)
