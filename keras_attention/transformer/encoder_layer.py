"""The encoder layer of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x = LN(x + drop(MultiHead(x, x, x)))
    x = LN(x + drop(FFN(x)))                                 section 3.1
    restricted: position i attends to the positions j with |i - j| <= radius  section 4

Code name -> paper name: `num_heads` -> h, `feed_forward_dim` -> d_ff, `inputs` -> x, `window` ->
the neighborhood of size r = 2 radius + 1. For pre-normalization see `_base`.
"""

import keras

from keras_attention import validation
from keras_attention._utils.base_layer import bind_call
from keras_attention._utils.masked_sequences import zero_masked
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
)
from keras_attention.attention.multi_head import MultiHeadAttention
from keras_attention.transformer._base import TransformerLayer


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEncoderLayer(TransformerLayer):
    """Attends from every position to all others, then transforms each position.

    Stack it after an embedding with positions to encode a sentence. With
    `normalization="pre"` end the stack with a `keras.layers.LayerNormalization`; with "post" add
    none.

    Args:
        num_heads: Positive int that divides the width of the inputs.
        feed_forward_dim: Positive int, the width of the feed-forward network's hidden layer.
        dropout: Float in [0, 1), the rate for the output of each sublayer.
        normalization: "post" normalizes after each addition, as in the paper; "pre" normalizes
            the input of each sublayer and trains without warm-up.
        activation: Activation of the hidden layer, a name or a callable.
        window: Odd int, the number of positions in the attention window, including its center;
            None attends to all.
        rotary: Optional `RotaryEmbedding`, which rotates queries and keys by their positions.
        use_bias: Whether the attention's projections have biases; the paper's have none.
        seed: Optional int, the seed of the dropout.
        relative_keys: Optional `RelativePositionEmbedding`, see `MultiHeadAttention`.
        relative_values: Optional `RelativePositionEmbedding`, see `MultiHeadAttention`.

    Call arguments:
        inputs: Float tensor `(batch, length, dim)`.
        mask: Boolean `(batch, length)`, True at positions that attend and may be attended to.
        inputs_mask: Used if `mask` is None: Keras passes the mask attached to `inputs` here
            when the layer is called with another tensor too.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Whether dropout is applied.

    Returns:
        A tensor of the shape of `inputs`, or the pair of it and the weights
        `(batch, heads, length, length)` if `return_attention_scores`.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not divide the width.

    Masking: uses the mask of its input and propagates it. Masked positions get zeros.

    Example:

    >>> layer = TransformerEncoderLayer(num_heads=2, feed_forward_dim=16)
    >>> outputs, weights = layer(keras.ops.ones((3, 5, 8)), return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((3, 5, 8), (3, 2, 5, 5))

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    sublayers: tuple[str, ...] = ("attention", "feed_forward")

    def build(self, inputs_shape: Shape) -> None:
        self.check_inputs(inputs_shape)
        self.build_shared(inputs_shape)
        self.attention: MultiHeadAttention = self.make_attention(
            inputs_shape[-1], "attention", uses_positions=True
        )
        self.attention.build(inputs_shape, inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        mask = self._resolve_mask(inputs, mask, inputs_mask)
        inputs = zero_masked(inputs, mask)
        query = self.get_sublayer_input("attention", inputs)
        results = self.attention(
            query,
            query,
            query_mask=mask,
            value_mask=mask,
            attention_mask=self.window_mask(get_shape(query)[1]),
            return_attention_scores=return_attention_scores,
            training=training,
        )
        context, *weights = results if return_attention_scores else (results,)
        states = self.add_residual("attention", inputs, context, training)
        states = self.apply_feed_forward(states, training)
        outputs = zero_masked(states, mask)
        return (outputs, *weights) if return_attention_scores else outputs

    def _resolve_mask(self, inputs, mask, inputs_mask):
        self.check_inputs(inputs.shape)
        masks = {"mask": mask, "inputs_mask": inputs_mask}
        return validation.resolve_mask(self, inputs, "(batch, length)", **masks)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(self, inputs_shape: Shape) -> OutputShape:
        self.check_inputs(inputs_shape)
        return tuple(inputs_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        inputs = call.inputs
        self._resolve_mask(inputs, call.mask, call.inputs_mask)
        batch, length = inputs.shape[:2]
        outputs = keras.KerasTensor(tuple(inputs.shape), dtype=self.compute_dtype)
        shape = (batch, self.num_heads, length, length)
        weights = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return (outputs, weights) if call.return_attention_scores else outputs
