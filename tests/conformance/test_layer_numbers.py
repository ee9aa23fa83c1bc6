"""Every layer: one answer however it is called, in every dtype, with finite gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_table import SIZES, TABLE, arrays, flat_data

ROWS = pytest.mark.parametrize("row", TABLE, ids=str)

#: Largest difference from float32, relative to the largest entry.
TOLERANCES = {"float16": 5e-3, "bfloat16": 4e-2}
POLICIES = ("float16", "bfloat16", "mixed_float16", "mixed_bfloat16")


@ROWS
def test_symbolic_shapes_and_dtypes_equal_those_of_values(row):
    layer = row.built()
    values = row.call(layer, row.data())
    known = row.call(layer, row.symbols(SIZES[0]))
    unknown = row.call(layer, row.symbols())
    for value, one, other in zip(values, known, unknown, strict=True):
        assert one.shape == tuple(value.shape)
        assert one.dtype == other.dtype == keras.backend.standardize_dtype(value.dtype)
        sizes = zip(other.shape, value.shape, strict=True)
        assert other.shape[0] is None and all(size in (None, real) for size, real in sizes)


@ROWS
def test_functional_use_with_unknown_batch_and_length(row):
    layer = row.built()
    model = row.model(layer)
    for sizes in SIZES:
        data = row.data(sizes, masks=True)
        outputs = model(flat_data(data))
        for one, other in zip(arrays(outputs), arrays(row.call(layer, data)), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


@ROWS
@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "xla"])
def test_graphs_compute_what_eager_calls_do(row, compiled):
    layer = row.built()
    specs = [
        tf.TensorSpec([None if isinstance(axis, str) else axis for axis in symbol.shape], dtype)
        for symbol, dtype in _flat_symbols(row)
    ]
    structure = row.data(masks=True)

    @tf.function(input_signature=specs, jit_compile=compiled)
    def run(*flat):
        return row.call(layer, keras.tree.pack_sequence_as(structure, list(flat)))

    for sizes in SIZES[:1] if compiled else SIZES[:2]:
        data = row.data(sizes, masks=True)
        outputs = run(*map(tf.constant, keras.tree.flatten(data)))
        for one, other in zip(arrays(outputs), arrays(row.call(layer, data)), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


def _flat_symbols(row):
    return [(symbol, symbol.dtype) for symbol in keras.tree.flatten(row.symbols(masks=True))]


@ROWS
@pytest.mark.parametrize("policy", POLICIES)
def test_low_precision_is_close_to_float32(row, policy):
    exact = row.built()
    rough = row.built(dtype=policy)
    rough.set_weights([weight.numpy() for weight in exact.weights])
    data = row.data(masks=True)
    tolerance = TOLERANCES[rough.compute_dtype]
    for one, other in zip(row.call(rough, data), row.call(exact, data), strict=True):
        expected_dtype = row.output_dtype or rough.compute_dtype
        assert keras.backend.standardize_dtype(one.dtype) == expected_dtype
        (one, other) = arrays([one, other])
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())


#: Magnitudes at which a dot product of these widths still fits the dtype.
EXTREMES = {"float32": 1e4, "float16": 40.0, "bfloat16": 1e4}


@ROWS
@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("magnitude", ["zeros", "extreme"])
def test_gradients_are_finite_at_zeros_and_at_extreme_inputs(row, policy, magnitude):
    layer = row.built(dtype=policy)
    scale = 0.0 if magnitude == "zeros" else EXTREMES[layer.compute_dtype]
    data = keras.tree.map_structure(tf.constant, row.data(scale=scale, masks=True))
    watched = [leaf for leaf in keras.tree.flatten(data) if leaf.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = row.call(layer, data)
        # A linear loss of this size keeps the gradients themselves within float16.
        random = [np.random.RandomState(1).randn(*output.shape) for output in outputs]
        pairs = zip(outputs, random, strict=True)
        means = [tf.reduce_mean(tf.cast(x, "float32") * r) for x, r in pairs]
        total = tf.add_n(means)
    assert all(np.isfinite(output).all() for output in arrays(outputs))
    gradients = tape.gradient(total, [*layer.trainable_variables, *watched])
    for gradient in gradients:
        if gradient is not None:
            assert np.isfinite(arrays([tf.convert_to_tensor(gradient)])[0]).all()
