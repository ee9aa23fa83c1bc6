"""What differs between the backends, so that the tests need not know: gradients, compilation."""

import keras
import numpy as np
import pytest
from layer_rows import arrays

BACKEND = keras.backend.backend()

#: For promises about SavedModels and `tf.function`; the reason is printed for every skip.
tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason=f"speaks of TensorFlow alone; the backend is {BACKEND}"
)


def policies(*names):
    """Returns the dtype policies to test, for `parametrize`.

    All but the first wait for `make test-thorough`; on JAX for `.ci/jax -m thorough`.
    """
    return [names[0], *(pytest.param(name, marks=pytest.mark.thorough) for name in names[1:])]


def tensors(data):
    """Returns the data with every array as a tensor of the backend."""
    return keras.tree.map_structure(keras.ops.convert_to_tensor, data)


class _Attach(keras.layers.Layer):
    """Returns its input, with the mask attached as an embedding would."""

    def __init__(self, mask):
        super().__init__(autocast=False)
        self.mask = mask

    def compute_mask(self, inputs, previous_mask=None):
        return self.mask

    def call(self, inputs):
        return inputs * 1


def attach(array, mask):
    """Returns the array as a tensor that carries the mask."""
    return _Attach(mask)(keras.ops.convert_to_tensor(array))


def get_mask(tensor):
    """Returns the mask that a tensor carries, or None."""
    return getattr(tensor, "_keras_mask", None)


def squares(outputs):
    """Returns the sum of the squares of all outputs, in float32."""
    return sum(keras.ops.sum(keras.ops.cast(output, "float32") ** 2) for output in outputs)


def means(outputs):
    """Returns a linear loss, of a size that keeps the gradients themselves within float16."""
    total = 0.0
    for output in outputs:
        random = np.random.RandomState(1).randn(*output.shape).astype("float32")
        total = total + keras.ops.mean(keras.ops.cast(output, "float32") * random)
    return total


def outputs_and_gradients(row, layer, data, loss=squares):
    """Returns the outputs and the gradients of `loss(outputs)`, all as arrays.

    Returns:
        Three lists: the outputs; the gradients of the trainable weights; those of the inputs of
        floats. Where there is no path the gradient is zeros.
    """
    outputs, weights, inputs = gradients(row, layer, data, loss)
    return arrays(outputs), arrays(weights), arrays(inputs)


def gradients(row, layer, data, loss=squares):
    """Returns what `outputs_and_gradients` does, as tensors; may be compiled."""
    data = tensors(data)
    flat = keras.tree.flatten(data)
    places = [index for index, leaf in enumerate(flat) if _is_float(leaf)]

    def call(floats):
        leaves = list(flat)
        for index, leaf in zip(places, floats, strict=True):
            leaves[index] = leaf
        return row.call(layer, keras.tree.pack_sequence_as(data, leaves))

    differentiate = {"tensorflow": _tape, "jax": _jax_gradients, "torch": _torch_gradients}[BACKEND]
    return differentiate(call, layer, [flat[index] for index in places], loss)


def _tape(call, layer, floats, loss):
    import tensorflow as tf

    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        outputs = call(floats)
        total = loss(outputs)
    gradients = tape.gradient(
        total, [*variables, *floats], unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    return outputs, gradients[: len(variables)], gradients[len(variables) :]


def _jax_gradients(call, layer, floats, loss):
    import jax

    variables = layer.trainable_variables

    def objective(values, floats):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            outputs = call(floats)
            return loss(outputs), outputs

    gradients = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)
    (_, outputs), (weights, inputs) = gradients([v.value for v in variables], floats)
    return outputs, weights, inputs


def _torch_gradients(call, layer, floats, loss):
    floats = [tensor.detach().requires_grad_() for tensor in floats]
    variables = [variable.value for variable in layer.trainable_variables]
    for tensor in variables:
        tensor.grad = None
    outputs = call(floats)
    total = loss(outputs)
    if total.requires_grad:
        total.backward()
    given = [
        keras.ops.zeros_like(tensor) if tensor.grad is None else tensor.grad
        for tensor in (*variables, *floats)
    ]
    return outputs, given[: len(variables)], given[len(variables) :]


def compile_call(row, layer, call, xla):
    """Returns `call(data)` compiled for data like the row's, with masks.

    On TensorFlow once, for every batch and length; with `xla` by XLA. JAX knows XLA alone and
    compiles each shape; PyTorch is not compiled, and the test is skipped.
    """
    if BACKEND == "torch":
        pytest.skip("compiles, which Keras on PyTorch does not")
    structure = row.data(masks=True)

    def run(*flat):
        return call(keras.tree.pack_sequence_as(structure, list(flat)))

    if BACKEND == "tensorflow":
        import tensorflow as tf

        symbols = keras.tree.flatten(row.symbols(masks=True))
        specs = [tf.TensorSpec(list(symbol.shape), symbol.dtype) for symbol in symbols]
        function = tf.function(run, input_signature=specs, jit_compile=xla)
    else:
        import jax

        def stateless(*flat):
            with keras.StatelessScope():
                return run(*flat)

        function = jax.jit(stateless)
    return lambda data: function(*keras.tree.flatten(tensors(data)))


def _is_float(tensor):
    return "float" in keras.backend.standardize_dtype(tensor.dtype)


def assert_equal(results, others):
    """Asserts that two lists of arrays hold the same numbers, NaN in neither."""
    for one, other in zip(results, others, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, other)
