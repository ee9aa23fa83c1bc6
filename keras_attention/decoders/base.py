"""The decoder protocol: ids to logits, for all positions at once or step by step.

    memory = decoder.prepare(encoder_outputs, memory_mask)            once per source
    state = decoder.start(memory, initial_state, max_length)
    logits, state, alignment = decoder.step(ids, state, memory)       one id per hypothesis
    logits = decoder(target_ids, encoder_outputs)                     all positions

Repeated calls of `step` equal the full call. Training uses the full call, a search the steps.
`rows` is the batch size, or batch * beam (flat beams, batch major; see `_utils/flat_beams.py`).
"""

import functools
from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.subclass_hooks import check_hooks, name_missing
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.decoders.protocol import DECODER_START_ID
from keras_attention.validation import check_ready

#: The hooks of a decoder and the positional arguments that the library passes.
HOOKS: dict[str, tuple[str, ...]] = {
    "build_layers": ("target_ids_shape", "encoder_outputs_shape"),
    "prepare_memory": ("encoder_outputs", "memory_mask"),
    "start_state": ("memory", "initial_state", "max_length"),
    "decode_step": ("ids", "state", "memory"),
    "decode_sequence": (
        *("target_ids", "encoder_outputs", "initial_state"),
        *("memory_mask", "training", "return_attention_scores"),
    ),
    "reorder_cache": ("state", "parents"),
}


