"""Products with a kernel: the road to bfloat16 in hardware, and its numbers."""

import keras
import numpy as np
import pytest
from keras import ops
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import MultiHeadAttention, TransformerEncoderLayer, matmul_precision
from keras_attention.kernels.matmul_precision import Dense, kernel_matmul

RNG = np.random.RandomState(3)
INPUTS = RNG.normal(size=(2, 5, 7)).astype("float32")
KERNEL = RNG.normal(size=(7, 11)).astype("float32")


def round_to_bfloat16(array):
    return np.asarray(tf.cast(tf.cast(array, tf.bfloat16), tf.float32))


def compile_function(function, precision="bfloat16"):
    @tf.function(jit_compile=True, autograph=False)
    def call_function(*arrays):
        with matmul_precision(precision):
            return function(*arrays)

    return call_function


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_are_rounded_and_sums_are_not(transposed):
    kernel = KERNEL.T if transposed else KERNEL
    expected = round_to_bfloat16(INPUTS) @ round_to_bfloat16(KERNEL)
    assert np.abs(expected - INPUTS @ KERNEL).max() > 1e-3
    with matmul_precision("bfloat16"):
        eager = kernel_matmul(tf.constant(INPUTS), tf.constant(kernel), transposed)
    under_xla = compile_function(lambda x, w: kernel_matmul(x, w, transposed))(INPUTS, kernel)
    for found in (eager, under_xla):
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_float32_is_the_default_again_after_the_block():
    with pytest.raises(RuntimeError), matmul_precision("bfloat16"):
        raise RuntimeError
    found = kernel_matmul(tf.constant(INPUTS), tf.constant(KERNEL))
    np.testing.assert_allclose(found, INPUTS @ KERNEL, rtol=1e-6, atol=1e-6)
    with matmul_precision("bfloat16"), matmul_precision("float32"):
        np.testing.assert_array_equal(
            kernel_matmul(tf.constant(INPUTS), tf.constant(KERNEL)), found
        )


def test_another_precision_is_refused():
    with pytest.raises(ValueError, match="`precision` to be.*bfloat16.*Received.*'half'"):
        matmul_precision("half").__enter__()


@pytest.mark.parametrize(("dtype", "precision"), [("float32", "bfloat16"), ("bfloat16", "float32")])
@pytest.mark.parametrize("transposed", [False, True])
def test_xla_is_given_the_product_it_has_hardware_for(dtype, precision, transposed):
    """bfloat16 in and float32 out; what gives bfloat16 it computes in float32."""
    inputs = tf.cast(INPUTS, dtype)
    kernel = tf.cast(KERNEL.T if transposed else KERNEL, dtype)
    traced = compile_function(lambda x, w: kernel_matmul(x, w, transposed), precision)
    program = traced.experimental_get_compiler_ir(inputs, kernel)(stage="hlo")
    (line,) = [line for line in program.splitlines() if " dot(" in line]
    result, operands = line.split(" dot(")
    assert "f32[10,11]" in result
    assert operands.count("bf16[") == 2 and "f32" not in operands
    assert traced(inputs, kernel).dtype == dtype


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_those_of_the_rounded_operands(transposed, dtype):
    kernel = KERNEL.T if transposed else KERNEL
    given = RNG.normal(size=(2, 5, 11)).astype("float32")

    def gradients(inputs, kernel, given):
        with tf.GradientTape() as tape:
            tape.watch([inputs, kernel])
            loss = tf.reduce_sum(kernel_matmul(inputs, kernel, transposed) * given)
        return tape.gradient(loss, [inputs, kernel])

    arrays = [tf.cast(array, dtype) for array in (INPUTS, kernel, given)]
    found = compile_function(gradients, "bfloat16" if dtype == "float32" else "float32")(*arrays)
    inputs, given = round_to_bfloat16(INPUTS), round_to_bfloat16(given)
    to_kernel = np.einsum("bti,bto->io", inputs, given)
    expected = (given @ round_to_bfloat16(KERNEL).T, to_kernel.T if transposed else to_kernel)
    for one, other, array in zip(found, expected, arrays, strict=False):
        assert one.dtype == array.dtype
        np.testing.assert_allclose(tf.cast(one, tf.float32), other, rtol=2e-2, atol=4e-2)


