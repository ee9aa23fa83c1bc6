"""The frame of decoders that copy words of the source: ids, steps, checks and shapes."""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.flat_beams import flatten_beams, unflatten_beams
from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
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
from keras_attention.decoders.base import Decoder

UNKNOWN_ID = 1
SMALLEST_PROBABILITY = 1e-20  # of a word that is not in the source


def add_copies(
    generated: Tensor, log_copy: Tensor, weights: Tensor, copy_ids: Tensor, num_copied_words: int
) -> Tensor:
    """Returns log(exp(generated) + exp(log_copy) sum of the weights of a word's positions).

    It is float32, `(batch, query, V + num_copied_words)`.

    Args:
        generated: Log-probabilities `(batch, query, V)`, float32.
        log_copy: Log-probability of copying `(batch, query, 1)`, float32.
        weights: Probabilities of the positions, if it copies, `(batch, query, source)`, float32.
        copy_ids: Int tensor `(batch, source)` in `[0, V + num_copied_words)`.
        num_copied_words: Int, the ids beyond the V of the vocabulary.
    """
    batch, query, source = get_shape(weights)
    size = generated.shape[-1] + num_copied_words
    # One row of probabilities for each query, to which all positions of a word add.
    rows = ops.broadcast_to(
        reshape(ops.arange(batch * query, dtype="int32"), (batch, query, 1)),
        (batch, query, source),
    )
    columns = ops.broadcast_to(ops.cast(copy_ids, "int32")[:, None], (batch, query, source))
    places = ops.stack([rows, columns], axis=-1)
    copied = ops.scatter(
        reshape(places, (batch * query * source, 2)),
        reshape(weights, (batch * query * source,)),
        (batch * query, size),
    )
    copied = ops.log(ops.maximum(reshape(copied, (batch, query, size)), SMALLEST_PROBABILITY))
    beyond = [(0, 0), (0, 0), (0, num_copied_words)]
    return ops.logaddexp(ops.pad(generated, beyond, constant_values=-1e9), copied + log_copy)


