"""Controllers of a Neural Turing Machine with custom gradients (VJPs).

The controller may be any Keras cell or layer. The two of the paper, an LSTM (or a stack of them)
and a feed-forward layer, are also here as plain functions with their gradients. The loop of
`ntm_sequence` uses them to move all work that depends only on the inputs, and all gradients of
kernels, out of the loop.

    LSTM:          i, f, g, o = [sig sig tanh sig](x W + u U + b)   c' = f c + i g   h = o tanh(c')
    feed-forward:  h = activation(x W + u U + b)

Code name -> meaning: `project_inputs` -> x W + b of the first layer, for all steps at once;
`feedback` -> the part of the controller's input that is known only inside the loop, the previous
reads.
"""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import DType, Tensor, TensorLike
from keras_attention.kernels.custom_gradients import sum_outer_products

ACTIVATION_SLOPES: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    keras.activations.tanh: lambda hidden: 1.0 - hidden * hidden,
    keras.activations.sigmoid: lambda hidden: hidden * (1.0 - hidden),
    keras.activations.relu: lambda hidden: ops.cast(hidden > 0, hidden.dtype),
    keras.activations.linear: ops.ones_like,
}


def make_custom_gradient_controller(
    controller: keras.layers.Layer, training: bool | None
) -> "FeedForwardVJP | LSTMStackVJP | None":
    """Returns the controller with its custom gradient, or None if it has none here.

    Args:
        controller: A built Keras cell or layer.
        training: Whether the call trains: dropout is not supported here.
    """
    if type(controller) is keras.layers.Dense:
        plain = controller.activation in ACTIVATION_SLOPES and not controller.quantization_mode
        return FeedForwardVJP(controller) if plain else None
    cells = controller.cells if type(controller) is keras.layers.StackedRNNCells else [controller]
    if all(_is_plain_lstm(cell, training) for cell in cells):
        return LSTMStackVJP(cells)
    return None


def _is_plain_lstm(cell, training):
    return (
        type(cell) is keras.layers.LSTMCell
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
        and not (training and (cell.dropout or cell.recurrent_dropout))
    )


def matmul_float32(inputs: TensorLike, kernel: TensorLike) -> Tensor:
    """Returns `inputs @ kernel`, multiplied in the kernel's dtype and at least float32."""
    return at_least_float32(ops.matmul(ops.cast(inputs, kernel.dtype), kernel))


