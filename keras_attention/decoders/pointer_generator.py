"""The pointer-generator, See et al. 2017 (https://arxiv.org/abs/1704.04368).

    p_gen = sigmoid(w . r_t + b)                                     equation 8, see below
    P(w)  = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_i^t    equation 9

The paper's equation 8 is linear in the context, the state and the input of a step. Here it is
linear in the readout r_t, which every decoder computes from these: the decoder has one logit more
than the vocabulary has words, and that one is w . r_t + b. Code name -> paper name: `weights` ->
a^t, `copy_ids` -> w_i, `generation_logit` -> w . r_t + b.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention._utils.tensor_types import LayerOptions, LayerOrConfig, Tensor, TensorDict
from keras_attention.decoders._copying_decoder import CopyingDecoder, add_copies


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
    size = logits.shape[-1] - 1
    logits, generation_logit = logits[..., :size], logits[..., size:]
    generated = ops.log_softmax(logits, axis=-1) + ops.log_sigmoid(generation_logit)
    log_copy = ops.log_sigmoid(-generation_logit)
    log_probs = add_copies(generated, log_copy, weights, copy_ids, num_copied_words)
    return log_probs, ops.sigmoid(generation_logit[..., 0])


@keras.saving.register_keras_serializable(package="keras_attention")
class PointerGeneratorDecoder(CopyingDecoder):
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
        super().__init__(decoder, num_copied_words, num_extra_logits=1, **kwargs)

    def mix(self, logits: Tensor, weights: Tensor, copies: TensorDict) -> tuple[Tensor, Tensor]:
        """Returns log P `(batch, query, V + num_copied_words)` and p_gen `(batch, query)`.

        Args:
            logits: Those of the decoder, `(batch, query, V + 1)`.
            weights: Its attention weights `(batch, query, source)`.
            copies: A dict with `copy_ids`, as in the call.
        """
        return mix_distributions(logits, weights, copies["copy_ids"], self.num_copied_words)
