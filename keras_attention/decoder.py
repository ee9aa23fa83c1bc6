"""What every decoder is: ids in, logits out, all positions at once or one after another.

    memory = decoder.prepare(encoder_outputs, memory_mask)            once a source
    state = decoder.start(memory, initial_state, max_length)
    logits, state, alignment = decoder.step(ids, state, memory)       one id a row
    logits = decoder(target_ids, encoder_outputs)                     all positions

`step` repeated equals the call. Training uses the call, a search the steps; `rows` is the batch, or
the batch times the beams, row-major by batch (`beams.py`).
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.beams import follow
from keras_attention.checks import check_ready
from keras_attention.dropout import CounterDropout
from keras_attention.hooks import check_hooks, name_missing
from keras_attention.layer import Layer
from keras_attention.protocol import FIRST_ID
from keras_attention.shapes import spelled_out

#: The hooks of a decoder, with the arguments that they are called with, by position.
HOOKS = {
    "build_layers": ("target_ids_shape", "encoder_outputs_shape"),
    "prepare_memory": ("encoder_outputs", "memory_mask"),
    "start_state": ("memory", "initial_state", "max_length"),
    "read_one": ("ids", "state", "memory"),
    "read_all": (
        *("target_ids", "encoder_outputs", "initial_state"),
        *("memory_mask", "training", "with_weights"),
    ),
}


class Decoder(Layer):
    """Predicts each next token from the earlier ones and a memory; the base of all decoders.

    It checks what it is given, hands on masks, and knows shapes and dtypes. Derive from it for a
    decoder that every search, export and `ScheduledSampling` takes, and define

    * `build_layers(target_ids_shape, encoder_outputs_shape)`,
    * `prepare_memory(encoder_outputs, memory_mask)` -> memory, a dict of tensors `(batch, ...)`;
      padding may hold anything, so mask it here or when it is read,
    * `start_state(memory, initial_state, max_length)` -> state, a dict of tensors `(rows, ...)`,
    * `read_one(ids, state, memory)` -> logits, state, weights `(rows, source)`, and
    * `read_all(target_ids, encoder_outputs, initial_state, memory_mask, training, with_weights)`
      -> logits, weights `(batch, target, source)` or None, and a dict of the `details`.

    Logits and weights may be in any dtype. `keras_attention.decoding.check_decoder` tells
    whether the two ways agree.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        dropout: Float in [0, 1), what `dropout_layer` drops.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[start, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: What the decoder begins from, if it is recurrent; others take it and do
            not use it.
        memory_mask: Boolean `(batch, source)`, True for positions that may be read. It wins
            over a mask attached to `encoder_outputs`, which arrives as
            `encoder_outputs_mask`.
        training: Whether dropout is applied.
        return_attention_scores: Whether the alignment is returned too.
        return_details: Whether the details are returned too: a dict of tensors
            `(batch, target)`, one for each name in `details`.

    Returns:
        Logits `(batch, target, vocabulary_size)`, followed by what was asked for: the
        alignment `(batch, target, source)`, the details. All float32.

    Example: the mean of the source, told beside each id.

    >>> class MeanDecoder(Decoder):
    ...     def build_layers(self, target_ids_shape, encoder_outputs_shape):
    ...         self.kernel = self.add_weight((encoder_outputs_shape[-1], self.vocabulary_size))
    ...     def prepare_memory(self, encoder_outputs, memory_mask):
    ...         return {"mean": ops.mean(encoder_outputs, axis=1), "source": encoder_outputs}
    ...     def start_state(self, memory, initial_state, max_length):
    ...         return {}
    ...     def read_one(self, ids, state, memory):
    ...         logits = ops.one_hot(ids, self.vocabulary_size) + memory["mean"] @ self.kernel
    ...         return logits, state, ops.zeros_like(memory["source"][:, :, 0])
    ...     def read_all(self, target_ids, encoder_outputs, *_):
    ...         mean = ops.mean(encoder_outputs, axis=1, keepdims=True)
    ...         logits = ops.one_hot(target_ids, self.vocabulary_size) + mean @ self.kernel
    ...         weights = ops.zeros((*ops.shape(target_ids), ops.shape(encoder_outputs)[1]))
    ...         return logits, weights, {}
    >>> decoder = MeanDecoder(vocabulary_size=11)
    >>> tuple(decoder(ops.array([[2, 5, 4]]), ops.ones((1, 7, 6))).shape)
    (1, 3, 11)
    """

    #: The id that is read first: the start id.
    first_id = FIRST_ID

    #: Names of what a reading tells besides logits and weights.
    details = ()

    def __init__(self, vocabulary_size, dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.vocabulary_size = checks.int_at_least(owner, "vocabulary_size", vocabulary_size, 4)
        self.dropout = checks.number_in_range(owner, "dropout", dropout, 0, 1, below=True)
        self.seed = seed
        check_hooks(self, Decoder, HOOKS)

    def seed_of(self, index):
        """Returns the seed of drawing number `index`; None without a seed."""
        return None if self.seed is None else self.seed + index

    def dropout_layer(self, name, index):
        """Returns a layer that drops `dropout`, with seed number `index`."""
        seed = self.seed_of(index)
        return CounterDropout(self.dropout, seed=seed, dtype=self.dtype_policy, name=name)

    def build(self, target_ids_shape, encoder_outputs_shape, initial_state_shape=None):
        self.check_shapes(target_ids_shape, encoder_outputs_shape)
        self.memory_dim = encoder_outputs_shape[-1]
        self.build_layers(tuple(target_ids_shape), tuple(encoder_outputs_shape))
        self.built = True

    def build_layers(self, target_ids_shape, encoder_outputs_shape):
        """Builds all weights."""
        name_missing(self, Decoder, "build_layers", "builds all weights")

    def prepare_memory(self, encoder_outputs, memory_mask):
        """Returns what `prepare` does, for arguments that are checked."""
        name_missing(self, Decoder, "prepare_memory", "returns a dict of tensors (batch, ...)")

    def start_state(self, memory, initial_state, max_length):
        """Returns what `start` does, for arguments that are checked."""
        name_missing(self, Decoder, "start_state", "returns a dict of tensors (rows, ...)")

    def read_one(self, ids, state, memory):
        """Returns logits, the new state and weights for one id a row."""
        name_missing(self, Decoder, "read_one", "returns logits, the new state and weights")

    def read_all(
        self, target_ids, encoder_outputs, initial_state, memory_mask, training, with_weights
    ):
        """Returns logits, weights (or None, unless `with_weights`) and the details."""
        name_missing(self, Decoder, "read_all", "returns logits, weights and details")

    def check_initial_state(self, initial_state):
        """Raises `ValueError` unless `initial_state` is None or what the decoder begins from."""

    def prepare(self, encoder_outputs, memory_mask=None):
        """Returns what is fixed for a source: a dict of tensors with leading dimension batch.

        Args:
            encoder_outputs: Float tensor `(batch, source, memory_dim)`.
            memory_mask: Boolean `(batch, source)`, True for positions that may be read;
                explicit, for a plain method sees no mask attached to a tensor.
        """
        check_ready(self, encoder_outputs)
        owner = type(self).__name__
        checks.rank(owner, "encoder_outputs", encoder_outputs, (3,), "(batch, source, dim)")
        memory_mask = self._checked_mask(encoder_outputs, memory_mask)
        return self.prepare_memory(encoder_outputs, spelled_out(memory_mask, encoder_outputs))

    def start(self, memory, initial_state=None, max_length=None):
        """Returns the state before the first step.

        Args:
            memory: What `prepare` returned.
            initial_state: As in the call.
            max_length: The number of steps there must be room for. All decoders take it, those
                with a cache or a table of positions heed it.
        """
        check_ready(self, next(iter(keras.tree.flatten(memory)), None))
        self.check_initial_state(initial_state)
        return self.start_state(memory, initial_state, max_length)

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
        owner = type(self).__name__
        checks.rank(owner, "ids", ids, (1,), "(rows,)")
        checks.ids_in_vocabulary(owner, "ids", ids, self.vocabulary_size)
        logits, state, weights = self.read_one(ids, state, memory)
        return ops.cast(logits, "float32"), state, ops.cast(weights, "float32")

    def reorder(self, state, parents):
        """Returns the state of beams that grew from others: what a search passes on at each step.

        A decoder that can leave a large cache where it is does better than this, which gathers
        the rows of every leaf.

        Args:
            state: The state, every leaf `(rows, ...)`, row-major by batch.
            parents: Int tensor `(batch, beam)`, the beam of the same source that each beam
                grew from; `batch * beam` is `rows`.
        """
        return follow(state, parents)

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
        self.check_shapes(target_ids.shape, encoder_outputs.shape)
        owner, size = type(self).__name__, self.vocabulary_size
        checks.ids_in_vocabulary(owner, "target_ids", target_ids, size)
        mask = encoder_outputs_mask if memory_mask is None else memory_mask
        mask = self._checked_mask(encoder_outputs, mask)
        self.check_initial_state(initial_state)
        mask = spelled_out(mask, encoder_outputs)
        given = (target_ids, encoder_outputs, initial_state, mask, training)
        logits, weights, details = self.read_all(*given, return_attention_scores)
        results = [ops.cast(logits, "float32")]
        results += [ops.cast(weights, "float32")] if return_attention_scores else []
        results += [details] if return_details else []
        return results[0] if len(results) == 1 else tuple(results)

    def check_shapes(self, target_ids_shape, encoder_outputs_shape):
        """Raises `ValueError` unless ids and memory have shapes that fit."""
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
        shapes = {"target_ids": target_ids_shape, "encoder_outputs": encoder_outputs_shape}
        checks.same_dim(owner, 0, **shapes)
        self._check_width(encoder_outputs_shape)

    def _check_width(self, shape):
        if self.built and shape[-1] != self.memory_dim:
            raise ValueError(
                f"{type(self).__name__} was built for `encoder_outputs` of width "
                f"{self.memory_dim}. Received: encoder_outputs.shape={tuple(shape)}"
            )

    def _checked_mask(self, encoder_outputs, mask):
        """Returns the mask of the memory as booleans, and checks the memory."""
        owner, shape = type(self).__name__, tuple(encoder_outputs.shape)
        self._check_width(shape)
        return checks.boolean_mask(owner, "memory_mask", mask, shape[:2], "(batch, source)")

    def compute_mask(self, target_ids, previous_mask=None):
        return None

    def compute_output_shape(self, target_ids_shape, encoder_outputs_shape, **kwargs):
        self.check_shapes(target_ids_shape, encoder_outputs_shape)
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
        self.check_shapes(target_ids.shape, encoder_outputs.shape)
        self._checked_mask(encoder_outputs, memory_mask)
        self.check_initial_state(initial_state)
        shape, rows = encoder_outputs.shape, tuple(target_ids.shape)
        logits = self.compute_output_shape(target_ids.shape, shape)
        results = [keras.KerasTensor(logits, "float32")]
        if return_attention_scores:
            results.append(keras.KerasTensor((*rows, shape[1]), "float32"))
        if return_details:
            results.append({name: keras.KerasTensor(rows, "float32") for name in self.details})
        return results[0] if len(results) == 1 else tuple(results)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dropout": self.dropout,
            "seed": self.seed,
        }
