"""Base class of the recurrent decoders: an embedding, a recurrence and a readout."""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.subclass_hooks import check_hooks, name_missing
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.decoders.base import Decoder
from keras_attention.kernels.matmul_precision import Dense

#: The hooks of a recurrent decoder beside those of every decoder, called by position.
HOOKS = {
    "build_readout": ("leading", "memory_dim"),
    "readout": ("embedded", "outputs", "contexts", "training"),
}


class RecurrentDecoder(Decoder):
    """A target embedding, a recurrence such as `AttentionRNN` and a readout; abstract.

    A subclass sets `self.recurrence`, an `AttentionRNN` or an `RNNWithoutAttention`, and defines
    `build_readout` and `readout`. The methods are those of every `Decoder`.

    Call arguments: see `Decoder`. `initial_state` is the state of the cell before the first
        step, `(batch, units)` or the cell's list; zeros by default. The auxiliary outputs are
        those of the attention, for `HardAttention` `log_alpha` and `entropy`.

    Returns:
        Logits `(batch, target, vocabulary_size)`, followed by the requested outputs: the
        alignment `(batch, target, source)`, the auxiliary outputs. All float32.
    """

    embedding_dim: int
    embedding: keras.layers.Embedding
    embedding_dropout: keras.layers.Layer
    readout_dropout: keras.layers.Layer
    logits: keras.layers.Layer

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        dropout: float = 0.0,
        start_id: int | None = 2,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        check_hooks(self, RecurrentDecoder, HOOKS)
        owner = type(self).__name__
        self.embedding_dim = validation.check_positive_int(owner, "embedding_dim", embedding_dim)
        self.start_id = start_id
        if start_id is not None:
            validation.check_int_at_least(owner, "start_id", start_id, 0)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="embedding"
        )
        self.embedding_dropout = self.make_dropout("embedding_dropout", 0)
        self.readout_dropout = self.make_dropout("readout_dropout", 1)
        self.logits = Dense(vocabulary_size, dtype=self.dtype_policy, name="logits")

    @property
    def auxiliary_outputs(self) -> tuple[str, ...]:
        """Names of the recurrence's outputs besides outputs and weights."""
        return self.recurrence.auxiliary_outputs

    def build_layers(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        self.embedding.build(target_ids_shape)
        if not self.recurrence.built:
            inputs_shape = (*target_ids_shape, self.embedding_dim)
            self.recurrence.build(inputs_shape, encoder_outputs_shape)
        self.build_readout(target_ids_shape, encoder_outputs_shape[-1])

    def build_readout(self, leading: Shape, memory_dim: int) -> None:
        """Builds the layers of `readout`; `leading` is the shape before the last axis."""
        name_missing(self, RecurrentDecoder, "build_readout", "builds the layers of `readout`")

    def readout(
        self, embedded: Tensor, outputs: Tensor, contexts: Tensor, training: bool | None = None
    ) -> TensorLike:
        """Returns logits in the compute dtype; all tensors of rank 2 or all of rank 3."""
        name_missing(self, RecurrentDecoder, "readout", "returns logits")

    def embed(self, ids: Tensor, training: bool | None = None) -> TensorLike:
        """Returns embedded ids; `start_id`, if it is not None, embeds to the zero vector."""
        embedded = self.embedding(ids)
        if self.start_id is not None:
            embedded = ops.where(ops.expand_dims(ids == self.start_id, -1), 0, embedded)
        return self.embedding_dropout(embedded, training=training)

    def check_initial_state(self, initial_state: Structure) -> None:
        """Raises `ValueError` unless `initial_state` is None or a state of the cell."""
        self.recurrence.adapter.check_state(initial_state, type(self).__name__)

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        return self.recurrence.prepare(encoder_outputs, memory_mask)

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        return self.recurrence.start(memory, initial_state)

    def decode_step(
        self, ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[TensorLike, TensorDict, TensorLike | None]:
        embedded = self.embed(ids)
        output, context, weights, state = self.recurrence.step(embedded, state, memory)
        return self.readout(embedded, output, context), state, weights

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
        state = self.start(memory, initial_state)
        embedded = self.embed(target_ids, training)
        outputs, contexts, weights, auxiliary_outputs, _ = self.recurrence.run(
            embedded, state, memory, training=training
        )
        return self.readout(embedded, outputs, contexts, training), weights, auxiliary_outputs

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "start_id": self.start_id,
        }
