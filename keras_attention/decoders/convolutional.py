"""The decoder of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    g = dropout(w + p),  h = W_g g + b                                     section 3.1
    y = GLU(conv(dropout(h)))                                              section 3.2
    y, a = multi-step attention of y and g to z and z + e                  section 3.3
    h' = (y + h) sqrt(1/2)                                                 section 3.5
    p(y_{i+1}) = softmax(W_v dropout(W_2 h + b_2) + b_v)                   section 3.2

This is the arithmetic of the code that the authors released, `scaling="code"`. In the paper's
text, `scaling="paper"`, a layer attends after its residual sum. The gradient of z is multiplied
by 1 / (2 layers) in the code and by 1 / layers in the text, where `layers` are those with
attention. The gradient of e is not scaled.

Code name -> paper name: `target` -> g, `hidden` -> h, `encoder_outputs` -> [z; e],
`input_projection`, `output_projection`, `logits` -> W_g, W_2, W_v, `alignment` -> the mean of a
over the layers.
"""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention.multi_step import SCALINGS
from keras_attention.convolutional._arguments import check_attention_layers, check_convolutions
from keras_attention.convolutional._decoder_layer import ConvDecoderLayer
from keras_attention.convolutional.gated_conv_block import scaled_normal
from keras_attention.convolutional.gradient_scaling import GradientScaling
from keras_attention.convolutional.padded_normal import PaddedNormal
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.core.weight_normalized_dense import make_dense
from keras_attention.decoders._aligned_layers import average_weights, select_aligned_layers
from keras_attention.decoders.base import Decoder
from keras_attention.transformer.learned_positional_embedding import LearnedPositionalEmbedding

GRADIENT_FACTORS = {"code": 0.5, "paper": 1.0}  # of each attending layer's gradient