def test_gradients_of_gradients_exist():
    def second(inputs, kernel):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(kernel_matmul(inputs, kernel) ** 2)
            first = inner.gradient(loss, inputs)
            loss = tf.reduce_sum(first**2)
        return outer.gradient(loss, inputs)

    inputs, kernel = tf.constant(INPUTS), tf.constant(KERNEL)
    exact = np.asarray(second(inputs, kernel))
    found = np.asarray(compile_function(second)(inputs, kernel))
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_dense_is_the_dense_of_keras():
    options = {"activation": "relu", "kernel_initializer": keras.initializers.GlorotNormal(1)}
    ours, theirs = Dense(3, name="d", **options), keras.layers.Dense(3, name="d", **options)
    np.testing.assert_array_equal(ours(INPUTS), theirs(INPUTS))
    assert ours.get_config() == theirs.get_config()
    assert Dense(3, use_bias=False)(INPUTS[0]).shape == (5, 3)


def test_a_float16_or_float64_layer_takes_no_notice():
    for dtype in ("float16", "float64"):
        inputs, kernel = (tf.cast(array, dtype) for array in (INPUTS, KERNEL))
        found = compile_function(lambda x, w: kernel_matmul(x, w))(inputs, kernel)
        tolerance = 1e-2 if dtype == "float16" else 1e-10
        np.testing.assert_allclose(
            found, ops.matmul(inputs, kernel), rtol=tolerance, atol=tolerance
        )


def test_layers_multiply_as_they_are_told():
    layer = TransformerEncoderLayer(num_heads=2, feed_forward_dim=16, dropout=0.0)
    inputs = tf.constant(RNG.normal(size=(3, 5, 8)).astype("float32"))
    exact = np.asarray(layer(inputs))
    with matmul_precision("bfloat16"):
        eager = np.asarray(layer(inputs))
    under_xla = compile_function(lambda x: layer(x))(inputs)
    assert 1e-4 < np.abs(eager - exact).max() < 0.1
    np.testing.assert_allclose(under_xla, eager, rtol=0.02, atol=0.02)


@pytest.mark.thorough
def test_training_under_xla_in_mixed_precision_follows_float32():
    losses = {}
    for policy in ("float32", "mixed_bfloat16"):
        set_seed(5)
        inputs = keras.Input((5, 8))
        hidden = MultiHeadAttention(2, 4, dtype=policy)(inputs, inputs)
        outputs = keras.layers.Dense(1, dtype="float32")(hidden)
        model = keras.Model(inputs, outputs)
        model.compile("adam", "mse", jit_compile=True)
        data = np.random.RandomState(0).normal(size=(13, 5, 8)).astype("float32")
        history = model.fit(data, data[..., :1], epochs=5, verbose=0, shuffle=False)
        losses[policy] = history.history["loss"]
    assert losses["float32"][-1] < 0.95 * losses["float32"][0]
    np.testing.assert_allclose(losses["mixed_bfloat16"], losses["float32"], rtol=0.02)


@pytest.mark.parametrize("rows", [1, 5, None])
@pytest.mark.parametrize("traced", [False, True])
def test_the_rows_of_a_step_may_be_transposed_in_place_of_the_matrix(rows, traced):
    def multiply(x):
        return kernel_matmul(x, tf.constant(KERNEL.T), transposed=True, is_step=True)

    given = INPUTS.reshape(-1, 7)[: rows or 10]
    if traced:
        multiply = tf.function(multiply, [tf.TensorSpec([rows, 7])], autograph=False)
        names = {op.type for op in multiply.get_concrete_function().graph.get_operations()}
        assert "XlaOptimizationBarrier" not in names
    np.testing.assert_allclose(multiply(tf.constant(given)), given @ KERNEL, rtol=1e-5)


def test_a_product_of_one_row_is_stored_under_xla_and_has_a_gradient():
    def gradients(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            total = tf.reduce_sum(kernel_matmul(x, w) ** 2)
        return tape.gradient(total, [x, w])

    x, w = tf.constant(INPUTS[0, :1]), tf.constant(KERNEL)
    for jit_compile, count in ((True, 1), (None, 0)):
        function = tf.function(gradients, jit_compile=jit_compile, autograph=False)
        operations = function.get_concrete_function(x, w).graph.get_operations()
        assert sum(op.type == "XlaOptimizationBarrier" for op in operations) == count
        for found, expected in zip(function(x, w), gradients(x, w), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
