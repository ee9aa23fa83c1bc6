import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples.models import ram

SIZES = {
    "height": 11,
    "width": 7,
    "glimpses": 3,
    "size": 3,
    "scales": 2,
    "units": 5,
    "glimpse_units": 4,
    "deviation": 0.2,
}


@pytest.fixture(scope="module")
def model():
    set_seed(1)
    return ram.build(**SIZES)


@pytest.fixture(scope="module")
def inputs():
    draw = np.random.default_rng(1)
    return {
        "image": draw.random((2, 11, 7)).astype("float32"),
        "start": draw.uniform(-1, 1, (2, 2)).astype("float32"),
        "noise": draw.normal(size=(2, 2, 2)).astype("float32"),
    }


def answers(model, inputs):
    return {name: np.asarray(value) for name, value in model(inputs).items()}


def by_hand(model, image, start, noise):
    """The equations of the module, a row at a time."""
    weights = {
        name: [variable.numpy() for variable in model.get_layer(name).weights]
        for name in ("what", "where", "what_and_where", "core", "locator", "baseline", "output")
    }

    def dense(name, inputs):
        kernel, bias = weights[name]
        return inputs @ kernel + bias

    retina = model.get_layer("retina")
    location, state, told = (
        start,
        np.zeros(5),
        {"locations": [start], "log_pi": [], "baselines": []},
    )
    for step in range(3):
        patches = np.ravel(retina(image[None], location[None].astype("float32")))
        what, where = dense("what", patches), dense("where", location)
        both = np.concatenate([np.maximum(what, 0), np.maximum(where, 0)])
        glimpse = np.maximum(dense("what_and_where", both), 0)
        state = np.maximum(dense("core", np.concatenate([state, glimpse])), 0)
        if step == 2:
            break
        known = np.concatenate([state, np.eye(2)[step]])  # one for each location that it chooses
        mean = np.tanh(dense("locator", known[: len(weights["locator"][0])]))
        told["log_pi"].append(-0.5 * np.sum(np.square(noise[step])))
        told["baselines"].append(dense("baseline", state)[0])
        location = np.clip(mean + 0.2 * noise[step], -1, 1)
        told["locations"].append(location)
    return {**told, "logits": dense("output", state)}


@pytest.mark.parametrize("bias_per_glimpse", [False, True])
def test_the_model_is_the_equations_of_the_paper(inputs, bias_per_glimpse):
    set_seed(1)
    model = ram.build(**SIZES, bias_per_glimpse=bias_per_glimpse)
    assert model.get_layer("locator").kernel.shape == (5 + 2 * bias_per_glimpse, 2)
    outputs = answers(model, inputs)
    for row in range(2):
        expected = by_hand(model, *(inputs[name][row] for name in ("image", "start", "noise")))
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name][row], value, rtol=1e-4, atol=1e-5)


def test_where_to_look_is_learned_from_the_reward_alone(model, inputs):
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(inputs)
        sums = {name: tf.reduce_sum(outputs[name]) for name in ("logits", "log_pi", "baselines")}
    reached = {}
    for name, value in sums.items():
        gradients = tape.gradient(value, [v.value for v in model.trainable_variables])
        reached[name] = {
            variable.path.split("/")[0]
            for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
            if gradient is not None and np.abs(gradient).max() > 0
        }
    assert reached["logits"] == {"what", "where", "what_and_where", "core", "output"}
    assert reached["log_pi"] == {"locator"}
    assert reached["baselines"] == {"baseline"}


def test_the_gradient_of_log_pi_goes_towards_what_was_drawn(model, inputs):
    bias = model.get_layer("locator").bias
    with tf.GradientTape() as tape:
        log_pi = model(inputs)["log_pi"][:, 0]
    gradient = tape.gradient(log_pi, bias.value).numpy()
    outputs = answers(model, {**inputs, "noise": np.zeros((2, 2, 2), "float32")})
    slope = 1 - outputs["locations"][:, 1] ** 2  # of tanh
    expected = (inputs["noise"][:, 0] / 0.2 * slope).sum(axis=0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-3)


def test_one_glimpse_chooses_nothing(inputs):
    model = ram.build(**{**SIZES, "glimpses": 1})
    outputs = answers(model, {**inputs, "noise": np.zeros((2, 0, 2), "float32")})
    assert sorted(outputs) == ["locations", "logits"]
    assert outputs["locations"].shape == (2, 1, 2)


def test_a_saved_model_comes_back_without_the_examples(model, inputs, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    expected = answers(model, inputs)
    for name, value in answers(again, inputs).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6)
