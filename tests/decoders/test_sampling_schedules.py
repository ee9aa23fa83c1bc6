"""The three decays: the worked numbers, their ends, files."""

import keras
import numpy as np
import pytest

from keras_attention import ExponentialDecay, InverseSigmoidDecay, LinearDecay

WORKED = [
    (LinearDecay(0.01, minimum=0.25), [1.0, 0.5, 0.25]),
    (ExponentialDecay(0.99), [1.0, 0.605006, 0.366032]),
    (InverseSigmoidDecay(20), [0.952381, 0.621456, 0.118756]),
]


@pytest.mark.parametrize(("decay", "values"), WORKED)
def test_the_worked_numbers(decay, values):
    found = [float(decay(step)) for step in (0, 50, 100)]
    np.testing.assert_allclose(found, values, atol=1e-6)
    together = np.array(decay(keras.ops.array([0, 50, 100], dtype="int32")))
    np.testing.assert_allclose(together, values, atol=1e-6)
    assert together.dtype == "float32"


@pytest.mark.parametrize(("decay", "values"), WORKED)
def test_it_falls_to_its_end_without_overflow(decay, values):
    steps = np.array([0, 10, 1000, 10**6, 2 * 10**9])
    found = np.array(decay(steps))
    assert np.all(np.diff(found) <= 0) and np.all((found >= 0) & (found <= 1))
    np.testing.assert_allclose(found[-1], getattr(decay, "minimum", 0.0), atol=1e-7)


@pytest.mark.parametrize(("decay", "values"), WORKED)
def test_its_config_rebuilds_it(decay, values):
    saved = keras.saving.serialize_keras_object(decay)
    assert saved["registered_name"] == f"keras_attention>{type(decay).__name__}"
    again = keras.saving.deserialize_keras_object(saved)
    assert again.get_config() == decay.get_config() and float(again(7)) == float(decay(7))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LinearDecay(-0.1), "slope"),
        (lambda: LinearDecay(0.1, start=1.5), "start"),
        (lambda: LinearDecay(0.1, minimum=-1), "minimum"),
        (lambda: ExponentialDecay(1.0), "base"),
        (lambda: InverseSigmoidDecay(0.5), "speed"),
    ],
)
def test_bad_arguments_are_named(make, name):
    with pytest.raises(ValueError, match=f"`{name}` to be a number.*Received: {name}="):
        make()