@keras.saving.register_keras_serializable(package="keras_attention")
class ConvDecoder(Decoder):
    """Decodes with a stack of causal convolutions whose layers attend to the source.

    Training computes all positions of a target in parallel. A decoding step needs only the last
    `kernel_size - 1` inputs of each layer, so its convolutions cost the same at every length. It
    starts from the BOS token and has no initial state.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids.
        embedding_dim: Positive int, the width of the target embedding and of both halves of
            `encoder_outputs`.
        convolutions: List of `(units, kernel_size)`, one pair per layer.
        scaling: "code" for the released arithmetic, "paper" for that of the text.
        attention_layers: List of the layers that attend, counted from 0; all by default, as
            in the paper.
        alignment_layer: "mean" for the mean over the layers that attend, "last", or an index.
        source_embeddings: Whether `encoder_outputs` are the encoder's outputs and the source's
            embeddings side by side, `[z; e]`. If not, they are outputs of any encoder and
            width: they are projected to `embedding_dim`, and e is 0.
        dropout: Float in [0, 1), the rate for the embedding, for the input of each convolution
            and before the logits.
        max_length: Positive int, the number of learned positions.
        weight_normalization: Whether all kernels are parametrized by length and direction.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[BOS, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, 2 * embedding_dim)`, or any width without
            `source_embeddings`.
        initial_state: Accepted, as by every decoder, and ignored.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        encoder_outputs_mask: Used if `memory_mask` is None: Keras passes the mask attached to
            `encoder_outputs` here.
        training: Whether dropout is applied.
        return_attention_scores: Whether to return the alignment as well.

    Returns:
        Logits `(batch, target, vocabulary_size)`, or the pair of them and the alignment
        `(batch, target, source)`; float32.

    State: a dict with `position`, int32 `(rows,)`, and `layers`, a list of `{"window": inputs}`,
        `(rows, kernel_size - 1, width)`, the last inputs of each layer.

    Raises:
        ValueError: If an argument is invalid.

    Masking: masked positions of the source are ignored. If every position is masked, contexts and
    alignment are 0. Padding of the target comes last, and no earlier position attends to it.

    Example:

    >>> decoder = ConvDecoder(11, embedding_dim=4, convolutions=[(6, 3), (8, 3)])
    >>> ids, encoded = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 5, 8))
    >>> tuple(decoder(ids, encoded).shape)
    (1, 3, 11)
    >>> memory = decoder.prepare(encoded)
    >>> logits, state, alignment = decoder.step(ids[:, 0], decoder.start(memory), memory)
    >>> tuple(alignment.shape), [tuple(layer["window"].shape) for layer in state["layers"]]
    ((1, 5), [(1, 2, 6), (1, 2, 6)])

    Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        convolutions: Sequence[tuple[int, int]],
        scaling: str = "code",
        attention_layers: Sequence[int] | None = None,
        alignment_layer: str | int = "mean",
        source_embeddings: bool = True,
        dropout: float = 0.0,
        max_length: int = 1024,
        weight_normalization: bool = True,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        owner = "ConvDecoder"
        self.embedding_dim: int = validation.check_positive_int(
            owner, "embedding_dim", embedding_dim
        )
        self.convolutions: list[tuple[int, int]] = check_convolutions(owner, convolutions)
        self.scaling: str = validation.check_one_of(owner, "scaling", scaling, tuple(SCALINGS))
        self.attention_layers = attention_layers
        self.alignment_layer = alignment_layer
        self._attending_layers = check_attention_layers(
            owner, attention_layers, alignment_layer, len(self.convolutions)
        )
        self.source_embeddings = source_embeddings
        self.max_length: int = validation.check_positive_int(owner, "max_length", max_length)
        self.weight_normalization = weight_normalization
        self._make_layers()

    def _make_layers(self):
        options = {"dtype": self.dtype_policy}
        self.embedding: keras.layers.Embedding = keras.layers.Embedding(
            self.vocabulary_size, self.embedding_dim, PaddedNormal(), **options, name="embedding"
        )
        normal = keras.initializers.RandomNormal(stddev=0.1)
        self.positions: LearnedPositionalEmbedding = LearnedPositionalEmbedding(
            self.max_length, initializer=normal, **options, name="positions"
        )
        self.embedding_dropout: CounterDropout = self.make_dropout("embedding_dropout", 0)
        self.readout_dropout: CounterDropout = self.make_dropout("readout_dropout", 1)
        keep_prob, first = 1 - self.dropout, self.convolutions[0][0]
        self.input_projection: keras.layers.Layer = self._make_dense(
            first, "input_projection", keep_prob
        )
        self.output_projection: keras.layers.Layer = self._make_dense(
            self.embedding_dim, "output_projection"
        )
        self.logits: keras.layers.Layer = self._make_dense(
            self.vocabulary_size, "logits", keep_prob
        )
        self.layers: list[ConvDecoderLayer] = [
            ConvDecoderLayer(
                units,
                kernel_size,
                attends=index in self._attending_layers,
                scaling=self.scaling,
                dropout=self.dropout,
                weight_normalization=self.weight_normalization,
                seed=self.derive_seed(2 + index),
                **options,
                name=f"layer_{index}",
            )
            for index, (units, kernel_size) in enumerate(self.convolutions)
        ]
        gradient_factor = GRADIENT_FACTORS[self.scaling] / len(self._attending_layers)
        self.gradient_scaling: GradientScaling = GradientScaling(
            gradient_factor, **options, name="gradient_scaling"
        )
        self.memory_projection: keras.layers.Layer | None = None
        if not self.source_embeddings:
            self.memory_projection = self._make_dense(self.embedding_dim, "memory_projection")

    def _make_dense(self, units, name, keep_prob=1.0):
        options = {"kernel_initializer": scaled_normal(keep_prob), "dtype": self.dtype_policy}
        return make_dense(units, self.weight_normalization, **options, name=name)

    def check_shapes(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        super().check_shapes(target_ids_shape, encoder_outputs_shape)
        source = tuple(encoder_outputs_shape)
        if self.source_embeddings and source[-1] != 2 * self.embedding_dim:
            raise ValueError(
                "ConvDecoder expects `encoder_outputs` of width 2 * embedding_dim, outputs and "
                "embeddings side by side. For outputs alone pass `source_embeddings=False`. "
                f"Received: encoder_outputs.shape={source}, embedding_dim={self.embedding_dim}"
            )

    def build_layers(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        width, steps = self.embedding_dim, (None, None)
        if self.memory_projection is not None:
            self.memory_projection.build((*steps, encoder_outputs_shape[-1]))
        self.embedding.build(steps)
        self.positions.build((*steps, width))
        self.input_projection.build((*steps, width))
        widths = [self.convolutions[0][0], *(units for units, _ in self.convolutions)]
        for layer, dim in zip(self.layers, widths, strict=False):
            layer.build(dim, width)
        self.output_projection.build((*steps, widths[-1]))
        self.logits.build((*steps, width))

    def embed(
        self, ids: Tensor, position: Tensor | None = None, training: bool | None = None
    ) -> TensorLike:
        """Returns g, the embedded ids with their positions: rank 3, or rank 2 for a step."""
        embedded = self.positions(self.embedding(ids), position)
        return self.embedding_dropout(embedded, training=training)

    def readout(self, hidden: Tensor, training: bool | None = None) -> TensorLike:
        """Returns logits of the last layer's outputs."""
        return self.logits(self.readout_dropout(self.output_projection(hidden), training=training))

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        memory = ops.cast(encoder_outputs, self.compute_dtype)
        if memory_mask is not None:
            memory = ops.where(memory_mask[:, :, None], memory, 0)
        if self.memory_projection is None:
            outputs, embeddings = ops.split(memory, 2, axis=-1)
            outputs = self.gradient_scaling(outputs)
        else:
            outputs = self.memory_projection(self.gradient_scaling(memory))
            embeddings = ops.zeros_like(outputs)
        attention = self.layers[self._attending_layers[0]].attention
        return attention.prepare(outputs, embeddings, key_mask=memory_mask)

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        if isinstance(max_length, int):
            self.positions.check_length("max_length", max_length)
        rows = get_shape(memory["mask"])[0]
        layers = [layer.block.start(rows) for layer in self.layers]
        return {"position": ops.zeros((rows,), dtype="int32"), "layers": layers}

    def get_capacity(self, state: Structure) -> int | None:
        return self.max_length

    def decode_step(
        self, ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[TensorLike, TensorDict, TensorLike | None]:
        target = self.embed(ids, state["position"], training=False)
        hidden, weights, layers = self.input_projection(target), [], []
        for layer, before in zip(self.layers, state["layers"], strict=True):
            hidden, one, after = layer.step(hidden, before, target, memory)
            weights.append(one)
            layers.append(after)
        state = {"position": state["position"] + 1, "layers": layers}
        return self.readout(hidden, training=False), state, self._alignment(weights)

    def decode_sequence(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure,
        memory_mask: Tensor | None,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[TensorLike, TensorLike | None, TensorDict]:
        memory = self.prepare(encoder_outputs, memory_mask)
        target = self.embed(target_ids, training=training)
        hidden, weights = self.input_projection(target), []
        for layer in self.layers:
            hidden, one = layer.run(hidden, target, memory, training)
            weights.append(one)
        alignment = self._alignment(weights) if return_attention_scores else None
        return self.readout(hidden, training), alignment, {}

    def _alignment(self, weights):
        chosen = select_aligned_layers(self.alignment_layer, self._attending_layers)
        return average_weights([weights[index] for index in chosen])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "convolutions": [list(one) for one in self.convolutions],
            "scaling": self.scaling,
            "attention_layers": self.attention_layers,
            "alignment_layer": self.alignment_layer,
            "source_embeddings": self.source_embeddings,
            "max_length": self.max_length,
            "weight_normalization": self.weight_normalization,
        }
