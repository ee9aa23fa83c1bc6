import keras
import numpy as np
import pytest
from seeds import set_seed

from examples.models import draw

SIZES = {
    "height": 11,
    "width": 7,
    "steps": 3,
    "units": 5,
    "latent_dim": 4,
    "read_size": 2,
    "write_size": 3,
}


@pytest.fixture(scope="module")
def model():
    set_seed(1)
    built = draw.build(**SIZES)
    # Learned first values begin at 0: others show whether they are used.
    for name in ("first_canvas", "first_encoded", "first_decoded"):
        kernel = built.get_layer(name).kernel
        kernel.assign(keras.random.normal(kernel.shape, stddev=0.3, seed=len(name)))
    return built


@pytest.fixture(scope="module")
def inputs():
    random = np.random.default_rng(1)
    return {
        "image": random.integers(0, 2, (2, 11, 7)).astype("float32"),
        "noise": random.normal(size=(2, 3, 4)).astype("float32"),
    }


def answers(model, inputs):
    return {name: np.asarray(value) for name, value in model(inputs).items()}


@pytest.mark.thorough
def test_the_model_is_the_equations_of_the_paper(model, inputs):
    outputs = model.predict_on_batch(inputs)
    layers = {layer.name: layer for layer in model.layers}

    def first(name):
        return np.repeat(layers[name].kernel.numpy(), 2, axis=0)

    canvas = first("first_canvas").reshape(2, 11, 7)
    encoded, decoded = (
        [first(name), np.zeros((2, 5))] for name in ("first_encoded", "first_decoded")
    )
    for step in range(3):
        error = inputs["image"] - 1 / (1 + np.exp(-canvas))
        patch, window = layers["reader"](
            np.stack([inputs["image"], error], axis=-1), decoded[0], return_window=True
        )
        np.testing.assert_allclose(outputs["reads"][:, step], window, rtol=1e-3, atol=1e-4)
        seen = np.concatenate([np.reshape(patch, (2, -1)), decoded[0]], axis=-1)
        encoded = layers["encoder"](seen, encoded)[1]
        mean, log_deviation = (
            np.asarray(layers[name](encoded[0])) for name in ("mean", "log_deviation")
        )
        kl = 0.5 * np.sum(mean**2 + np.exp(2 * log_deviation) - 2 * log_deviation - 1, axis=1)
        np.testing.assert_allclose(outputs["kl"][:, step], kl, rtol=1e-3, atol=1e-5)
        latent = mean + np.exp(log_deviation) * inputs["noise"][:, step]
        decoded = layers["decoder"](latent, decoded)[1]
        ink = np.reshape(layers["patch"](decoded[0]), (2, 3, 3))
        written, window = layers["writer"](ink, decoded[0], return_window=True)
        np.testing.assert_allclose(outputs["writes"][:, step], window, rtol=1e-3, atol=1e-4)
        canvas = canvas + np.asarray(written)
        np.testing.assert_allclose(outputs["canvases"][:, step], canvas, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(outputs["logits"], canvas, rtol=1e-3, atol=1e-4)


def test_the_generator_draws_as_the_model_does_where_nothing_is_read(model, inputs):
    blind = keras.models.clone_model(model)
    blind.set_weights(model.get_weights())
    for name in ("mean", "log_deviation"):  # then z is the noise
        for variable in blind.get_layer(name).weights:
            variable.assign(keras.ops.zeros_like(variable))
    drawn = answers(draw.generator(blind), {"noise": inputs["noise"]})
    outputs = answers(blind, inputs)
    np.testing.assert_allclose(outputs["kl"], 0.0, atol=1e-6)
    expected = 1 / (1 + np.exp(-outputs["canvases"]))
    np.testing.assert_allclose(drawn["canvases"], expected, atol=1e-5)
    np.testing.assert_allclose(drawn["image"], expected[:, -1], atol=1e-5)
    np.testing.assert_allclose(drawn["windows"], outputs["writes"], rtol=1e-4, atol=1e-4)


def test_a_saved_model_comes_back_without_the_examples(model, inputs, tmp_path):
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    expected = answers(model, inputs)
    for name, value in answers(again, inputs).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5)
    noise = {"noise": inputs["noise"]}
    drawn = [answers(draw.generator(one), noise)["image"] for one in (model, again)]
    np.testing.assert_allclose(*drawn, atol=1e-6)
