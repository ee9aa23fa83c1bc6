"""Controllers of a Neural Turing Machine whose steps and gradients are written out.

The controller may be any Keras cell or layer. The two of the paper, an LSTM (or a stack of them)
and a feed-forward layer, are also here as plain functions with their gradients, for the loop of
`sequence`, which takes what depends on the inputs alone, and all gradients of kernels, out of it.

    LSTM:          i, f, g, o = [sig sig tanh sig](x W + u U + b)   c' = f c + i g   h = o tanh(c')
    feed-forward:  h = activation(x W + u U + b)

Code name -> meaning: `projected` -> x W + b of the first layer, for all steps at once; `fed` ->
the part of the controller's input that is known only inside the loop, the previous readings.
"""

import keras
from keras import ops

from keras_attention.precision import at_least_float32
from keras_attention.written_gradient import summed_product

ACTIVATIONS = {
    keras.activations.tanh: lambda hidden: 1.0 - hidden * hidden,
    keras.activations.sigmoid: lambda hidden: hidden * (1.0 - hidden),
    keras.activations.relu: lambda hidden: ops.cast(hidden > 0, hidden.dtype),
    keras.activations.linear: ops.ones_like,
}


def written_out(controller, training):
    """Returns the controller with its gradient written out, or None if it is not one of them.

    Args:
        controller: A built Keras cell or layer.
        training: Whether the call trains: dropout is not written out.
    """
    if type(controller) is keras.layers.Dense:
        plain = controller.activation in ACTIVATIONS and not controller.quantization_mode
        return FeedForward(controller) if plain else None
    cells = controller.cells if type(controller) is keras.layers.StackedRNNCells else [controller]
    if all(_is_plain_lstm(cell, training) for cell in cells):
        return LSTMStack(cells)
    return None


def _is_plain_lstm(cell, training):
    return (
        type(cell) is keras.layers.LSTMCell
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
        and not (training and (cell.dropout or cell.recurrent_dropout))
    )


def product(inputs, kernel):
    """Returns `inputs @ kernel`, multiplied in the kernel's dtype, in at least float32."""
    return at_least_float32(ops.matmul(ops.cast(inputs, kernel.dtype), kernel))


class FeedForward:
    """A dense layer as controller; its state is empty.

    Args:
        layer: A built `keras.layers.Dense`.
    """

    def __init__(self, layer):
        self.layer = layer
        self.slope = ACTIVATIONS[layer.activation]
        self.saved_sizes = ()

    def project(self, inputs, dtype):
        """Returns the first layer's `x W + b` for inputs `(batch, time, input_dim)`."""
        return projected(inputs, self.layer.kernel, self.layer.bias, dtype)

    def weights(self, input_dim, dtype):
        """Returns the kernels that the loop needs, in `dtype`."""
        return [ops.cast(self.layer.kernel, dtype)[input_dim:]]

    def step(self, projected_step, fed, states, weights):
        """Returns the hidden vector, the new states, and what the gradient needs."""
        hidden = self.layer.activation(projected_step + product(fed, weights[0]))
        return hidden, [], []

    def backward_weights(self, weights):
        """Returns the weights as `step_gradient` wants them, turned once and not in every step."""
        return [ops.transpose(weights[0])]

    def step_gradient(self, given, given_states, keep, now, weights):
        """Returns the gradients of `projected_step`, of `fed` and of the states before.

        Args:
            given: Gradient of the hidden vector.
            given_states: Gradients of the new states.
            keep: `(batch, 1)`, 0 where the step was masked and copied the states.
            now: Dict with `hidden`, `states` before and after, and `saved`.
            weights: What `backward_weights` returned.
        """
        inside = given * keep * self.slope(now["hidden"])
        return [inside], product(inside, weights[0]), []

    def weight_gradients(self, inside, fed, states, weights):
        """Returns the gradients of `weights` from those of all steps."""
        return [ops.cast(summed_product(fed, inside[0]), weights[0].dtype)]


