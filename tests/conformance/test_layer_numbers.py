"""Every layer: one answer however it is called, in every dtype, with finite gradients."""

import keras
import numpy as np
import pytest
from backends import BACKEND, compile_call, means, outputs_and_gradients, policies
from layer_rows import SIZES, arrays
from layer_table import TABLE

ROWS = pytest.mark.parametrize("row", TABLE, ids=str)

#: Largest difference from float32, relative to the largest entry.
TOLERANCES = {"float16": 5e-3, "bfloat16": 4e-2}
POLICIES = ("float16", "bfloat16", "mixed_float16", "mixed_bfloat16")


@ROWS
def test_symbolic_shapes_and_dtypes_equal_those_of_values(row):
    layer = row.built()
    for masks in (False, True):
        values = row.call(layer, row.data(masks=masks))
        known = row.call(layer, row.symbols(SIZES[0], masks=masks))
        unknown = row.call(layer, row.symbols(masks=masks))
        for value, one, other in zip(values, known, unknown, strict=True):
            assert one.shape == tuple(value.shape)
            assert one.dtype == other.dtype == keras.backend.standardize_dtype(value.dtype)
            sizes = zip(other.shape, value.shape, strict=True)
            assert other.shape[0] is None and all(size in (None, real) for size, real in sizes)


class Subclassed(keras.Model):
    """A model that holds a layer as an attribute."""

    def __init__(self, row, layer):
        super().__init__()
        self.row, self.layer = row, layer

    def call(self, data):
        return self.row.call(self.layer, data)


@ROWS
@pytest.mark.parametrize(
    "xla",
    [
        pytest.param(False, id="graph"),
        pytest.param(True, id="xla", marks=pytest.mark.thorough),
    ],
)
def test_graphs_and_subclassed_models_compute_what_eager_calls_do(row, xla):
    if not xla and BACKEND != "tensorflow":
        pytest.skip(f"a graph without XLA is TensorFlow's; the backend is {BACKEND}")
    layer = row.built()
    run = compile_call(row, layer, Subclassed(row, layer), xla)
    for sizes in SIZES[:1] if xla else SIZES[:2]:
        data = row.data(sizes, masks=True)
        for one, other in zip(arrays(run(data)), arrays(row.call(layer, data)), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@ROWS
def test_low_precision_is_close_to_float32(row):
    exact, data = row.built(), row.data(masks=True)
    expected = arrays(row.call(exact, data))
    for policy in POLICIES:
        rough = row.built(dtype=policy)
        rough.set_weights([np.array(weight) for weight in exact.weights])
        outputs = row.call(rough, data)
        dtypes = row.output_dtype
        dtypes = dtypes if isinstance(dtypes, tuple) else (dtypes,) * len(outputs)
        found = [keras.backend.standardize_dtype(output.dtype) for output in outputs]
        assert found == [dtype or rough.compute_dtype for dtype in dtypes], policy
        tolerance = TOLERANCES[rough.compute_dtype]
        for one, other in zip(arrays(outputs), expected, strict=True):
            np.testing.assert_allclose(
                one, other, rtol=0, atol=tolerance * np.abs(other).max(), err_msg=policy
            )


#: Magnitudes at which a dot product of these widths still fits the dtype.
EXTREMES = {"float32": 1e4, "float16": 40.0, "bfloat16": 1e4}


@ROWS
@pytest.mark.parametrize("policy", policies("float32", "mixed_float16", "mixed_bfloat16"))
def test_gradients_are_finite_at_zeros_and_at_extreme_inputs(row, policy):
    layer = row.built(dtype=policy)
    for scale in (0.0, EXTREMES[layer.compute_dtype]):
        data = row.data(scale=scale, masks=True)
        outputs, weights, inputs = outputs_and_gradients(row, layer, data, means)
        for name, results in {"outputs": outputs, "weights": weights, "inputs": inputs}.items():
            for result in results:
                assert np.isfinite(result).all(), f"{name} at {scale}"