class FeedForwardVJP:
    """A dense layer as controller; its state is empty.

    Args:
        layer: A built `keras.layers.Dense`.
    """

    layer: keras.layers.Layer
    slope: Callable[[Tensor], Tensor]
    saved_sizes: tuple[int, ...]

    def __init__(self, layer: keras.layers.Layer) -> None:
        self.layer = layer
        self.slope = ACTIVATION_SLOPES[layer.activation]
        self.saved_sizes = ()

    def project(self, inputs: TensorLike, dtype: DType) -> Tensor:
        """Returns the first layer's `x W + b` for inputs `(batch, time, input_dim)`."""
        return project_inputs(inputs, self.layer.kernel, self.layer.bias, dtype)

    def weights(self, input_dim: int, dtype: DType) -> list[Tensor]:
        """Returns the kernels that the loop needs, in `dtype`."""
        return [ops.cast(self.layer.kernel, dtype)[input_dim:]]

    def step(
        self,
        projected_step: TensorLike,
        feedback: TensorLike,
        states: Sequence[TensorLike],
        weights: Sequence[TensorLike],
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Returns the hidden vector, the new states, and the residuals of the gradient."""
        hidden = self.layer.activation(projected_step + matmul_float32(feedback, weights[0]))
        return hidden, [], []

    def backward_weights(self, weights: Sequence[TensorLike]) -> list[Tensor]:
        """Returns the weights that `step_gradient` needs, transposed once for all steps."""
        return [ops.transpose(weights[0])]

    def step_gradient(
        self,
        cotangent: TensorLike,
        state_cotangents: Sequence[TensorLike],
        is_valid: bool,
        residuals: Sequence[TensorLike],
        weights: Sequence[TensorLike],
    ) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """Returns the gradients of `projected_step`, of `feedback` and of the old states.

        Args:
            cotangent: Gradient of the hidden vector.
            state_cotangents: Gradients of the new states.
            is_valid: `(batch, 1)`, 0 where the step was masked and copied the states.
            residuals: Dict with `hidden`, `states` before and after, and `saved`.
            weights: The result of `backward_weights`.
        """
        inside = cotangent * is_valid * self.slope(residuals["hidden"])
        return [inside], matmul_float32(inside, weights[0]), []

    def weight_gradients(
        self,
        inside: Sequence[TensorLike],
        feedback: TensorLike,
        states: Sequence[TensorLike],
        weights: Sequence[TensorLike],
    ) -> list[Tensor]:
        """Returns the gradients of `weights` from those of all steps."""
        return [ops.cast(sum_outer_products(feedback, inside[0]), weights[0].dtype)]


class LSTMStackVJP:
    """LSTM cells on top of each other; the state is h and c of each, in turn.

    Args:
        cells: Built `keras.layers.LSTMCell`s with their default activations.
    """

    def __init__(self, cells: Sequence[keras.layers.Layer]) -> None:
        self.cells = cells

    def project(self, inputs: TensorLike, dtype: DType) -> Tensor:
        """Returns the first layer's `x W + b` for inputs `(batch, time, input_dim)`."""
        return project_inputs(inputs, self.cells[0].kernel, self.cells[0].bias, dtype)

    def weights(self, input_dim: int, dtype: DType) -> list[Tensor]:
        """Returns kernels over `[feedback; h]`, and the biases of all layers but the first."""
        found = []
        for number, cell in enumerate(self.cells):
            kernel = ops.cast(cell.kernel, dtype)[input_dim if number == 0 else 0 :]
            found.append(ops.concatenate([kernel, ops.cast(cell.recurrent_kernel, dtype)]))
        for cell in self.cells[1:]:
            size = 4 * cell.units
            bias = ops.zeros((size,), dtype) if cell.bias is None else ops.cast(cell.bias, dtype)
            found.append(bias)
        return found

    def step(
        self,
        projected_step: TensorLike,
        feedback: TensorLike,
        states: Sequence[TensorLike],
        weights: Sequence[TensorLike],
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Returns the hidden vector, the new states, and the residuals of the gradient."""
        new_states, saved = [], []
        for number, cell in enumerate(self.cells):
            hidden, cell_state = states[2 * number], states[2 * number + 1]
            inside = matmul_float32(ops.concatenate([feedback, hidden], axis=-1), weights[number])
            inside = inside + (
                projected_step
                if number == 0
                else at_least_float32(weights[len(self.cells) + number - 1])
            )
            units = cell.units
            input_gate, forget_gate = (
                ops.sigmoid(inside[:, :units]),
                ops.sigmoid(inside[:, units : 2 * units]),
            )
            candidate = ops.tanh(inside[:, 2 * units : 3 * units])
            output_gate = ops.sigmoid(inside[:, 3 * units :])
            cell_state = forget_gate * cell_state + input_gate * candidate
            feedback = output_gate * ops.tanh(cell_state)
            new_states += [feedback, cell_state]
            saved.append(
                ops.concatenate([input_gate, forget_gate, candidate, output_gate], axis=-1)
            )
        return feedback, new_states, saved

    def backward_weights(self, weights: Sequence[TensorLike]) -> list[Tensor]:
        """Returns the weights that `step_gradient` needs, transposed once for all steps."""
        return [ops.transpose(kernel) for kernel in weights[: len(self.cells)]]

    def step_gradient(
        self,
        cotangent: TensorLike,
        state_cotangents: Sequence[TensorLike],
        is_valid: bool,
        residuals: Sequence[TensorLike],
        weights: Sequence[TensorLike],
    ) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """Returns the gradients of `projected_step`, of `feedback` and of the old states."""
        insides, before = [None] * len(self.cells), [None] * (2 * len(self.cells))
        for number in reversed(range(len(self.cells))):
            units = self.cells[number].units
            hidden_cotangent, cell_cotangent = state_cotangents[2 * number : 2 * number + 2]
            gates = residuals["saved"][number]
            input_gate, forget_gate = gates[:, :units], gates[:, units : 2 * units]
            candidate, output_gate = gates[:, 2 * units : 3 * units], gates[:, 3 * units :]
            tanh_cell = ops.tanh(residuals["after"][2 * number + 1])
            of_hidden = (cotangent + hidden_cotangent) * is_valid
            of_carry = cell_cotangent * is_valid + of_hidden * output_gate * (
                1.0 - tanh_cell * tanh_cell
            )
            inside = ops.concatenate(
                [
                    of_carry * candidate * input_gate * (1.0 - input_gate),
                    of_carry
                    * residuals["before"][2 * number + 1]
                    * forget_gate
                    * (1.0 - forget_gate),
                    of_carry * input_gate * (1.0 - candidate * candidate),
                    of_hidden * tanh_cell * output_gate * (1.0 - output_gate),
                ],
                axis=-1,
            )
            both = matmul_float32(inside, weights[number])
            width = both.shape[-1] - units
            copied = 1.0 - is_valid
            before[2 * number] = both[:, width:] + copied * hidden_cotangent
            before[2 * number + 1] = of_carry * forget_gate + copied * cell_cotangent
            insides[number], cotangent = inside, both[:, :width]
        return insides, cotangent, before

    def weight_gradients(
        self,
        insides: Sequence[TensorLike],
        feedback: TensorLike,
        states: Sequence[TensorLike],
        weights: Sequence[TensorLike],
    ) -> list[Tensor]:
        """Returns the gradients of `weights` from those of all steps.

        Args:
            insides: Gradient of every layer's pre-activations, `(batch, time, 4 * units)`.
            feedback: `(batch, time, feedback_dim)`, the feedback input of the first layer.
            states: Pairs of sequences, every state before and after each step.
            weights: The result of `weights`.
        """
        kernels, biases = [], []
        for number, inside in enumerate(insides):
            before, after = states[2 * number]
            both = ops.concatenate([feedback, before], axis=-1)
            kernels.append(ops.cast(sum_outer_products(both, inside), weights[number].dtype))
            if number:
                bias = ops.sum(inside, axis=(0, 1))
                biases.append(ops.cast(bias, weights[number].dtype))
            feedback = after
        return kernels + biases


def project_inputs(
    inputs: TensorLike, kernel: TensorLike, bias: TensorLike | None, dtype: DType
) -> Tensor:
    """Returns `inputs W + b`, where the further rows of W belong to the feedback."""
    input_dim = inputs.shape[-1]
    kernel = ops.cast(kernel, dtype)[:input_dim]
    flat = matmul_float32(ops.reshape(inputs, (-1, input_dim)), kernel)
    if bias is not None:
        flat = flat + ops.cast(bias, flat.dtype)
    return ops.reshape(flat, (*get_shape(inputs)[:-1], kernel.shape[-1]))
