"""What the recurrent decoders share: ids in, logits out, the step protocol."""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.dropout import CounterDropout
from keras_attention.protocol import FIRST_ID
from keras_attention.scorers.base import check_ready


class RecurrentDecoder(keras.layers.Layer):
    """A target embedding, a recurrence such as `AttentionRNN` and a readout; the base.

    A subclass sets `self.recurrence`, an `AttentionRNN` or an `UnattendedRNN`, and defines
    `build_readout` and `readout`. `step` repeated equals the full call. What is read first is
    `first_id`: batches and searches ask for it.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[start, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: Optional state of the cell before the first step; zeros by default.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read. It wins
            over a mask attached to `encoder_outputs`, which arrives as
            `encoder_outputs_mask`.
        training: Whether dropout is applied.
        return_attention_scores: Whether the alignment is returned too.
        return_details: Whether the details of the attention are returned too: a dict of
            tensors `(batch, target)`, for `HardAttention` `log_alpha` and `entropy`.

    Returns:
        Logits `(batch, target, vocabulary_size)`, followed by what was asked for: the
        alignment `(batch, target, source)`, the details. All float32.
    """

    #: The id that is read first: the start id.
    first_id = FIRST_ID

    def __init__(
        self, vocabulary_size, embedding_dim, dropout=0.0, start_id=2, seed=None, **kwargs
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.vocabulary_size = checks.int_at_least(owner, "vocabulary_size", vocabulary_size, 4)
        self.embedding_dim = checks.positive_int(owner, "embedding_dim", embedding_dim)
        self.dropout = checks.number_in_range(owner, "dropout", dropout, 0, 1, below=True)
        self.start_id = start_id
        if start_id is not None:
            checks.int_at_least(owner, "start_id", start_id, 0)
        self.seed = seed
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="embedding"
        )
        self.embedding_dropout = self._dropout_layer("embedding_dropout", 0)
        self.readout_dropout = self._dropout_layer("readout_dropout", 1)
        self.logits = keras.layers.Dense(vocabulary_size, dtype=self.dtype_policy, name="logits")

    def _dropout_layer(self, name, index):
        seed = None if self.seed is None else self.seed + index
        return CounterDropout(self.dropout, seed=seed, dtype=self.dtype_policy, name=name)

    def build(self, target_ids_shape, encoder_outputs_shape, initial_state_shape=None):
        self._check_shapes(target_ids_shape, encoder_outputs_shape)
        batch, target = tuple(target_ids_shape)
        self.embedding.build((batch, target))
        inputs_shape = (batch, target, self.embedding_dim)
        if not self.recurrence.built:
            self.recurrence.build(inputs_shape, tuple(encoder_outputs_shape))
        self.build_readout((batch, target), encoder_outputs_shape[-1])
        self.built = True

    def build_readout(self, leading, memory_dim):
        """Builds what `readout` uses; `leading` is the shape before the last axis."""
        raise NotImplementedError

    def readout(self, embedded, outputs, contexts, training=None):
        """Returns logits in the compute dtype; all tensors of rank 2 or all of rank 3."""
        raise NotImplementedError

    def embed(self, ids, training=None):
        """Returns embedded ids; `start_id`, if it is not None, embeds to the zero vector."""
        embedded = self.embedding(ids)
        if self.start_id is not None:
            embedded = ops.where(ops.expand_dims(ids == self.start_id, -1), 0, embedded)
        return self.embedding_dropout(embedded, training=training)

    def prepare(self, encoder_outputs, memory_mask=None):
        """Returns what is fixed for a source: a dict of tensors with leading dimension batch.

        Args:
            encoder_outputs: Float tensor `(batch, source, memory_dim)`.
            memory_mask: Boolean `(batch, source)`, True for positions that may be read;
                explicit, for a plain method sees no mask attached to a tensor.
        """
        check_ready(self, encoder_outputs)
        checks.rank(
            type(self).__name__, "encoder_outputs", encoder_outputs, (3,), "(batch, source, dim)"
        )
        shape = tuple(encoder_outputs.shape[:2])
        checks.boolean_mask(
            type(self).__name__, "memory_mask", memory_mask, shape, "(batch, source)"
        )
        memory_dim = self.recurrence.memory_dim
        if encoder_outputs.shape[-1] != memory_dim:
            raise ValueError(
                f"{type(self).__name__} was built for `encoder_outputs` of width {memory_dim}. "
                f"Received: encoder_outputs.shape={tuple(encoder_outputs.shape)}"
            )
        return self.recurrence.prepare(encoder_outputs, memory_mask)

    def start(self, memory, initial_state=None, max_length=None):
        """Returns the state before the first step: the dict that the recurrence describes.

        Args:
            memory: What `prepare` returned.
            initial_state: Optional state of the cell, `(batch, units)` or the cell's list.
            max_length: The number of steps there must be room for. A cell needs none: all
                decoders take it, those with a cache heed it.
        """
        self.check_initial_state(initial_state)
        return self.recurrence.start(memory, initial_state)

    def check_initial_state(self, initial_state):
        """Raises `ValueError` unless `initial_state` is None or what the cell begins with."""
        self.recurrence.adapter.check_state(initial_state, type(self).__name__)

    def step(self, ids, state, memory):
        """Reads one id a row and predicts the next.

        Args:
            ids: Int tensor `(rows,)`; rows is the batch, or batch times beam, row-major.
            state: The state, every leaf `(rows, ...)`.
            memory: What `prepare` returned, with leading dimension batch.

        Returns:
            Logits `(rows, vocabulary_size)`, the new state, and the alignment
            `(rows, source)`; logits and alignment in float32.
        """
        check_ready(self, ids)
        checks.rank(type(self).__name__, "ids", ids, (1,), "(rows,)")
        checks.ids_in_vocabulary(type(self).__name__, "ids", ids, self.vocabulary_size)
        embedded = self.embed(ids)
        output, context, weights, state = self.recurrence.step(embedded, state, memory)
        logits = self.readout(embedded, output, context)
        return ops.cast(logits, "float32"), state, ops.cast(weights, "float32")

    def call(
        self,
        target_ids,
        encoder_outputs,
        initial_state=None,
        memory_mask=None,
        encoder_outputs_mask=None,
        training=None,
        return_attention_scores=False,
        return_details=False,
    ):
        owner = type(self).__name__
        self._check_shapes(target_ids.shape, encoder_outputs.shape)
        checks.ids_in_vocabulary(owner, "target_ids", target_ids, self.vocabulary_size)
        mask = encoder_outputs_mask if memory_mask is None else memory_mask
        memory = self.prepare(encoder_outputs, mask)
        state = self.start(memory, initial_state)
        embedded = self.embed(target_ids, training)
        outputs, contexts, weights, details, _ = self.recurrence.run(
            embedded, state, memory, training=training
        )
        results = [ops.cast(self.readout(embedded, outputs, contexts, training), "float32")]
        results += [ops.cast(weights, "float32")] if return_attention_scores else []
        results += [details] if return_details else []
        return results[0] if len(results) == 1 else tuple(results)

    def _check_shapes(self, target_ids_shape, encoder_outputs_shape):
        owner = type(self).__name__
        if len(target_ids_shape) != 2:
            raise ValueError(
                f"{owner} expects `target_ids` of shape (batch, target). "
                f"Received: target_ids.shape={tuple(target_ids_shape)}"
            )
        if len(encoder_outputs_shape) != 3 or encoder_outputs_shape[-1] is None:
            raise ValueError(
                f"{owner} expects `encoder_outputs` of shape (batch, source, memory_dim) with a "
                "known last dimension. Received: "
                f"encoder_outputs.shape={tuple(encoder_outputs_shape)}"
            )
        checks.same_dim(
            owner, 0, target_ids=target_ids_shape, encoder_outputs=encoder_outputs_shape
        )

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
        return_details=False,
    ):
        self._check_shapes(target_ids.shape, encoder_outputs.shape)
        self.check_initial_state(initial_state)
        checks.boolean_mask(
            type(self).__name__,
            "memory_mask",
            memory_mask,
            tuple(encoder_outputs.shape[:2]),
            "(batch, source)",
        )
        shape = self.compute_output_shape(target_ids.shape, encoder_outputs.shape)
        results = [keras.KerasTensor(shape, dtype="float32")]
        rows = tuple(target_ids.shape)
        if return_attention_scores:
            results.append(keras.KerasTensor((*rows, encoder_outputs.shape[1]), "float32"))
        if return_details:
            names = self.recurrence.details
            results.append({name: keras.KerasTensor(rows, "float32") for name in names})
        return results[0] if len(results) == 1 else tuple(results)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "dropout": self.dropout,
            "start_id": self.start_id,
            "seed": self.seed,
        }
