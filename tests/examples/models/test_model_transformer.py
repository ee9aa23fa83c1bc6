import keras
import numpy as np
import pytest
from seeds import set_seed

from examples.models import transformer
from examples.registry import find

SOURCE = np.array([[5, 7, 4, 3, 0, 0], [9, 3, 0, 0, 0, 0], [6, 6, 8, 10, 4, 3]], "int32")
TARGET = np.array([[2, 5, 6, 4, 0], [2, 4, 0, 0, 0], [2, 7, 4, 4, 9]], "int32")


def build(source=11, target=13, **options):
    set_seed(3)
    sizes = {"units": 12, "layers": 2, "heads": 3, "feed_forward_dim": 7, "seed": 3}
    return transformer.build(source, target, **{**sizes, **options})


def logits(model, source=SOURCE, target=TARGET):
    return keras.ops.convert_to_numpy(model({"source": source, "target": target}))


def test_a_translator_has_the_agreed_parts():
    model = build()
    assert logits(model).shape == (3, 5, 13)
    assert model.get_layer("encoder")(SOURCE)["memory"].shape == (3, 6, 12)
    decoder = model.get_layer("decoder")
    assert (decoder.num_layers, decoder.num_heads, decoder.feed_forward_dim) == (2, 3, 7)
    assert find("transformer").module is transformer


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_padding_changes_no_logit(positions, normalization):
    model = build(positions=positions, normalization=normalization)
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-5)
    alone = logits(model, SOURCE[1:2, :2], TARGET[1:2, :2])
    np.testing.assert_allclose(alone[0], logits(model)[1, :2], atol=1e-5)


def test_the_paper_has_65_million_parameters():
    # 37,000 word pieces, shared; table 3 says 65 million for the base model.
    sizes = {name: value for name, value in transformer.PAPER.items() if name != "dropout"}
    units, hidden, layers = sizes["units"], sizes["feed_forward_dim"], sizes["layers"]
    net = 2 * units * hidden + hidden + units
    encoder_layer = 4 * units**2 + net + 2 * 2 * units
    decoder_layer = 8 * units**2 + net + 3 * 2 * units
    expected = 37_000 * units + layers * (encoder_layer + decoder_layer)
    assert 62e6 < expected < 66e6
    small = build(29, 29, share_embeddings=True)
    net = 2 * 12 * 7 + 7 + 12
    layers = 2 * (4 * 144 + net + 48) + 2 * (8 * 144 + net + 72)
    assert small.count_params() == 29 * 12 + layers


def test_a_restricted_model_reads_a_window():
    model, whole = build(window=3), build()
    assert np.abs(logits(model) - logits(whole)).max() > 1e-4
    np.testing.assert_allclose(logits(build(window=13)), logits(whole), atol=1e-6)


@pytest.mark.thorough
def test_a_shared_table_survives_a_file(tmp_path):
    model = build(13, 13, share_embeddings=True)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(again), logits(model))
    for one in (model, again):
        assert len([w for w in one.trainable_weights if w.shape == (13, 12)]) == 1


def test_sharing_needs_one_vocabulary():
    with pytest.raises(ValueError, match="one vocabulary: .* target_vocabulary_size=13"):
        build(share_embeddings=True)


def test_dropout_acts_in_training_only():
    model = build(dropout=0.5)
    inputs = {"source": SOURCE, "target": TARGET}
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 1e-4
