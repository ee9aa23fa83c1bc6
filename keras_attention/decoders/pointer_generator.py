"""The pointer-generator, See et al. 2017 (https://arxiv.org/abs/1704.04368).

    p_gen = sigmoid(w . r_t + b)                                     equation 8, see below
    P(w)  = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_i^t    equation 9

The paper's equation 8 is linear in the context, the state and the input of a step. Here it is
linear in the readout r_t, which every decoder computes from these: the decoder has one logit more
than the vocabulary has words, and that one is w . r_t + b. Code name -> paper name: `weights` ->
a^t, `copy_ids` -> w_i, `generation_logit` -> w . r_t + b.
"""

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


def mix_distributions(
    logits: Tensor, weights: Tensor, copy_ids: Tensor, num_copied_words: int
) -> tuple[Tensor, Tensor]:
    """Returns log P `(batch, query, V + num_copied_words)` and p_gen `(batch, query)`, float32.

    Args:
        logits: Float tensor `(batch, query, V + 1)`, the last one that of p_gen.
        weights: Float tensor `(batch, query, source)`, 0 where masked.
        copy_ids: Int tensor `(batch, source)` in `[0, V + num_copied_words)`.
        num_copied_words: Int, the ids beyond the V of the vocabulary.

    Example: half of the probability is spread over 4 words, half copies the id 4.

    >>> logits, weights = ops.zeros((1, 1, 5)), ops.array([[[0.75, 0.25]]])
    >>> log_probs, p_gen = mix_distributions(logits, weights, ops.array([[4, 1]]), 2)
    >>> [round(float(p), 4) for p in ops.exp(log_probs)[0, 0]], float(p_gen[0, 0])
    ([0.125, 0.25, 0.125, 0.125, 0.375, 0.0], 0.5)
    """
    logits, weights = ops.cast(logits, "float32"), ops.cast(weights, "float32")
    batch, query, source = get_shape(weights)
    size = logits.shape[-1] - 1
    logits, generation_logit = logits[..., :size], logits[..., size:]
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
        (batch * query, size + num_copied_words),
    )
    copied = reshape(copied, (batch, query, size + num_copied_words))
    copied = ops.log(ops.maximum(copied, SMALLEST_PROBABILITY))
    generated = ops.log_softmax(logits, axis=-1) + ops.log_sigmoid(generation_logit)
    beyond = [(0, 0), (0, 0), (0, num_copied_words)]
    generated = ops.pad(generated, beyond, constant_values=-1e9)
    log_probs = ops.logaddexp(generated, copied + ops.log_sigmoid(-generation_logit))
    return log_probs, ops.sigmoid(generation_logit[..., 0])


