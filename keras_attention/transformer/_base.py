"""Base class of the Transformer layers: residual sublayers and the feed-forward network.

post:  x = LN(x + drop(sublayer(x)))         Vaswani et al. 2017, section 3.1
pre:   x = x + drop(sublayer(LN(x)))         Xiong et al. 2020 (https://arxiv.org/abs/2002.04745)
FFN(x) = activation(x W_1 + b_1) W_2 + b_2   section 3.3
"""

from typing import Unpack

import keras
from keras import activations, ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.registry import resolve_optional_piece
from keras_attention._utils.shapes import apply_to_rows
from keras_attention._utils.tensor_types import (
    Activation,
    Config,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorLike,
)
from keras_attention.attention._windows import window_radius
from keras_attention.attention.multi_head import MultiHeadAttention
from keras_attention.attention.relative_position_embedding import RelativePositionEmbedding
from keras_attention.attention.rotary import RotaryEmbedding
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.kernels.layer_normalization import LayerNormalization
from keras_attention.kernels.matmul_precision import Dense

NORMALIZATIONS = ("post", "pre")
#: Added to variances. Larger for float16, whose maximum is 65504: a constant vector has variance 0,
#: so each of up to three normalizations multiplies its gradient by 1 / sqrt(epsilon).
EPSILON = {"float16": 1e-4}