class Decoder(Layer):
    """Predicts each next token from the earlier ones and a memory; the base of all decoders.

    It checks arguments, propagates masks, and computes shapes and dtypes. Derive from it to write
    a decoder for every search, for export and for `ScheduledSampling`, and define

    * `build_layers(target_ids_shape, encoder_outputs_shape)`,
    * `prepare_memory(encoder_outputs, memory_mask)` -> memory, a dict of tensors `(batch, ...)`;
      padding may contain anything, so mask it here or in attention,
    * `start_state(memory, initial_state, max_length)` -> state, a dict of tensors `(rows, ...)`,
    * `decode_step(ids, state, memory)` -> logits, state, weights `(rows, source)`, and
    * `decode_sequence(target_ids, encoder_outputs, initial_state, ...)`, which takes also
      `memory_mask`, `training` and `return_attention_scores` -> logits, weights
      `(batch, target, source)` or None, and a dict of the `auxiliary_outputs`.

    `rows` is `batch * beams` in a step, the beams of a source next to each other, and all read its
    one memory: reshape queries to `(batch, beams, ...)` before an attention layer. Logits and
    weights may be in any dtype. `has_attention = False` says that it attends to nothing and its
    weights are 0. `keras_attention.check_decoder` checks whether steps and full call agree.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        dropout: Float in [0, 1), the rate of the layers from `make_dropout`.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[BOS, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: The initial state, if the decoder is recurrent; other decoders accept and
            ignore it.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        encoder_outputs_mask: Used if `memory_mask` is None: Keras passes the mask attached to
            `encoder_outputs` here.
        training: Whether dropout is applied.
        return_attention_scores: Whether to return the alignment as well.
        return_auxiliary_outputs: Whether to return the auxiliary outputs as well: a dict of
            tensors `(batch, target)`, one for each name in `auxiliary_outputs`.

    Returns:
        Logits `(batch, target, vocabulary_size)`, followed by the requested outputs: the
        alignment `(batch, target, source)`, the auxiliary outputs. All float32.

    Example: a decoder that adds the mean of the source to each embedded id.

    >>> import keras
    >>> from keras import ops
    >>> from keras_attention import Decoder
    >>> class MeanDecoder(Decoder):
    ...     def build_layers(self, target_ids_shape, encoder_outputs_shape):
    ...         self.kernel = self.add_weight((encoder_outputs_shape[-1], self.vocabulary_size))
    ...     def prepare_memory(self, encoder_outputs, memory_mask):
    ...         return {"mean": ops.mean(encoder_outputs, axis=1), "source": encoder_outputs}
    ...     def start_state(self, memory, initial_state, max_length):
    ...         return {}
    ...     def decode_step(self, ids, state, memory):
    ...         logits = ops.one_hot(ids, self.vocabulary_size) + memory["mean"] @ self.kernel
    ...         return logits, state, ops.zeros_like(memory["source"][:, :, 0])
    ...     def decode_sequence(self, target_ids, encoder_outputs, *_):
    ...         mean = ops.mean(encoder_outputs, axis=1, keepdims=True)
    ...         logits = ops.one_hot(target_ids, self.vocabulary_size) + mean @ self.kernel
    ...         weights = ops.zeros((*ops.shape(target_ids), ops.shape(encoder_outputs)[1]))
    ...         return logits, weights, {}
    >>> decoder = MeanDecoder(vocabulary_size=11)
    >>> tuple(decoder(ops.array([[2, 5, 4]]), ops.ones((1, 7, 6))).shape)
    (1, 3, 11)
    """

    vocabulary_size: int
    dropout: float
    memory_dim: int | None

    #: The id of the first input: the BOS token.
    decoder_start_id = DECODER_START_ID

    #: Whether it attends to the memory; else its weights are 0.
    has_attention = True

    #: Names of the outputs besides logits and weights.
    auxiliary_outputs: tuple[str, ...] = ()

    def __init__(
        self,
        vocabulary_size: int,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.vocabulary_size = validation.check_int_at_least(
            owner, "vocabulary_size", vocabulary_size, 4
        )
        self.dropout = validation.check_number_in_range(
            owner, "dropout", dropout, 0, 1, exclude_high=True
        )
        self.seed = seed
        check_hooks(self, Decoder, HOOKS)

    def derive_seed(self, index: int) -> int | None:
        """Returns the seed of random operation number `index`; None without a seed."""
        return None if self.seed is None else self.seed + index

    def make_dropout(self, name: str, index: int) -> CounterDropout:
        """Returns a dropout layer of rate `dropout`, with seed number `index`."""
        seed = self.derive_seed(index)
        return CounterDropout(self.dropout, seed=seed, dtype=self.dtype_policy, name=name)

    def build(
        self,
        target_ids_shape: Shape,
        encoder_outputs_shape: Shape,
        initial_state_shape: Shape | Sequence[Shape] | None = None,
    ) -> None:
        self.check_shapes(target_ids_shape, encoder_outputs_shape)
        self.memory_dim = encoder_outputs_shape[-1]
        self.build_layers(tuple(target_ids_shape), tuple(encoder_outputs_shape))
        self.built = True

    def build_layers(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        """Builds all weights."""
        name_missing(self, Decoder, "build_layers", "builds all weights")

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        """Does the work of `prepare`, for checked arguments."""
        name_missing(self, Decoder, "prepare_memory", "returns a dict of tensors (batch, ...)")

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        """Does the work of `start`, for checked arguments."""
        name_missing(self, Decoder, "start_state", "returns a dict of tensors (rows, ...)")

    def decode_step(
        self, ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[TensorLike, TensorDict, TensorLike | None]:
        """Returns logits, the new state and weights for one id per hypothesis."""
        name_missing(self, Decoder, "decode_step", "returns logits, the new state and weights")

    def decode_sequence(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure,
        memory_mask: Tensor | None,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[TensorLike, TensorLike | None, TensorDict]:
        """Returns logits, weights (or None if not requested) and the auxiliary outputs."""
        name_missing(self, Decoder, "decode_sequence", "returns logits, weights and a dict")

    def check_initial_state(self, initial_state: Structure) -> None:
        """Raises `ValueError` unless `initial_state` is None or a valid initial state."""

    def prepare(
        self, encoder_outputs: TensorLike, memory_mask: TensorLike | None = None
    ) -> TensorDict:
        """Returns the part that is constant for a source: a dict of tensors `(batch, ...)`.

        Args:
            encoder_outputs: Float tensor `(batch, source, memory_dim)`.
            memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
                It is explicit, because a plain method gets no mask attached to a tensor.
        """
        check_ready(self, encoder_outputs)
        owner = type(self).__name__
        validation.check_rank(
            owner, "encoder_outputs", encoder_outputs, (3,), "(batch, source, dim)"
        )
        memory_mask = self._fit_memory_mask(encoder_outputs, memory_mask)
        return self.prepare_memory(encoder_outputs, memory_mask)

    def start(
        self, memory: TensorDict, initial_state: Structure = None, max_length: int | None = None
    ) -> TensorDict:
        """Returns the state before the first step.

        Args:
            memory: The result of `prepare`.
            initial_state: As in the call.
            max_length: The maximum number of steps. All decoders accept it; those with a cache
                or a table of positions use it.
        """
        check_ready(self, next(iter(keras.tree.flatten(memory)), None))
        self.check_initial_state(initial_state)
        return self.start_state(memory, initial_state, max_length)

    def get_capacity(self, state: Structure) -> int | None:
        """Returns the number of steps that a state has room for; None, as here, for any number.

        A search that may take more raises a `ValueError`.
        """
        return None

    def step(
        self, ids: TensorLike, state: Structure, memory: Structure
    ) -> tuple[Tensor, TensorDict, Tensor]:
        """Predicts the next token of each hypothesis from its last one.

        Args:
            ids: Int tensor `(rows,)`; rows is the batch size, or batch * beam (batch major).
            state: The state, every leaf `(rows, ...)`.
            memory: The result of `prepare`, with leading dimension batch.

        Returns:
            Logits `(rows, vocabulary_size)`, the new state, and the alignment
            `(rows, source)`; logits and alignment in float32.
        """
        check_ready(self, ids)
        owner = type(self).__name__
        validation.check_rank(owner, "ids", ids, (1,), "(rows,)")
        validation.check_ids_in_vocabulary(owner, "ids", ids, self.vocabulary_size)
        logits, state, weights = self.decode_step(ids, state, memory)
        return ops.cast(logits, "float32"), state, ops.cast(weights, "float32")

    def reorder_cache(self, state: Structure, parents: TensorLike) -> Structure:
        """Returns the state reordered by each beam's parent, which a search does at each step.

        By default it gathers every leaf. A decoder with a large cache can override it to leave
        the cache in place.

        Args:
            state: The state, every leaf `(rows, ...)`, flat beams, batch major.
            parents: Int tensor `(batch, beam)`, the parent of each beam among the beams of the
                same source; `batch * beam` is `rows`.
        """
        return gather_beams(state, parents)

    def call(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure = None,
        memory_mask: Tensor | None = None,
        encoder_outputs_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        return_auxiliary_outputs: bool = False,
    ) -> Outputs:
        mask = encoder_outputs_mask if memory_mask is None else memory_mask
        mask = self._check_call(target_ids, encoder_outputs, initial_state, mask)
        given = (target_ids, encoder_outputs, initial_state, mask, training)
        logits, weights, auxiliary_outputs = self.decode_sequence(*given, return_attention_scores)
        weights = ops.cast(weights, "float32") if return_attention_scores else None
        return select_outputs(
            ops.cast(logits, "float32"),
            (return_attention_scores, weights),
            (return_auxiliary_outputs, auxiliary_outputs),
        )

    def _check_call(self, target_ids, encoder_outputs, initial_state, memory_mask):
        """Returns the mask of the memory, or None, after checking all arguments."""
        self.check_shapes(target_ids.shape, encoder_outputs.shape)
        owner, size = type(self).__name__, self.vocabulary_size
        validation.check_ids_in_vocabulary(owner, "target_ids", target_ids, size)
        memory_mask = self._fit_memory_mask(encoder_outputs, memory_mask)
        self.check_initial_state(initial_state)
        return memory_mask

    def check_shapes(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        """Raises `ValueError` unless ids and memory have shapes that fit."""
        owner = type(self).__name__
        ids_axes, axes = "(batch, target)", "(batch, source, memory_dim)"
        validation.check_axes(owner, "target_ids", target_ids_shape, ids_axes, known_width=False)
        validation.check_axes(owner, "encoder_outputs", encoder_outputs_shape, axes)
        shapes = {"target_ids": target_ids_shape, "encoder_outputs": encoder_outputs_shape}
        validation.check_same_size(owner, 0, **shapes)
        self._check_memory_width(encoder_outputs_shape)

    def _check_memory_width(self, shape):
        if self.built and shape[-1] != self.memory_dim:
            raise ValueError(
                f"{type(self).__name__} was built for `encoder_outputs` of width "
                f"{self.memory_dim}. Received: encoder_outputs.shape={tuple(shape)}"
            )

    def _fit_memory_mask(self, encoder_outputs, mask):
        """Returns the mask of the memory as booleans, after checking the memory."""
        owner = type(self).__name__
        self._check_memory_width(encoder_outputs.shape)
        return validation.fit_mask(owner, "memory_mask", mask, encoder_outputs, "(batch, source)")

    def compute_mask(self, target_ids: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(
        self, target_ids_shape: Shape, encoder_outputs_shape: Shape, **kwargs: Shape
    ) -> OutputShape:
        self.check_shapes(target_ids_shape, encoder_outputs_shape)
        return (*tuple(target_ids_shape), self.vocabulary_size)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        mask = call.encoder_outputs_mask if call.memory_mask is None else call.memory_mask
        self._check_call(call.target_ids, call.encoder_outputs, call.initial_state, mask)
        rows, shape = tuple(call.target_ids.shape), call.encoder_outputs.shape
        spec = functools.partial(keras.KerasTensor, dtype="float32")
        auxiliary_outputs = {name: spec(rows) for name in self.auxiliary_outputs}
        return select_outputs(
            spec(self.compute_output_shape(rows, shape)),
            (call.return_attention_scores, spec((*rows, shape[1]))),
            (call.return_auxiliary_outputs, auxiliary_outputs),
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dropout": self.dropout,
            "seed": self.seed,
        }
