"""The layer beside Keras' own, and in float64 by hand."""

import keras
import numpy as np
import pytest

from keras_attention.kernels.layer_normalization import LayerNormalization


@pytest.mark.parametrize("shape", [(3, 7), (2, 5, 11)])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "bfloat16"])
def test_it_normalizes_as_keras_does(shape, dtype):
    draw = np.random.default_rng(1)
    options = {"epsilon": 1e-4, "dtype": dtype, "gamma_initializer": "random_normal"}
    layers = [cls(**options) for cls in (LayerNormalization, keras.layers.LayerNormalization)]
    inputs = keras.ops.cast(draw.normal(3.0, 5.0, size=shape), layers[0].compute_dtype)
    for layer in layers:
        layer.build(shape)
        layer.set_weights([draw.normal(size=shape[-1:]) for _ in range(2)])
    layers[1].set_weights(layers[0].get_weights())
    ours, theirs = (layer(inputs) for layer in layers)
    assert ours.dtype == theirs.dtype
    tolerance = {"float32": 1e-6, "mixed_float16": 2e-3, "bfloat16": 2e-2}[dtype]
    ours, theirs = (
        keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float32")) for outputs in (ours, theirs)
    )
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_large_values_in_half_precision_do_not_overflow():
    inputs = keras.ops.convert_to_tensor([[60000.0, -60000.0, 0.0, 30000.0]], dtype="float16")
    outputs = keras.ops.convert_to_numpy(LayerNormalization(dtype="float16")(inputs))
    wide = np.array([60000.0, -60000.0, 0.0, 30000.0])
    np.testing.assert_allclose(outputs[0], (wide - wide.mean()) / wide.std(), rtol=2e-3)