class TransformerLayer(Layer):
    """Attention sublayers and a feed-forward network, each with a residual connection.

    Args: see `TransformerEncoderLayer`; a subclass names its `sublayers`, the last of which is
        the feed-forward network.
    """

    sublayers = ()

    def __init__(
        self,
        num_heads: int,
        feed_forward_dim: int | None,
        dropout: float = 0.1,
        normalization: str = "post",
        activation: Activation = "relu",
        window: int | None = None,
        rotary: RotaryEmbedding | Config | None = None,
        use_bias: bool = False,
        seed: int | None = None,
        relative_keys: RelativePositionEmbedding | Config | None = None,
        relative_values: RelativePositionEmbedding | Config | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.num_heads = validation.check_positive_int(owner, "num_heads", num_heads)
        self.feed_forward_dim = validation.check_positive_int(
            owner, "feed_forward_dim", feed_forward_dim
        )
        self.dropout = validation.check_number_in_range(
            owner, "dropout", dropout, 0, 1, exclude_high=True
        )
        self.normalization = validation.check_one_of(
            owner, "normalization", normalization, NORMALIZATIONS
        )
        self.activation = activations.get(activation)
        self.window = window
        self._radius = None if window is None else window_radius(owner, window)
        self.rotary = resolve_optional_piece(owner, "rotary", RotaryEmbedding, rotary)
        self.relative_keys = resolve_optional_piece(
            owner, "relative_keys", RelativePositionEmbedding, relative_keys
        )
        self.relative_values = resolve_optional_piece(
            owner, "relative_values", RelativePositionEmbedding, relative_values
        )
        self.use_bias = bool(use_bias)
        self.seed = seed
        for index, name in enumerate(self.sublayers):
            drop = CounterDropout(
                self.dropout,
                seed=None if seed is None else seed + index,
                dtype=self.dtype_policy,
                name=f"{name}_dropout",
            )
            norm = make_normalization(self, f"{name}_normalization")
            setattr(self, f"{name}_dropout", drop)
            setattr(self, f"{name}_normalization", norm)
        self.intermediate_dense = self._dense(
            self.feed_forward_dim, "intermediate_dense", self.activation
        )

    def _dense(self, units, name, activation=None):
        return Dense(units, activation=activation, dtype=self.dtype_policy, name=name)

    def make_attention(
        self, dim: int, name: str, uses_positions: bool = False
    ) -> MultiHeadAttention:
        """Returns a `MultiHeadAttention` for vectors of width `dim`, self-attention or not."""
        names = ("rotary", "relative_keys", "relative_values") if uses_positions else ()
        return MultiHeadAttention(
            self.num_heads,
            dim // self.num_heads,
            output_dim=dim,
            use_bias=self.use_bias,
            **{name: getattr(self, name) for name in names},
            dtype=self.dtype_policy,
            name=name,
        )

    def build_shared(self, inputs_shape: Shape) -> None:
        """Builds normalizations and the feed-forward network."""
        dim = inputs_shape[-1]
        for name in self.sublayers:
            getattr(self, f"{name}_normalization").build((None, None, dim))
        self.feed_forward_output_dense = self._dense(dim, "feed_forward_output_dense")
        self.intermediate_dense.build((None, dim))
        self.feed_forward_output_dense.build((None, self.feed_forward_dim))

    def get_sublayer_input(self, name: str, inputs: TensorLike) -> TensorLike:
        """Returns the input of a sublayer: normalized for "pre", unchanged for "post"."""
        if self.normalization == "pre":
            return getattr(self, f"{name}_normalization")(inputs)
        return inputs

    def add_residual(
        self, name: str, inputs: TensorLike, outputs: TensorLike, training: bool | None = None
    ) -> Tensor:
        """Returns the inputs of a sublayer plus its outputs, normalized if that comes last."""
        outputs = getattr(self, f"{name}_dropout")(outputs, training=training)
        if self.normalization == "pre":
            return inputs + outputs
        total = at_least_float32(inputs) + at_least_float32(outputs)
        return getattr(self, f"{name}_normalization")(total)  # rounded once, after it

    def apply_feed_forward(self, inputs: TensorLike, training: bool | None = None) -> Tensor:
        """Returns the feed-forward network with its residual connection."""
        outputs = self.feed_forward(self.get_sublayer_input("feed_forward", inputs))
        return self.add_residual("feed_forward", inputs, outputs, training)

    def feed_forward(self, inputs: TensorLike) -> Tensor:
        """Returns the feed-forward network of each vector, as products of two matrices."""

        def apply(rows):
            return self.feed_forward_output_dense(self.intermediate_dense(rows))

        return apply_to_rows(apply, inputs)

    def window_mask(self, length: Size) -> Tensor | None:
        """Returns which positions may attend to each other, `(1, length, length)`."""
        if self._radius is None:
            return None
        places = ops.arange(length, dtype="int32")
        return ops.abs(places[:, None] - places[None, :])[None] <= self._radius

    def check_inputs(self, shape: Shape, **others: Shape) -> None:
        """Raises unless the layer can be called with `inputs` and `others` of these shapes."""
        for name, given in {"inputs": shape, **others}.items():
            validation.check_axes(type(self).__name__, name, given, "(batch, length, dim)")
        if shape[-1] % self.num_heads:
            raise ValueError(
                f"{type(self).__name__} expects `num_heads` to divide the width of `inputs`. "
                f"Received: num_heads={self.num_heads}, inputs.shape={tuple(shape)}"
            )
        if others:
            validation.check_same_size(type(self).__name__, 0, inputs=shape, **others)
        validation.check_built_dims(self, inputs=shape, **others)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "feed_forward_dim": self.feed_forward_dim,
            "dropout": self.dropout,
            "normalization": self.normalization,
            "activation": activations.serialize(self.activation),
            "window": self.window,
            "rotary": keras.saving.serialize_keras_object(self.rotary),
            "use_bias": self.use_bias,
            "seed": self.seed,
            "relative_keys": keras.saving.serialize_keras_object(self.relative_keys),
            "relative_values": keras.saving.serialize_keras_object(self.relative_values),
        }


def make_normalization(layer, name: str):
    """Returns a `LayerNormalization` of the last axis with the dtype policy of `layer`."""
    epsilon = EPSILON.get(layer.compute_dtype, 1e-5)
    return LayerNormalization(epsilon=epsilon, dtype=layer.dtype_policy, name=name)