class LSTMStack:
    """LSTM cells, each on top of the other; the state is h and c of each, in turn.

    Args:
        cells: Built `keras.layers.LSTMCell`s with their default activations.
    """

    def __init__(self, cells):
        self.cells = cells

    def project(self, inputs, dtype):
        """Returns the first layer's `x W + b` for inputs `(batch, time, input_dim)`."""
        return projected(inputs, self.cells[0].kernel, self.cells[0].bias, dtype)

    def weights(self, input_dim, dtype):
        """Returns kernels over `[fed; h]`, and the biases of all layers but the first."""
        found = []
        for number, cell in enumerate(self.cells):
            kernel = ops.cast(cell.kernel, dtype)[input_dim if number == 0 else 0 :]
            found.append(ops.concatenate([kernel, ops.cast(cell.recurrent_kernel, dtype)]))
        for cell in self.cells[1:]:
            size = 4 * cell.units
            bias = ops.zeros((size,), dtype) if cell.bias is None else ops.cast(cell.bias, dtype)
            found.append(bias)
        return found

    def step(self, projected_step, fed, states, weights):
        """Returns the hidden vector, the new states, and what the gradient needs."""
        new_states, saved = [], []
        for number, cell in enumerate(self.cells):
            hidden, carry = states[2 * number], states[2 * number + 1]
            inside = product(ops.concatenate([fed, hidden], axis=-1), weights[number])
            inside = inside + (
                projected_step
                if number == 0
                else at_least_float32(weights[len(self.cells) + number - 1])
            )
            units = cell.units
            entry, forget = (
                ops.sigmoid(inside[:, :units]),
                ops.sigmoid(inside[:, units : 2 * units]),
            )
            candidate = ops.tanh(inside[:, 2 * units : 3 * units])
            leave = ops.sigmoid(inside[:, 3 * units :])
            carry = forget * carry + entry * candidate
            fed = leave * ops.tanh(carry)
            new_states += [fed, carry]
            saved.append(ops.concatenate([entry, forget, candidate, leave], axis=-1))
        return fed, new_states, saved

    def backward_weights(self, weights):
        """Returns the weights as `step_gradient` wants them, turned once and not in every step."""
        return [ops.transpose(kernel) for kernel in weights[: len(self.cells)]]

    def step_gradient(self, given, given_states, keep, now, weights):
        """Returns the gradients of `projected_step`, of `fed` and of the states before."""
        insides, before = [None] * len(self.cells), [None] * (2 * len(self.cells))
        for number in reversed(range(len(self.cells))):
            units = self.cells[number].units
            given_hidden, given_carry = given_states[2 * number : 2 * number + 2]
            gates = now["saved"][number]
            entry, forget = gates[:, :units], gates[:, units : 2 * units]
            candidate, leave = gates[:, 2 * units : 3 * units], gates[:, 3 * units :]
            bent = ops.tanh(now["after"][2 * number + 1])
            of_hidden = (given + given_hidden) * keep
            of_carry = given_carry * keep + of_hidden * leave * (1.0 - bent * bent)
            inside = ops.concatenate(
                [
                    of_carry * candidate * entry * (1.0 - entry),
                    of_carry * now["before"][2 * number + 1] * forget * (1.0 - forget),
                    of_carry * entry * (1.0 - candidate * candidate),
                    of_hidden * bent * leave * (1.0 - leave),
                ],
                axis=-1,
            )
            both = product(inside, weights[number])
            width = both.shape[-1] - units
            copied = 1.0 - keep
            before[2 * number] = both[:, width:] + copied * given_hidden
            before[2 * number + 1] = of_carry * forget + copied * given_carry
            insides[number], given = inside, both[:, :width]
        return insides, given, before

    def weight_gradients(self, insides, fed, states, weights):
        """Returns the gradients of `weights` from those of all steps.

        Args:
            insides: Gradient of every layer's pre-activations, `(batch, time, 4 * units)`.
            fed: `(batch, time, fed_dim)`, what the first layer was fed.
            states: Pairs of sequences, every state before and after each step.
            weights: What `weights` returned.
        """
        kernels, biases = [], []
        for number, inside in enumerate(insides):
            before, after = states[2 * number]
            both = ops.concatenate([fed, before], axis=-1)
            kernels.append(ops.cast(summed_product(both, inside), weights[number].dtype))
            if number:
                bias = ops.sum(inside, axis=(0, 1))
                biases.append(ops.cast(bias, weights[number].dtype))
            fed = after
        return kernels + biases


def projected(inputs, kernel, bias, dtype):
    """Returns `inputs W + b`, where W has further rows that wait for what is fed."""
    input_dim = inputs.shape[-1]
    kernel = ops.cast(kernel, dtype)[:input_dim]
    flat = product(ops.reshape(inputs, (-1, input_dim)), kernel)
    if bias is not None:
        flat = flat + ops.cast(bias, flat.dtype)
    return ops.reshape(flat, (*ops.shape(inputs)[:-1], kernel.shape[-1]))
