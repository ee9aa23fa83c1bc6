"""The decoder of ConvS2S, Gehring et al. 2017 (https://arxiv.org/abs/1705.03122).

    g = dropout(w + p),  h = W_g g + b                                     section 3.1
    y = GLU(conv(dropout(h)))                                              section 3.2
    y, a = multi-step attention of y and g to z and z + e                  section 3.3
    h' = (y + h) sqrt(1/2)                                                 section 3.5
    p(y_{i+1}) = softmax(W_v dropout(W_2 h + b_2) + b_v)                   section 3.2

This is the arithmetic of the code that the authors released, `scaling="code"`. In the paper's
text, `scaling="paper"`, a layer attends after its residual sum. The gradient of z is multiplied
by 1 / (2 layers) in the code and by 1 / layers in the text, where `layers` are those that attend;
that of e is not.

Code name -> paper name: `target` -> g, `hidden` -> h, `encoder_outputs` -> [z; e], `enter`,
`leave`, `logits` -> W_g, W_2, W_v, `alignment` -> the mean of a over the layers.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.alignment import aligned_layers, mean_weights
from keras_attention.convolutional.arguments import check_attending, check_convolutions
from keras_attention.convolutional.decoder_layer import ConvDecoderLayer
from keras_attention.convolutional.gated_conv import scaled_normal
from keras_attention.convolutional.gradient_scaling import GradientScaling
from keras_attention.decoder import Decoder
from keras_attention.initialization import PaddedNormal
from keras_attention.mechanisms.multi_step import SCALINGS
from keras_attention.transformer.learned_positional_embedding import LearnedPositionalEmbedding
from keras_attention.weight_normalization import dense

GRADIENT_SHARES = {"code": 0.5, "paper": 1.0}  # of each attending layer's gradient


@keras.saving.register_keras_serializable(package="keras_attention")
class ConvDecoder(Decoder):
    """Decodes with a stack of causal convolutions whose layers attend to the source.

    Use it where training should not wait for one step after another: all positions of a target
    are computed at once. A step needs the last `kernel_size - 1` inputs of each layer alone,
    so decoding costs the same at every length. It begins from the start id, not from a state.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids.
        embedding_dim: Positive int, the width of the target embedding and of both halves of
            `encoder_outputs`.
        convolutions: List of `(units, kernel_size)`, one pair a layer.
        scaling: "code" for the released arithmetic, "paper" for the text's.
        attention_layers: List of the layers that attend, counted from 0; all by default, as
            in the paper.
        alignment_layer: "mean", the mean over the layers that attend, "last", or one of them.
        source_embeddings: Whether `encoder_outputs` are the encoder's outputs and the source's
            embeddings side by side, `[z; e]`. If not, they are outputs of any encoder and
            width: they are projected to `embedding_dim`, and e is 0.
        dropout: Float in [0, 1), the share dropped from the embedding, from what each
            convolution reads and before the logits.
        max_length: Positive int, the number of positions that are learned.
        weight_normalization: Whether all kernels are learned as length and direction.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[start, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, 2 * embedding_dim)`, or any width without
            `source_embeddings`.
        initial_state: Taken, as by every decoder, and not used.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read. It wins
            over a mask attached to `encoder_outputs`, which arrives as
            `encoder_outputs_mask`.
        training: Whether dropout is applied.
        return_attention_scores: Whether the alignment is returned too.

    Returns:
        Logits `(batch, target, vocabulary_size)`, or the pair of them and the alignment
        `(batch, target, source)`; float32.

    State: a dict with `position`, int32 `(rows,)`, and `layers`, a list of `{"window": inputs}`,
        `(rows, kernel_size - 1, width)`, the last inputs of each layer.

    Raises:
        ValueError: If an argument is not as above.

    Masking: masked positions of the source are not read, and a source with nothing to keep
    gives contexts and an alignment of 0. Padding of the target comes last and is read by
    no position before it.

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
        vocabulary_size,
        embedding_dim,
        convolutions,
        scaling="code",
        attention_layers=None,
        alignment_layer="mean",
        source_embeddings=True,
        dropout=0.0,
        max_length=1024,
        weight_normalization=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        owner = "ConvDecoder"
        self.embedding_dim = checks.positive_int(owner, "embedding_dim", embedding_dim)
        self.convolutions = check_convolutions(owner, convolutions)
        self.scaling = checks.one_of(owner, "scaling", scaling, tuple(SCALINGS))
        self.attention_layers = attention_layers
        self.alignment_layer = alignment_layer
        self._attending = check_attending(
            owner, attention_layers, alignment_layer, len(self.convolutions)
        )
        self.source_embeddings = source_embeddings
        self.max_length = checks.positive_int(owner, "max_length", max_length)
        self.weight_normalization = weight_normalization
        self._make_layers()

    def _make_layers(self):
        options = {"dtype": self.dtype_policy}
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size, self.embedding_dim, PaddedNormal(), **options, name="embedding"
        )
        normal = keras.initializers.RandomNormal(stddev=0.1)
        self.positions = LearnedPositionalEmbedding(
            self.max_length, initializer=normal, **options, name="positions"
        )
        self.embedding_dropout = self.dropout_layer("embedding_dropout", 0)
        self.readout_dropout = self.dropout_layer("readout_dropout", 1)
        keep, first = 1 - self.dropout, self.convolutions[0][0]
        self.enter = self._linear(first, "enter", keep)
        self.leave = self._linear(self.embedding_dim, "leave")
        self.logits = self._linear(self.vocabulary_size, "logits", keep)
        self.layers = [
            ConvDecoderLayer(
                units,
                kernel_size,
                attends=index in self._attending,
                scaling=self.scaling,
                dropout=self.dropout,
                weight_normalization=self.weight_normalization,
                seed=self.seed_of(2 + index),
                **options,
                name=f"layer_{index}",
            )
            for index, (units, kernel_size) in enumerate(self.convolutions)
        ]
        share = GRADIENT_SHARES[self.scaling] / len(self._attending)
        self.gradient_scaling = GradientScaling(share, **options, name="gradient_scaling")
        self.memory_projection = None
        if not self.source_embeddings:
            self.memory_projection = self._linear(self.embedding_dim, "memory_projection")

    def _linear(self, units, name, keep=1.0):
        options = {"kernel_initializer": scaled_normal(keep), "dtype": self.dtype_policy}
        return dense(units, self.weight_normalization, **options, name=name)

    def check_shapes(self, target_ids_shape, encoder_outputs_shape):
        super().check_shapes(target_ids_shape, encoder_outputs_shape)
        source = tuple(encoder_outputs_shape)
        if self.source_embeddings and source[-1] != 2 * self.embedding_dim:
            raise ValueError(
                "ConvDecoder expects `encoder_outputs` of width 2 * embedding_dim, outputs and "
                "embeddings side by side. For outputs alone pass `source_embeddings=False`. "
                f"Received: encoder_outputs.shape={source}, embedding_dim={self.embedding_dim}"
            )

    def build_layers(self, target_ids_shape, encoder_outputs_shape):
        width, steps = self.embedding_dim, (None, None)
        if self.memory_projection is not None:
            self.memory_projection.build((*steps, encoder_outputs_shape[-1]))
        self.embedding.build(steps)
        self.positions.build((*steps, width))
        self.enter.build((*steps, width))
        widths = [self.convolutions[0][0], *(units for units, _ in self.convolutions)]
        for layer, dim in zip(self.layers, widths, strict=False):
            layer.build(dim, width)
        self.leave.build((*steps, widths[-1]))
        self.logits.build((*steps, width))

    def embed(self, ids, position=None, training=None):
        """Returns g, the embedded ids with their positions: rank 3, or rank 2 for a step."""
        embedded = self.positions(self.embedding(ids), position)
        return self.embedding_dropout(embedded, training=training)

    def readout(self, hidden, training=None):
        """Returns logits of the last layer's outputs."""
        return self.logits(self.readout_dropout(self.leave(hidden), training=training))

    def prepare_memory(self, encoder_outputs, memory_mask):
        memory = ops.cast(encoder_outputs, self.compute_dtype)
        if memory_mask is not None:
            memory = ops.where(memory_mask[:, :, None], memory, 0)
        if self.memory_projection is None:
            outputs, embeddings = ops.split(memory, 2, axis=-1)
            outputs = self.gradient_scaling(outputs)
        else:
            outputs = self.memory_projection(self.gradient_scaling(memory))
            embeddings = ops.zeros_like(outputs)
        attention = self.layers[self._attending[0]].attention
        return attention.prepare(outputs, embeddings, key_mask=memory_mask)

    def start_state(self, memory, initial_state, max_length):
        if isinstance(max_length, int):
            self.positions.check_length("max_length", max_length)
        rows = ops.shape(memory["mask"])[0]
        layers = [layer.block.start(rows) for layer in self.layers]
        return {"position": ops.zeros((rows,), dtype="int32"), "layers": layers}

    def read_one(self, ids, state, memory):
        target = self.embed(ids, state["position"], training=False)
        hidden, weights, layers = self.enter(target), [], []
        for layer, before in zip(self.layers, state["layers"], strict=True):
            hidden, one, after = layer.step(hidden, before, target, memory)
            weights.append(one)
            layers.append(after)
        state = {"position": state["position"] + 1, "layers": layers}
        return self.readout(hidden, training=False), state, self._alignment(weights)

    def read_all(
        self, target_ids, encoder_outputs, initial_state, memory_mask, training, with_weights
    ):
        memory = self.prepare(encoder_outputs, memory_mask)
        target = self.embed(target_ids, training=training)
        hidden, weights = self.enter(target), []
        for layer in self.layers:
            hidden, one = layer.run(hidden, target, memory, training)
            weights.append(one)
        alignment = self._alignment(weights) if with_weights else None
        return self.readout(hidden, training), alignment, {}

    def _alignment(self, weights):
        chosen = aligned_layers(self.alignment_layer, self._attending)
        return mean_weights([weights[index] for index in chosen])

    def get_config(self):
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