@keras.saving.register_keras_serializable(package="keras_attention")
class PointerGeneratorDecoder(Layer):
    """Lets a decoder copy words of the source, also those that its vocabulary does not have.

    Use it where outputs repeat names, numbers or rare words of their sources. Each step predicts
    from the vocabulary with the probability p_gen, and otherwise copies the source word that it
    attends to. The unknown words of a source are numbered: the first one has the id V, the
    size of the vocabulary, the next other one V + 1, and so on. Labels use the same ids for them.

    The decoder reads a copied id as the unknown word, 1. `keras_attention.export.Translator`
    numbers the words of texts, in training data too, and writes copied words out.

    Args:
        decoder: A `Decoder` with attention and V + 1 ids, for example
            `BahdanauDecoder(vocabulary_size + 1, ...)`; the last logit decides between
            generating and copying.
        num_copied_words: Int, how many unknown words of one source have an id.

    Call arguments:
        target_ids: Int tensor `(batch, target)`: `[BOS, y_1 .. y_{T-1}]`, below
            V + num_copied_words.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        copy_ids: Int tensor `(batch, source)`, the id that a copy of each source position has in
            the output: one of the vocabulary, or of an unknown word.
        initial_state: The initial state, if the decoder is recurrent.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        encoder_outputs_mask: Used if `memory_mask` is None: Keras passes the mask attached to
            `encoder_outputs` here.
        training: Whether dropout is applied.
        return_attention_scores: Whether to return the alignment as well.
        return_auxiliary_outputs: Whether to return the auxiliary outputs as well, a dict.

    Returns:
        Log-probabilities `(batch, target, V + num_copied_words)`, which a loss and a search take
        as logits, followed by the requested outputs: the alignment `(batch, target, source)`, the
        auxiliary outputs, of which `p_gen` `(batch, target)` is one. All float32.

    Methods for decoding: `prepare(encoder_outputs, memory_mask, copy_ids)`, `start` and `step`.

    Raises:
        ValueError: If `decoder` is no `Decoder`, an argument is invalid, or an id is too large.

    Masking: masked source positions are not copied.

    Example:

    >>> from keras_attention import BahdanauDecoder
    >>> decoder = PointerGeneratorDecoder(BahdanauDecoder(7 + 1, 3, 4), num_copied_words=2)
    >>> ids, states = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 3, 4))
    >>> log_probs = decoder(ids, states, copy_ids=keras.ops.array([[5, 7, 3]]))
    >>> tuple(log_probs.shape), round(float(keras.ops.sum(keras.ops.exp(log_probs[0, 0]))), 5)
    ((1, 3, 9), 1.0)

    Reference: See et al. 2017, https://arxiv.org/abs/1704.04368, section 2.2.
    """

    def __init__(
        self, decoder: LayerOrConfig, num_copied_words: int = 16, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        owner = "PointerGeneratorDecoder"
        self.supports_masking = True
        self.autocast = False  # the decoder casts its arguments, as without this layer
        if isinstance(decoder, dict):
            decoder = keras.saving.deserialize_keras_object(decoder)
        if not isinstance(decoder, Decoder):
            raise ValueError(
                f"{owner} expects `decoder` to be a `Decoder` with one id more than the "
                "vocabulary, for example `BahdanauDecoder(vocabulary_size + 1, ...)`. "
                f"Received: decoder={decoder!r}"
            )
        self.decoder: Decoder = decoder
        self.num_copied_words: int = validation.check_positive_int(
            owner, "num_copied_words", num_copied_words
        )
        #: The id of the first unknown word of a source: the size of the vocabulary.
        self.first_copied_id: int = decoder.vocabulary_size - 1
        self.vocabulary_size: int = self.first_copied_id + self.num_copied_words

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
        """Returns the memory of the decoder and the ids: `{"decoder", "copy_ids"}`.

        Args:
            encoder_outputs, memory_mask: As `Decoder.prepare` takes them.
            copy_ids: Int tensor `(batch, source)`, as in the call.
        """
        self._check_copy_ids(encoder_outputs, copy_ids)
        memory = self.decoder.prepare(encoder_outputs, memory_mask)
        return {"decoder": memory, "copy_ids": ops.cast(copy_ids, "int32")}

    def start(
        self, memory: TensorDict, initial_state: Structure = None, max_length: int | None = None
    ) -> TensorDict:
        """Returns the state before the first step, that of the decoder."""
        return self.decoder.start(memory["decoder"], initial_state, max_length)

    def step(
        self, ids: TensorLike, state: Structure, memory: Structure
    ) -> tuple[Tensor, TensorDict, Tensor]:
        """Predicts the next token of each hypothesis, as `Decoder.step` does."""
        owner = type(self).__name__
        validation.check_ids_in_vocabulary(owner, "ids", ids, self.vocabulary_size)
        ids, copy_ids = self.replace_copied_ids(ids), memory["copy_ids"]
        logits, state, weights = self.decoder.step(ids, state, memory["decoder"])
        by_source = (unflatten_beams(tensor, copy_ids) for tensor in (logits, weights))
        log_probs, _ = mix_distributions(*by_source, copy_ids, self.num_copied_words)
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
        logits, weights, auxiliary_outputs = self.decoder(
            self.replace_copied_ids(target_ids),
            encoder_outputs,
            initial_state=initial_state,
            memory_mask=encoder_outputs_mask if memory_mask is None else memory_mask,
            training=training,
            return_attention_scores=True,
            return_auxiliary_outputs=True,
        )
        log_probs, p_gen = mix_distributions(logits, weights, copy_ids, self.num_copied_words)
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
            validation.check_same_dim(owner, axis, **shapes)

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
