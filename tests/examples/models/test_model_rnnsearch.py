import keras
import numpy as np
import pytest
from seeds import set_seed

from examples import registry
from examples.models import rnnsearch

SOURCE = np.array([[5, 7, 4, 3, 0, 0], [9, 3, 0, 0, 0, 0], [6, 6, 8, 10, 4, 3]], "int32")
TARGET = np.array([[2, 5, 6, 4, 0], [2, 4, 0, 0, 0], [2, 7, 4, 4, 9]], "int32")


def build(**options):
    set_seed(3)
    sizes = {"units": 7, "embedding_dim": 5, "maxout_units": 3, "seed": 3}
    return rnnsearch.build(11, 13, **{**sizes, **options})


def logits(model, source=SOURCE, target=TARGET):
    return keras.ops.convert_to_numpy(model({"source": source, "target": target}))


def test_a_translator_has_the_agreed_parts():
    model = build()
    assert logits(model).shape == (3, 5, 13)
    encoded = model.get_layer("encoder")(SOURCE)
    assert encoded["memory"].shape == (3, 6, 2 * 7)
    assert encoded["initial_state"].shape == (3, 7)
    assert model.get_layer("decoder").get_config()["readout_state"] == "current"


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_padding_changes_no_logit(attention):
    model = build(attention=attention)
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-6)
    alone = logits(model, SOURCE[1:2, :2], TARGET[1:2, :2])
    np.testing.assert_allclose(alone[0], logits(model)[1, :2], atol=1e-6)


def test_the_control_looks_everywhere_alike():
    model = build(attention="none")
    decoder = model.get_layer("decoder")
    encoded = model.get_layer("encoder")(SOURCE)
    memory = decoder.prepare(encoded["memory"], memory_mask=keras.ops.not_equal(SOURCE, 0))
    state = decoder.start(memory, initial_state=encoded["initial_state"])
    _, _, alignment = decoder.step(keras.ops.array([2, 2, 2], "int32"), state, memory)
    lengths = (SOURCE != 0).sum(axis=1)
    expected = (SOURCE != 0) / lengths[:, None]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(alignment), expected, atol=1e-6)


def test_the_initial_state_reads_the_backward_state_of_the_first_word():
    # Appendix A.2.2: s_0 = tanh(W_s h_1), with h_1 of the backward unit, which has read all.
    encoder = build().get_layer("encoder")
    annotations = keras.ops.convert_to_numpy(encoder(SOURCE)["memory"])
    kernel, bias = (w.numpy() for w in encoder.get_layer("initial_state").weights)
    expected = np.tanh(annotations[:, 0, 7:] @ kernel + bias)
    np.testing.assert_allclose(encoder(SOURCE)["initial_state"], expected, atol=1e-6)


def test_dropout_acts_in_training_only():
    model = build(dropout=0.5)
    inputs = {"source": SOURCE, "target": TARGET}
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 1e-4


def test_an_unknown_attention_is_refused():
    with pytest.raises(ValueError, match="'none' for the baseline. Received: attention='dot'"):
        build(attention="dot")


def test_no_layer_takes_the_cudnn_road(tmp_path):
    # XLA cannot compile cuDNN's GRU, and a reloaded layer forgets `use_cudnn=False`.
    model = build()
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    for one in (model, reloaded):
        kinds = {type(layer) for layer in one._flatten_layers()}
        assert not kinds & {keras.layers.GRU, keras.layers.LSTM}
        assert len(kinds) > 5
    np.testing.assert_array_equal(logits(reloaded), logits(model))


def test_the_options_are_those_of_build():
    options = {option.name: option.default for option in registry.find("rnnsearch").options}
    set_seed(0)
    model = rnnsearch.build(11, 13, **{**options, "units": 6})
    assert model.get_layer("encoder").output["memory"].shape[-1] == 12
