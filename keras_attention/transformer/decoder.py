"""The decoder of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x_0    = drop(sqrt(d) E[y] + PE)                         sections 3.4 and 3.5
    x_n    = the n-th `TransformerDecoderLayer` of x_{n-1}   section 3.1
    logits = x_N E^T                                         section 3.4, E: the embedding's table

Code name -> paper name: `dim` -> d_model, `num_layers` -> N, `num_heads` -> h, `feed_forward_dim`
-> d_ff, `embedding` -> E. With normalization before each sublayer the stack ends in one of its own.
"""

import keras
from keras import activations, ops

from keras_attention import checks
from keras_attention.mechanisms.rotary import RotaryPositions
from keras_attention.scorers.base import check_ready
from keras_attention.transformer.base import normalization_layer
from keras_attention.transformer.decoder_layer import TransformerDecoderLayer
from keras_attention.transformer.embedding import (
    MAX_LENGTH,
    TransformerEmbedding,
    shared_config,
)


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerDecoder(keras.layers.Layer):
    """Predicts each next token from the earlier ones and a memory, by attention alone.

    The full call computes all positions at once, for training and rescoring; a search calls
    `prepare`, `start` and `step`, which keep the keys and values of earlier positions and
    project those of the memory once a source. `step` repeated equals the full call.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids.
        dim: Positive int, the width of embeddings and layers.
        num_layers: Positive int.
        num_heads: Positive int that divides `dim`.
        feed_forward_dim: Positive int; None is `4 * dim`.
        dropout: Float in [0, 1), the share dropped from embeddings and from what each
            sublayer adds.
        normalization: "post" or "pre", see `TransformerEncoderLayer`.
        positions: "sinusoidal", "learned" or "rotary".
        window: Odd int, see `TransformerDecoderLayer`; None reads all earlier positions.
        activation: Activation of the feed-forward nets.
        use_bias: Whether the attention's projections have biases.
        tie_output: Whether the logits are products with the embedding's table; otherwise they
            have a kernel and a bias of their own.
        embedding: Optional `keras.layers.Embedding` of `vocabulary_size` and `dim`, to be
            shared, as with an encoder over the same vocabulary; None makes one.
        alignment_layer: "last", "mean" or the index of the layer whose weights over the memory,
            averaged over the heads, are the alignment.
        max_length: Positive int, the longest target of learned positions, and how many steps a
            state has room for where `start` is not told.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[start, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: Taken as every decoder takes it, and not used: nothing is recurrent.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read. It wins
            over a mask attached to `encoder_outputs`, which arrives as
            `encoder_outputs_mask`.
        training: Whether dropout is applied.
        return_attention_scores: Whether the alignment is returned too.

    Returns:
        Logits `(batch, target, vocabulary_size)`, or the pair of them and the alignment
        `(batch, target, source)` if `return_attention_scores`. Both float32.

    Raises:
        ValueError: If an argument is out of range, `embedding` has other sizes, or the tensors
            do not fit together.

    Masking: reads the memory's mask. Padding at the end of `target_ids` needs none: no earlier
        position reads it.

    Example:

    >>> decoder = TransformerDecoder(vocabulary_size=11, dim=8, num_layers=2, num_heads=2)
    >>> logits = decoder(keras.ops.array([[2, 5, 4]]), keras.ops.ones((1, 7, 6)))
    >>> tuple(logits.shape)
    (1, 3, 11)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.
    """

    def __init__(
        self,
        vocabulary_size,
        dim,
        num_layers,
        num_heads,
        feed_forward_dim=None,
        dropout=0.1,
        normalization="post",
        positions="sinusoidal",
        window=None,
        activation="relu",
        use_bias=False,
        tie_output=True,
        embedding=None,
        alignment_layer="last",
        max_length=MAX_LENGTH,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.vocabulary_size = checks.int_at_least(owner, "vocabulary_size", vocabulary_size, 4)
        self.dim = checks.positive_int(owner, "dim", dim)
        self.num_layers = checks.positive_int(owner, "num_layers", num_layers)
        self.feed_forward_dim = feed_forward_dim
        self.positions = positions
        self.tie_output = bool(tie_output)
        self.alignment_layer = _alignment_layer(owner, alignment_layer, num_layers)
        self.max_length = checks.positive_int(owner, "max_length", max_length)
        self.dropout, self.seed = dropout, seed
        self.embed = TransformerEmbedding(
            vocabulary_size,
            dim,
            positions,
            dropout,
            max_length,
            embedding,
            mask_zero=False,
            seed=seed,
            dtype=self.dtype_policy,
            name="embed",
        )
        self.embedding = self.embed.embedding
        options = {
            "num_heads": num_heads,
            "feed_forward_dim": 4 * dim if feed_forward_dim is None else feed_forward_dim,
            "dropout": dropout,
            "normalization": normalization,
            "activation": activation,
            "window": window,
            "use_bias": use_bias,
        }
        self.stack = [
            TransformerDecoderLayer(
                **options,
                rotary=self._rotary(index),
                seed=None if seed is None else seed + 1 + 3 * index,
                dtype=self.dtype_policy,
                name=f"layer_{index}",
            )
            for index in range(num_layers)
        ]
        first = self.stack[0]
        self.num_heads, self.normalization = first.num_heads, first.normalization
        self.activation, self.window, self.use_bias = first.activation, window, first.use_bias
        self.final_normalization = None
        if normalization == "pre":
            self.final_normalization = normalization_layer(self, "final_normalization")
        self.output_dense = None
        if not tie_output:
            self.output_dense = keras.layers.Dense(
                vocabulary_size, dtype=self.dtype_policy, name="output"
            )

    def _rotary(self, index):
        if self.positions != "rotary":
            return None
        return RotaryPositions(dtype=self.dtype_policy, name=f"rotary_{index}")

    def build(self, target_ids_shape, encoder_outputs_shape, initial_state_shape=None):
        self._check_shapes(target_ids_shape, encoder_outputs_shape)
        batch, target = tuple(target_ids_shape)
        if not self.embed.built:
            self.embed.build((batch, target))
        states_shape = (batch, target, self.dim)
        for piece in (self.final_normalization, self.output_dense):
            if piece is not None:
                piece.build(states_shape)
        for layer in self.stack:
            layer.build(states_shape, tuple(encoder_outputs_shape))
        self.memory_dim = encoder_outputs_shape[-1]
        self.built = True

    def readout(self, states):
        """Returns float32 logits for states of any rank."""
        if self.final_normalization is not None:
            states = self.final_normalization(states)
        rows = ops.reshape(states, (-1, self.dim))
        logits = self.embed.project(rows) if self.tie_output else self.output_dense(rows)
        logits = ops.reshape(logits, (*ops.shape(states)[:-1], self.vocabulary_size))
        return ops.cast(logits, "float32")

    def prepare(self, encoder_outputs, memory_mask=None):
        """Returns what is fixed for a source: a dict of tensors with leading dimension batch.

        Args:
            encoder_outputs: Float tensor `(batch, source, memory_dim)`.
            memory_mask: Boolean `(batch, source)`, True for positions that may be read;
                explicit, for a plain method sees no mask attached to a tensor.
        """
        check_ready(self, encoder_outputs)
        owner, axes = "TransformerDecoder", "(batch, source, dim)"
        checks.rank(owner, "encoder_outputs", encoder_outputs, (3,), axes)
        if encoder_outputs.shape[-1] != self.memory_dim:
            raise ValueError(
                f"{owner} was built for `encoder_outputs` of width {self.memory_dim}. "
                f"Received: encoder_outputs.shape={tuple(encoder_outputs.shape)}"
            )
        self._check_memory_mask(encoder_outputs, memory_mask)
        layers = [layer.prepare(encoder_outputs, memory_mask) for layer in self.stack]
        return {"layers": layers}

    def start(self, memory, initial_state=None, max_length=None):
        """Returns the state before the first step: a list of the layers' states, as `layers`.

        Args:
            memory: What `prepare` returned.
            initial_state: Taken and not used.
            max_length: Int, how many steps there must be room for; `max_length` of the layer
                by default.
        """
        check_ready(self, memory["layers"][0]["mask"])
        if max_length is None:
            max_length = self.max_length
        checks.positive_int("TransformerDecoder", "max_length", max_length)
        self.embed.check_length("max_length", max_length)
        pairs = zip(self.stack, memory["layers"], strict=True)
        return {"layers": [layer.start(part, max_length) for layer, part in pairs]}

    def step(self, ids, state, memory):
        """Reads one id a row and predicts the next.

        Args:
            ids: Int tensor `(rows,)`; rows is the batch, or batch times beam, row-major.
            state: The state, every leaf `(rows, ...)`. What is read beyond the length that it
                has room for is not kept.
            memory: What `prepare` returned, with leading dimension batch.

        Returns:
            Logits `(rows, vocabulary_size)`, the new state, and the alignment
            `(rows, source)`; logits and alignment in float32.
        """
        check_ready(self, ids)
        checks.rank("TransformerDecoder", "ids", ids, (1,), "(rows,)")
        states = self.embed(ids, state["layers"][0]["position"])
        after, weights = [], []
        for layer, old, part in zip(self.stack, state["layers"], memory["layers"], strict=True):
            states, new, layer_weights = layer.step(states, old, part)
            after.append(new)
            weights.append(layer_weights)
        alignment = self._alignment(weights)
        return self.readout(states), {"layers": after}, alignment

    def _aligned(self, index):
        """Whether the weights of a layer are part of the alignment."""
        wanted = {"last": self.num_layers - 1, "mean": index}.get(
            self.alignment_layer, self.alignment_layer
        )
        return index == wanted % self.num_layers

    def _alignment(self, weights):
        """Returns the chosen layers' mean over the heads, which are axis 1, in float32."""
        chosen = [ops.cast(w, "float32") for i, w in enumerate(weights) if self._aligned(i)]
        means = [ops.mean(tensor, axis=1) for tensor in chosen]
        return sum(means[1:], means[0]) / len(means)

    def call(
        self,
        target_ids,
        encoder_outputs,
        initial_state=None,
        memory_mask=None,
        encoder_outputs_mask=None,
        training=None,
        return_attention_scores=False,
    ):
        self._check_shapes(target_ids.shape, encoder_outputs.shape)
        owner, size = "TransformerDecoder", self.vocabulary_size
        checks.ids_in_vocabulary(owner, "target_ids", target_ids, size)
        mask = encoder_outputs_mask if memory_mask is None else memory_mask
        self._check_memory_mask(encoder_outputs, mask)
        # Padding needs no mask: it comes last, and no earlier position reads it.
        states = self.embed(target_ids, training=training)
        weights = []
        for index, layer in enumerate(self.stack):
            wanted = return_attention_scores and self._aligned(index)
            results = layer(
                states,
                encoder_outputs,
                memory_mask=mask,
                return_attention_scores=wanted,
                training=training,
            )
            states, layer_weights = results if wanted else (results, None)
            weights.append(layer_weights)
        logits = self.readout(states)
        return (logits, self._alignment(weights)) if return_attention_scores else logits

    def _check_shapes(self, target_ids_shape, encoder_outputs_shape):
        owner = "TransformerDecoder"
        if len(target_ids_shape) != 2:
            raise ValueError(
                f"{owner} expects `target_ids` of shape (batch, target). "
                f"Received: target_ids.shape={tuple(target_ids_shape)}"
            )
        self.embed.check_length("target", target_ids_shape[1])
        if len(encoder_outputs_shape) != 3 or encoder_outputs_shape[-1] is None:
            raise ValueError(
                f"{owner} expects `encoder_outputs` of shape (batch, source, memory_dim) with a "
                "known last dimension. Received: "
                f"encoder_outputs.shape={tuple(encoder_outputs_shape)}"
            )
        shapes = {"target_ids": target_ids_shape, "encoder_outputs": encoder_outputs_shape}
        checks.same_dim(owner, 0, **shapes)

    def _check_memory_mask(self, encoder_outputs, mask):
        shape = tuple(encoder_outputs.shape[:2])
        checks.boolean_mask("TransformerDecoder", "memory_mask", mask, shape, "(batch, source)")

    def compute_mask(self, target_ids, previous_mask=None):
        return None

    def compute_output_shape(self, target_ids_shape, encoder_outputs_shape, **kwargs):
        return (*tuple(target_ids_shape), self.vocabulary_size)

    def compute_output_spec(
        self,
        target_ids,
        encoder_outputs,
        initial_state=None,
        memory_mask=None,
        encoder_outputs_mask=None,
        training=None,
        return_attention_scores=False,
    ):
        self._check_shapes(target_ids.shape, encoder_outputs.shape)
        self._check_memory_mask(encoder_outputs, memory_mask)
        shape = self.compute_output_shape(target_ids.shape, encoder_outputs.shape)
        logits = keras.KerasTensor(shape, dtype="float32")
        shape = (*tuple(target_ids.shape), encoder_outputs.shape[1])
        alignment = keras.KerasTensor(shape, dtype="float32")
        return (logits, alignment) if return_attention_scores else logits

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dim": self.dim,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "feed_forward_dim": self.feed_forward_dim,
            "dropout": self.dropout,
            "normalization": self.normalization,
            "positions": self.positions,
            "window": self.window,
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "tie_output": self.tie_output,
            "embedding": shared_config(self.embedding),
            "alignment_layer": self.alignment_layer,
            "max_length": self.max_length,
            "seed": self.seed,
        }


def _alignment_layer(owner, value, num_layers):
    """Returns "last", "mean" or the index of a layer, or raises."""
    if isinstance(value, str):
        return checks.one_of(owner, "alignment_layer", value, ("last", "mean"))
    bound = {"low": -num_layers, "high": num_layers - 1}
    hint = 'Take "last", "mean" or the index of a layer.'
    return int(checks.number_in_range(owner, "alignment_layer", value, **bound, hint=hint))
