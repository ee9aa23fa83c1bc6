"""Every layer: a row in the table, a config that holds its arguments, files it survives."""

import inspect

import keras
import numpy as np
import pytest
from layer_rows import SIZES, arrays, flat_data
from layer_table import ABSTRACT, TABLE

import keras_attention

ROWS = pytest.mark.parametrize("row", TABLE, ids=str)


def test_every_public_layer_has_a_row():
    public = {
        name
        for name in keras_attention.__all__
        if inspect.isclass(getattr(keras_attention, name))
        and issubclass(getattr(keras_attention, name), keras.layers.Layer)
    }
    rows = {row.layer.__name__ for row in TABLE}
    assert public - ABSTRACT.keys() - rows == set(), "add a row to tests/conformance/layer_table.py"
    assert ABSTRACT.keys() <= public, "an exception names a class that is not public"
    assert not rows & ABSTRACT.keys()


@ROWS
def test_the_config_has_one_key_an_argument(row):
    parameters = inspect.signature(row.layer.__init__).parameters.values()
    arguments = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD} - {"self"}
    of_every_layer = set(keras.layers.Layer().get_config())
    assert set(row.make().get_config()) - of_every_layer == arguments


@ROWS
def test_the_config_rebuilds_the_layer(row):
    config = row.make(name="given", dtype="mixed_bfloat16").get_config()
    again = row.layer.from_config(config)
    assert again.get_config() == config
    assert (again.name, again.dtype_policy.name) == ("given", "mixed_bfloat16")


@ROWS
def test_it_is_registered_under_the_name_of_the_package(row):
    layer = row.make()
    saved = keras.saving.serialize_keras_object(layer)
    assert saved["registered_name"] == f"keras_attention>{row.layer.__name__}"
    again = keras.saving.deserialize_keras_object(saved)
    assert type(again) is row.layer
    assert again.get_config() == layer.get_config()


@ROWS
def test_a_functional_model_has_any_batch_and_length_and_survives_a_keras_file(row, tmp_path):
    layer = row.built()
    model = row.model(layer)
    for sizes in SIZES:
        data = row.data(sizes, masks=True)
        outputs = arrays(model(flat_data(data)))
        for one, other in zip(outputs, arrays(row.call(layer, data)), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(arrays(again(flat_data(data))), outputs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
@ROWS
def test_a_weights_file_fits_another_layer_of_the_same_config(row, tmp_path):
    model, other = row.model(row.built(seed=1)), row.model(row.built(seed=2))
    data = flat_data(row.data(masks=True))
    if model.trainable_weights:
        pairs = zip(arrays(model(data)), arrays(other(data)), strict=True)
        assert any(not np.array_equal(one, two) for one, two in pairs), "the seeds differ"
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    for one, two in zip(arrays(model(data)), arrays(other(data)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda **o: keras_attention.ForwardAttention("dot", 4, **o), "dropout"),
        (lambda **o: keras_attention.ForwardAttention("dot", 4, **o), "seed"),
        (lambda **o: keras_attention.GMMAttention(2, **o), "normalizer"),
        (lambda **o: keras_attention.HardAttention(4, **o), "dropout"),
        (lambda **o: keras_attention.MultiSourceAttention(4, 2, **o), "normalizer"),
    ],
)
def test_an_argument_of_a_base_class_that_is_not_the_layers_is_refused(make, name):
    with pytest.raises(ValueError, match=f"has no argument `{name}`.*Received: {name}=0"):
        make(**{name: 0})