class CopyingDecoder(Layer):
    """Base class of decoders around another one, with more logits than the vocabulary has words.

    A subclass overrides `mix`, and `prepare_copies` if it needs more of the source than its ids.

    Args:
        decoder: A `Decoder` with attention.
        num_copied_words: Int, how many unknown words of one source have an id.
        num_extra_logits: Int, the logits of the decoder beyond those of the vocabulary.
    """

    def __init__(
        self,
        decoder: LayerOrConfig,
        num_copied_words: int,
        num_extra_logits: int,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.supports_masking = True
        self.autocast = False  # the decoder casts its arguments, as without this layer
        if isinstance(decoder, dict):
            decoder = keras.saving.deserialize_keras_object(decoder)
        if not isinstance(decoder, Decoder) or decoder.vocabulary_size <= num_extra_logits:
            received = getattr(decoder, "vocabulary_size", None)
            size = "" if received is None else f" with {received} ids"
            count = "one id" if num_extra_logits == 1 else f"{num_extra_logits} ids"
            raise ValueError(
                f"{owner} expects `decoder` to be a `Decoder` with {count} more than the "
                f"vocabulary, for example `BahdanauDecoder(vocabulary_size + {num_extra_logits}, "
                f"...)`. Received: decoder={decoder!r}{size}"
            )
        self.decoder: Decoder = decoder
        self.num_copied_words: int = validation.check_positive_int(
            owner, "num_copied_words", num_copied_words
        )
        #: The id of the first unknown word of a source: the size of the vocabulary.
        self.first_copied_id: int = decoder.vocabulary_size - num_extra_logits
        self.vocabulary_size: int = self.first_copied_id + self.num_copied_words

    def mix(self, logits: Tensor, weights: Tensor, copies: TensorDict) -> tuple[Tensor, Tensor]:
        """Returns log P `(batch, query, V + num_copied_words)` and p_gen `(batch, query)`.

        Args:
            logits: Those of the decoder, `(batch, query, V + num_extra_logits)`.
            weights: Its attention weights `(batch, query, source)`.
            copies: The result of `prepare_copies`.
        """
        raise NotImplementedError

    def prepare_copies(
        self, encoder_outputs: TensorLike, memory_mask: TensorLike | None, copy_ids: TensorLike
    ) -> TensorDict:
        """Returns what `mix` needs of the source, a dict with `copy_ids`."""
        return {"copy_ids": ops.cast(copy_ids, "int32")}

    @property
    def auxiliary_outputs(self) -> tuple[str, ...]:
        """Names of the outputs besides log-probabilities and weights."""
        return ("p_gen", *self.decoder.auxiliary_outputs)

    @property
    def decoder_start_id(self) -> int:
        """The id of the decoder's first input."""
        return self.decoder.decoder_start_id

    def build(
        self,
        target_ids_shape: Shape,
        encoder_outputs_shape: Shape,
        copy_ids_shape: Shape | None = None,
        initial_state_shape: Shape | Sequence[Shape] | None = None,
    ) -> None:
        if not self.decoder.built:
            self.decoder.build(target_ids_shape, encoder_outputs_shape)
        self.built = True

    def prepare(
        self,
        encoder_outputs: TensorLike,
        memory_mask: TensorLike | None = None,
        copy_ids: TensorLike | None = None,
    ) -> TensorDict:
        """Returns the memory of the decoder, `decoder`, and what a step needs to copy.

        Args:
            encoder_outputs, memory_mask: As `Decoder.prepare` takes them.
            copy_ids: Int tensor `(batch, source)`, as in the call.
        """
        self._check_copy_ids(encoder_outputs, copy_ids)
        memory = self.decoder.prepare(encoder_outputs, memory_mask)
        return {"decoder": memory, **self.prepare_copies(encoder_outputs, memory_mask, copy_ids)}

    def start(
        self, memory: TensorDict, initial_state: Structure = None, max_length: int | None = None
    ) -> TensorDict:
        """Returns the state before the first step, that of the decoder."""
        return self.decoder.start(memory["decoder"], initial_state, max_length)

    def get_capacity(self, state: Structure) -> int | None:
        """Returns the result of the decoder's `get_capacity`."""
        return self.decoder.get_capacity(state)

    def step(
        self, ids: TensorLike, state: Structure, memory: Structure
    ) -> tuple[Tensor, TensorDict, Tensor]:
        """Predicts the next token of each hypothesis, as `Decoder.step` does."""
        owner = type(self).__name__
        validation.check_ids_in_vocabulary(owner, "ids", ids, self.vocabulary_size)
        ids = self.replace_copied_ids(ids)
        logits, state, weights = self.decoder.step(ids, state, memory["decoder"])
        by_source = (unflatten_beams(tensor, memory["copy_ids"]) for tensor in (logits, weights))
        log_probs, _ = self.mix(*by_source, memory)
        return flatten_beams(log_probs, get_shape(ids)[0]), state, weights

    def reorder_cache(self, state: Structure, parents: TensorLike) -> Structure:
        """Returns the result of the decoder's `reorder_cache`."""
        return self.decoder.reorder_cache(state, parents)

    def call(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        copy_ids: Tensor,
        initial_state: Structure = None,
        memory_mask: Tensor | None = None,
        encoder_outputs_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        return_auxiliary_outputs: bool = False,
    ) -> Outputs:
        self._check_call(target_ids, encoder_outputs, copy_ids)
        memory_mask = encoder_outputs_mask if memory_mask is None else memory_mask
        logits, weights, auxiliary_outputs = self.decoder(
            self.replace_copied_ids(target_ids),
            encoder_outputs,
            initial_state=initial_state,
            memory_mask=memory_mask,
            training=training,
            return_attention_scores=True,
            return_auxiliary_outputs=True,
        )
        copies = self.prepare_copies(encoder_outputs, memory_mask, copy_ids)
        log_probs, p_gen = self.mix(logits, weights, copies)
        return select_outputs(
            log_probs,
            (return_attention_scores, weights),
            (return_auxiliary_outputs, {"p_gen": p_gen, **auxiliary_outputs}),
        )

    def replace_copied_ids(self, ids: TensorLike) -> TensorLike:
        """Returns `ids` with 1, the unknown word, in place of copied words.

        An encoder reads such ids, if the source holds those of copied words.
        """
        return ops.where(ids >= self.first_copied_id, UNKNOWN_ID, ids)

    def _check_call(self, target_ids, encoder_outputs, copy_ids):
        owner, size = type(self).__name__, self.vocabulary_size
        validation.check_ids_in_vocabulary(owner, "target_ids", target_ids, size)
        self._check_copy_ids(encoder_outputs, copy_ids)

    def _check_copy_ids(self, encoder_outputs, copy_ids):
        owner = type(self).__name__
        if copy_ids is None:
            raise ValueError(
                f"{owner} expects `copy_ids`, the id that a copy of each source position has, "
                "(batch, source). Received: None"
            )
        self._check_copy_shape(encoder_outputs.shape, copy_ids.shape)
        validation.check_ids_in_vocabulary(owner, "copy_ids", copy_ids, self.vocabulary_size)

    def _check_copy_shape(self, encoder_outputs_shape, copy_ids_shape):
        owner = type(self).__name__
        axes = "(batch, source)"
        validation.check_axes(owner, "copy_ids", copy_ids_shape, axes, known_width=False)
        shapes = {"copy_ids": copy_ids_shape, "encoder_outputs": encoder_outputs_shape}
        for axis in (0, 1):
            validation.check_same_size(owner, axis, **shapes)

    def compute_mask(self, target_ids: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(
        self,
        target_ids_shape: Shape,
        encoder_outputs_shape: Shape,
        copy_ids_shape: Shape | None = None,
        **kwargs: Shape,
    ) -> OutputShape:
        if copy_ids_shape is not None:
            self._check_copy_shape(encoder_outputs_shape, copy_ids_shape)
        shape = self.decoder.compute_output_shape(target_ids_shape, encoder_outputs_shape)
        return (*shape[:-1], self.vocabulary_size)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_call(call.target_ids, call.encoder_outputs, call.copy_ids)
        mask = call.encoder_outputs_mask if call.memory_mask is None else call.memory_mask
        logits, weights, auxiliary_outputs = self.decoder.compute_output_spec(
            keras.KerasTensor(call.target_ids.shape, dtype="int32"),  # copied ids are replaced
            call.encoder_outputs,
            initial_state=call.initial_state,
            memory_mask=mask,
            return_attention_scores=True,
            return_auxiliary_outputs=True,
        )
        p_gen = keras.KerasTensor(logits.shape[:-1], dtype="float32")
        return select_outputs(
            keras.KerasTensor((*logits.shape[:-1], self.vocabulary_size), dtype="float32"),
            (call.return_attention_scores, weights),
            (call.return_auxiliary_outputs, {"p_gen": p_gen, **auxiliary_outputs}),
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "decoder": keras.saving.serialize_keras_object(self.decoder),
            "num_copied_words": self.num_copied_words,
        }
