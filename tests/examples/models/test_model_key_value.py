"""Keys and values from different embeddings: which embedding decides what, noise, the penalty."""

import keras
import numpy as np
import pytest
from seeds import set_seed

from examples.models import key_value

SOURCE = np.array([[5, 7, 4, 3, 0, 0], [9, 3, 0, 0, 0, 0], [6, 6, 8, 10, 4, 3]], "int32")
TARGET = np.array([[2, 5, 6, 4, 0], [2, 4, 0, 0, 0], [2, 7, 4, 4, 9]], "int32")
SIZES = {"units": 8, "embedding_dim": 5, "value_dim": 3, "seed": 3}


def build(**options):
    set_seed(3)
    return key_value.build(11, 13, **{**SIZES, **options})


def run(model, source=SOURCE):
    """Logits and alignment."""
    encoded = model.get_layer("encoder")(source)
    return [
        np.array(part)
        for part in model.get_layer("decoder")(
            TARGET,
            encoded["memory"],
            initial_state=encoded["initial_state"],
            memory_mask=keras.ops.not_equal(source, 0),
            return_attention_scores=True,
        )
    ]


def swap(model, name):
    """Exchanges the embeddings of the words 5 and 9."""
    table = model.get_layer("encoder").get_layer(f"{name}_embedding").embeddings
    order = np.arange(11)
    order[[5, 9]] = 9, 5
    table.assign(np.array(table)[order])


def test_a_word_with_the_function_of_another_is_read_alike_and_written_as_itself():
    model = build()
    logits, alignment = run(model)
    swap(model, "primitive")
    found, same = run(model)
    np.testing.assert_array_equal(same, alignment)
    assert np.abs(found - logits)[:2].max() > 1e-3
    np.testing.assert_array_equal(found[2], logits[2])  # it has neither word
    swap(model, "functional")
    exchanged = np.select([SOURCE == 5, SOURCE == 9], [9, 5], SOURCE).astype("int32")
    for part, expected in zip(run(model, exchanged), (logits, alignment), strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-6)
    assert np.abs(run(model)[1] - alignment).max() > 1e-4


@pytest.mark.thorough
def test_noise_acts_in_training_only_on_both_embeddings():
    model, inputs = build(), {"source": SOURCE, "target": TARGET}
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    np.testing.assert_allclose(model(inputs), run(model)[0], atol=1e-6)
    memory = model.get_layer("encoder")(SOURCE)["memory"]
    noise = np.array(model.get_layer("encoder")(SOURCE, training=True)["memory"] - memory)
    assert noise.shape == (3, 6, 8 + 3)
    assert np.abs(noise[2, :, :8]).min() > 0, "the functional embedding"
    values = model.get_layer("encoder").get_layer("primitive_noise")
    drawn = np.array(values(np.zeros((64, 32, 3)), training=True))
    assert drawn.std() == pytest.approx(1.0, rel=0.05) and abs(drawn.mean()) < 0.05
    quiet = build(noise=0.0)
    np.testing.assert_array_equal(quiet(inputs, training=True), quiet(inputs))


def test_both_embeddings_are_penalized_at_each_position():
    model = build(embedding_l2=0.25)
    encoder = model.get_layer("encoder")
    tables = [encoder.get_layer(f"{n}_embedding").embeddings for n in ("primitive", "functional")]
    assert [tuple(table.shape) for table in tables] == [(11, 3), (11, 5)]
    model({"source": SOURCE, "target": TARGET})
    read = [np.array(table)[SOURCE] for table in tables]
    expected = sum(0.25 * np.square(x).mean(axis=-1).sum(axis=1).mean() for x in read)
    assert float(sum(model.losses)) == pytest.approx(expected, rel=1e-5)
    words = build(embedding_l2=0.25, penalty="words").get_layer("encoder")
    tables = [words.get_layer(f"{n}_embedding").embeddings for n in ("primitive", "functional")]
    expected = sum(0.25 * np.sum(np.square(table)) for table in tables)
    assert float(sum(words.losses)) == pytest.approx(expected, rel=1e-5)
    quiet = build(embedding_l2=0.0)
    quiet({"source": SOURCE, "target": TARGET})
    assert quiet.losses == []


def test_an_odd_number_of_units_is_refused():
    with pytest.raises(ValueError, match="`units` to be even.*Received: units=7"):
        build(units=7)
