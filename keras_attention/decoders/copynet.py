"""CopyNet, Gu et al. 2016 (https://arxiv.org/abs/1603.06393).

    psi_g(v)   = v . W_o s_t                                              equation 7
    psi_c(x_j) = tanh(h_j W_c) . s_t                                      equation 8
    Z          = sum_v exp psi_g(v) + sum_j exp psi_c(x_j)                section 3.3
    P(w)       = (exp psi_g(w) + sum_{j: x_j = w} exp psi_c(x_j)) / Z     equations 4 to 6

Words and source positions share one softmax, so they compete; no gate decides between them. In
place of the state s_t, equation 8 has here a linear map of the readout of a step, from which
every decoder computes its logits: the decoder has `copy_units` logits more than the vocabulary has
words. Code name -> paper name: `logits` -> psi_g, `copy_scores` -> psi_c, `copy_key` ->
tanh(h_j W_c), `copy_query` -> s_t, `copy_ids` -> x_j.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.decoders._copying_decoder import CopyingDecoder, add_copies
from keras_attention.kernels.matmul_precision import Dense
from keras_attention.normalizers._masking import MASKED_SCORE, mask_scores


def share_softmax(
    logits: Tensor, copy_scores: Tensor, mask: Tensor, copy_ids: Tensor, num_copied_words: int
) -> tuple[Tensor, Tensor]:
    """Returns log P `(batch, query, V + num_copied_words)` and p_gen `(batch, query)`, float32.

    Args:
        logits: psi_g, float tensor `(batch, query, V)`.
        copy_scores: psi_c, float tensor `(batch, query, source)`.
        mask: Boolean `(batch, source)`, True at positions that may be copied.
        copy_ids: Int tensor `(batch, source)` in `[0, V + num_copied_words)`.
        num_copied_words: Int, the ids beyond the V of the vocabulary.

    Example: 4 words and 2 positions have the same score, so each has 1/6.

    >>> log_probs, p_gen = share_softmax(
    ...     ops.zeros((1, 1, 4)), ops.zeros((1, 1, 2)), ops.ones((1, 2), "bool"),
    ...     ops.array([[4, 1]]), 2
    ... )
    >>> [round(float(p), 4) for p in ops.exp(log_probs)[0, 0]], round(float(p_gen[0, 0]), 4)
    ([0.1667, 0.3333, 0.1667, 0.1667, 0.1667, 0.0], 0.6667)
    """
    logits, copy_scores = ops.cast(logits, "float32"), ops.cast(copy_scores, "float32")
    mask = ops.expand_dims(mask, 1)
    copy_scores = mask_scores(copy_scores, mask)
    # One more column, so that there is a position in an empty source too.
    padded = ops.pad(copy_scores, [(0, 0), (0, 0), (0, 1)], constant_values=MASKED_SCORE)
    generating, copying = (
        ops.logsumexp(scores, axis=-1, keepdims=True) for scores in (logits, padded)
    )
    log_total = ops.logaddexp(generating, copying)
    weights = ops.where(mask, ops.softmax(padded, axis=-1)[..., :-1], 0.0)
    log_probs = add_copies(
        logits - log_total, copying - log_total, weights, copy_ids, num_copied_words
    )
    return log_probs, ops.exp(generating - log_total)[..., 0]


@keras.saving.register_keras_serializable(package="keras_attention")
class CopyNetDecoder(CopyingDecoder):
    """Lets words of the vocabulary and positions of the source compete for the next token.

    Use it where a `PointerGeneratorDecoder` would do, but what is copied is not what is attended
    to: the positions are scored by weights of their own, in one softmax with the vocabulary. The
    unknown words of a source are numbered: the first one has the id V, the size of the
    vocabulary, the next other one V + 1, and so on. Labels use the same ids for them.

    The decoder reads a copied id as the unknown word, 1; the paper's selective read, which also
    feeds the encoder's output at the copied positions, is left out.
    `keras_attention.export.Translator` numbers the words of texts, in training data too, and
    writes copied words out.

    Args:
        decoder: A `Decoder` with V + copy_units ids, for example
            `BahdanauDecoder(vocabulary_size + 32, ...)`; the last logits are the query that source
            positions are scored with.
        num_copied_words: Int, how many unknown words of one source have an id.
        copy_units: Int, the size of the query and of the keys of source positions.

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
        as logits, followed by the requested outputs: the alignment of the decoder
        `(batch, target, source)`, the auxiliary outputs, of which `p_gen` `(batch, target)`, the
        probability of all words that are generated, is one. All float32.

    Methods for decoding: `prepare(encoder_outputs, memory_mask, copy_ids)`, `start` and `step`.

    Raises:
        ValueError: If `decoder` is no `Decoder`, an argument is invalid, or an id is too large.

    Masking: masked source positions are not copied.

    Example:

    >>> from keras_attention import BahdanauDecoder
    >>> decoder = CopyNetDecoder(BahdanauDecoder(7 + 4, 3, 4), num_copied_words=2, copy_units=4)
    >>> ids, states = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 3, 4))
    >>> log_probs = decoder(ids, states, copy_ids=keras.ops.array([[5, 7, 3]]))
    >>> tuple(log_probs.shape), round(float(keras.ops.sum(keras.ops.exp(log_probs[0, 0]))), 5)
    ((1, 3, 9), 1.0)

    Reference: Gu et al. 2016, https://arxiv.org/abs/1603.06393, section 3.2.
    """

    def __init__(
        self,
        decoder: LayerOrConfig,
        num_copied_words: int = 16,
        copy_units: int = 32,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        self.copy_units: int = validation.check_positive_int(
            "CopyNetDecoder", "copy_units", copy_units
        )
        super().__init__(decoder, num_copied_words, num_extra_logits=copy_units, **kwargs)
        self.copy_key = Dense(
            copy_units,
            activation="tanh",
            use_bias=False,
            dtype=self.dtype_policy,
            name="copy_key",
        )

    def build(
        self,
        target_ids_shape: Shape,
        encoder_outputs_shape: Shape,
        copy_ids_shape: Shape | None = None,
        initial_state_shape: Structure = None,
    ) -> None:
        if not self.copy_key.built:
            self.copy_key.build(encoder_outputs_shape)
        super().build(target_ids_shape, encoder_outputs_shape)

    def prepare_copies(
        self, encoder_outputs: TensorLike, memory_mask: TensorLike | None, copy_ids: TensorLike
    ) -> TensorDict:
        """Returns the `copy_ids`, the `copy_key` of each source position and the `copy_mask`."""
        encoder_outputs = ops.convert_to_tensor(encoder_outputs)
        if memory_mask is None:
            copy_mask = ops.ones_like(copy_ids, dtype="bool")
        else:
            copy_mask = ops.broadcast_to(ops.cast(memory_mask, "bool"), ops.shape(copy_ids))
            # Padding may hold any number, NaN included.
            encoder_outputs = ops.where(ops.expand_dims(copy_mask, 2), encoder_outputs, 0.0)
        return {
            "copy_ids": ops.cast(copy_ids, "int32"),
            "copy_key": self.copy_key(encoder_outputs),
            "copy_mask": copy_mask,
        }

    def mix(self, logits: Tensor, weights: Tensor, copies: TensorDict) -> tuple[Tensor, Tensor]:
        """Returns log P `(batch, query, V + num_copied_words)` and p_gen `(batch, query)`.

        Args:
            logits: Those of the decoder, `(batch, query, V + copy_units)`.
            weights: Not used: the scores of source positions are of their own.
            copies: The result of `prepare_copies`.
        """
        logits = ops.cast(logits, "float32")
        logits, copy_query = logits[..., : -self.copy_units], logits[..., -self.copy_units :]
        key = ops.cast(copies["copy_key"], "float32")
        copy_scores = ops.einsum("bqu,bsu->bqs", copy_query, key)
        return share_softmax(
            logits, copy_scores, copies["copy_mask"], copies["copy_ids"], self.num_copied_words
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "copy_units": self.copy_units}
