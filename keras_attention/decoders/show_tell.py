"""The decoder of Show and Tell, Vinyals et al. 2015 (https://arxiv.org/abs/1411.4555).

    x_{-1} = act(W_e v + b_e)                                       equation 10, v the image
    x_t    = E y_t                                                  equation 11
    h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1}),  from zeros at t = -1   equations 4 to 8
    p(y_{t+1}) = softmax(W h_t)                                     equations 9 and 12

The image is the LSTM's first input and is not used again. Equation 10 has no `act`; in
text-guided attention, Mun et al. 2017 (https://arxiv.org/abs/1612.03557), it is relu. Code name
-> paper name: `encoder_outputs` -> v, `image` -> x_{-1}, `embedded` -> x_t.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.masked_sequences import masked_mean
from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Config,
    LayerOptions,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.decoders.recurrent import RecurrentDecoder
from keras_attention.recurrent._lstm_cells import make_lstm_cells
from keras_attention.recurrent._rnn_without_attention import RNNWithoutAttention


@keras.saving.register_keras_serializable(package="keras_attention")
class ShowTellDecoder(RecurrentDecoder):
    """Generates a caption from one vector, the LSTM's input before the first word.

    Use it if the content was selected before, as by text-guided attention. The vector is the
    memory's mean; a memory of one position is that vector. The alignment is 0 everywhere.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, the size of the embedding and of the first input.
        units: Positive int, the size of the LSTM's state.
        image_activation: Activation of the first input; "relu" is that of text-guided
            attention, None the paper's.
        dropout: Float in [0, 1), applied to the embedding and to the LSTM's output.
        start_id: An id whose embedding is the zero vector, or None: the paper embeds its start
            symbol like any other.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, `encoder_outputs`,
        `initial_state=None` (`[h, c]` before the image is processed, each `(batch, units)`; zeros
        by default), `memory_mask=None`, `training`, `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `mask`
        `(batch, source)` and `image` `(batch, embedding_dim)`. State: a dict of `cell`, the
        list of `h` and `c` `(rows, units)`, and `position` `(rows,)`.

    Raises:
        ValueError: If an argument is invalid, or an id lies outside the vocabulary.

    Example:

    >>> decoder = ShowTellDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> ids, image = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 1, 6))
    >>> tuple(decoder(ids, image).shape)
    (1, 3, 11)

    Reference: Vinyals et al. 2015, https://arxiv.org/abs/1411.4555, section 3.1.
    """

    has_attention = False

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        image_activation: Activation = "relu",
        dropout: float = 0.0,
        start_id: int | None = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        self.units: int = validation.check_positive_int("ShowTellDecoder", "units", units)
        self.image_activation: ActivationFunction = keras.activations.get(image_activation)
        cells = make_lstm_cells(units, 1, 0.0, None, self.dtype_policy)
        self.recurrence: RNNWithoutAttention = RNNWithoutAttention(
            cells[0], dtype=self.dtype_policy, name="recurrence"
        )
        self.image: keras.layers.Layer = keras.layers.Dense(
            embedding_dim, self.image_activation, dtype=self.dtype_policy, name="image"
        )

    def build_readout(self, leading: Shape, memory_dim: int) -> None:
        self.image.build((leading[0], memory_dim))
        self.logits.build((*leading, self.units))

    def readout(
        self, embedded: Tensor, outputs: Tensor, contexts: Tensor, training: bool | None = None
    ) -> TensorLike:
        return self.logits(self.readout_dropout(outputs, training=training))

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        memory = super().prepare_memory(encoder_outputs, memory_mask)
        return {**memory, "image": self.image(masked_mean(encoder_outputs, memory["mask"]))}

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        state = super().start_state(memory, initial_state, max_length)
        *_, state_after_image = self.recurrence.step(memory["image"], state, memory)
        # `position` counts the words, not the image.
        return {**state_after_image, "position": ops.zeros_like(state["position"])}

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "image_activation": keras.activations.serialize(self.image_activation),
        }
