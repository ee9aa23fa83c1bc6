"""Scores by a multi-layer network over query and key.

    score(q, k) = w . f_n(... f_1(W [q; k] + b) ...) + c

With one hidden layer, tanh and no output bias it is the additive score of Bahdanau et al.
2015 (https://arxiv.org/abs/1409.0473, A.1.2); more layers are the natural extension.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import activations, initializers, ops

from keras_attention import validation
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Tensor,
    TensorLike,
)
from keras_attention.scorers.base import Scorer


@keras.saving.register_keras_serializable(package="keras_attention")
class MLPScorer(Scorer):
    """Scores the concatenation of query and key by a network of any depth.

    Use it if one hidden layer (`AdditiveScorer`) is too weak. The first layer projects the key
    once per source and the query once per step. Every further layer computes
    `query * key * units` numbers.

    Args:
        units: Positive int or sequence of positive ints, the width of each hidden layer.
        activation: Activation after every hidden layer.
        kernel_initializer: Initializer of every kernel.
        bias_initializer: Initializer of every bias.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)` or `(batch, query_dim)`.
        key: Float tensor of shape `(batch, key, key_dim)`.

    Returns:
        Scores of shape `(batch, query, key)` or `(batch, key)` in the compute dtype.

    Raises:
        ValueError: If `units` is empty or holds anything but positive ints.

    Example:

    >>> scorer = MLPScorer(units=[8, 6])
    >>> tuple(scorer(keras.ops.ones((2, 3, 5)), keras.ops.ones((2, 7, 4))).shape)
    (2, 3, 7)

    Reference: extends Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1.2.
    """

    kernels: list[keras.Variable]
    biases: list[keras.Variable]

    def __init__(
        self,
        units: int | Sequence[int],
        activation: Activation = "tanh",
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        widths = list(units) if isinstance(units, (list, tuple)) else [units]
        if not widths:
            raise ValueError(
                "MLPScorer expects `units` to contain at least one hidden layer: without one, all "
                f"queries rank the keys alike. Received: units={units!r}"
            )
        self.units: list[int] = [
            validation.check_positive_int("MLPScorer", "units", width) for width in widths
        ]
        self.activation: ActivationFunction = activations.get(activation)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.bias_initializer: InitializerFunction = initializers.get(bias_initializer)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.query_dim: int | None = query_shape[-1]
        sizes = [query_shape[-1] + key_shape[-1], *self.units, 1]
        self.kernels, self.biases = [], []
        for index, (rows, columns) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            self.kernels.append(
                self.add_weight(
                    (rows, columns),
                    derive_initializer(self.kernel_initializer, index),
                    name=f"kernel_{index}",
                )
            )
            self.biases.append(
                self.add_weight((columns,), self.bias_initializer, name=f"bias_{index}")
            )
        self.built = True

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns the key's part of the first layer, of shape `(batch, key, units[0])`."""
        self.check_ready(key)
        kernel = self.cast_weight(self.kernels[0])[self.query_dim :]
        projected = ops.einsum("bkd,du->bku", ops.cast(key, self.compute_dtype), kernel)
        return projected + self.cast_weight(self.biases[0])

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        kernel = self.cast_weight(self.kernels[0])[: self.query_dim]
        query = ops.einsum("bqd,du->bqu", ops.cast(query, self.compute_dtype), kernel)
        hidden = self.activation(query[:, :, None, :] + prepared[:, None, :, :])
        for kernel, bias in zip(self.kernels[1:-1], self.biases[1:-1], strict=True):
            hidden = ops.einsum("bqkd,du->bqku", hidden, self.cast_weight(kernel))
            hidden = self.activation(hidden + self.cast_weight(bias))
        scores = ops.einsum("bqkd,d->bqk", hidden, self.cast_weight(self.kernels[-1])[:, 0])
        return scores + self.cast_weight(self.biases[-1])[0]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "activation": activations.serialize(self.activation),
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
