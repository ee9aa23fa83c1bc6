"""The decoder of Show and Tell, Vinyals et al. 2015 (https://arxiv.org/abs/1411.4555).

    x_{-1} = act(W_e v + b_e)                                       equation 10, v the picture
    x_t    = E y_t                                                  equation 11
    h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1}),  from zeros at t = -1   equations 4 to 8
    p(y_{t+1}) = softmax(W h_t)                                     equations 9 and 12

The picture is the LSTM's first input and is not looked at again. Equation 10 has no `act`; in
text-guided attention, Mun et al. 2017 (https://arxiv.org/abs/1612.03557), it is relu. Code name
-> paper name: `encoder_outputs` -> v, `picture` -> x_{-1}, `embedded` -> x_t.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.recurrent.decoder import RecurrentDecoder
from keras_attention.recurrent.lstm_cells import lstm_cells
from keras_attention.recurrent.mean_state import mean_state
from keras_attention.recurrent.unattended import UnattendedRNN


@keras.saving.register_keras_serializable(package="keras_attention")
class ShowTellDecoder(RecurrentDecoder):
    """Writes a caption from one vector, which its LSTM reads before the first word.

    Use it where what is to be told was chosen before, as text-guided attention chooses it. The
    vector is the memory's mean; a memory of one position is that vector. The alignment is 0
    everywhere.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, the size of the embedding and of the first input.
        units: Positive int, the size of the LSTM's state.
        first_activation: Activation of the first input; "relu" is that of text-guided
            attention, None the paper's.
        dropout: Float in [0, 1), dropped from the embedding and from the LSTM's output.
        start_id: An id whose embedding is the zero vector, or None: the paper embeds its start
            symbol like any other.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, `encoder_outputs`,
        `initial_state=None` (`[h, c]` before the picture is read, each `(batch, units)`; zeros
        by default), `memory_mask=None`, `training`, `return_attention_scores`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, or the pair of logits and
        alignment `(batch, target, source)`, both float32.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `mask`
        `(batch, source)` and `picture` `(batch, embedding_dim)`. State: a dict of `cell`, the
        list of `h` and `c` `(rows, units)`, and `position` `(rows,)`.

    Raises:
        ValueError: If an argument is not as above, or an id lies outside the vocabulary.

    Example:

    >>> decoder = ShowTellDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> ids, picture = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 1, 6))
    >>> tuple(decoder(ids, picture).shape)
    (1, 3, 11)

    Reference: Vinyals et al. 2015, https://arxiv.org/abs/1411.4555, section 3.1.
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        units,
        first_activation="relu",
        dropout=0.0,
        start_id=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        self.units = checks.positive_int("ShowTellDecoder", "units", units)
        self.first_activation = keras.activations.get(first_activation)
        cells = lstm_cells(units, 1, 0.0, None, self.dtype_policy)
        self.recurrence = UnattendedRNN(cells[0], dtype=self.dtype_policy, name="recurrence")
        self.picture = keras.layers.Dense(
            embedding_dim, self.first_activation, dtype=self.dtype_policy, name="picture"
        )

    def build_readout(self, leading, memory_dim):
        self.picture.build((leading[0], memory_dim))
        self.logits.build((*leading, self.units))

    def readout(self, embedded, outputs, contexts, training=None):
        return self.logits(self.readout_dropout(outputs, training=training))

    def prepare_memory(self, encoder_outputs, memory_mask):
        memory = super().prepare_memory(encoder_outputs, memory_mask)
        return {**memory, "picture": self.picture(mean_state(encoder_outputs, memory["mask"]))}

    def start_state(self, memory, initial_state, max_length):
        state = super().start_state(memory, initial_state, max_length)
        *_, seen = self.recurrence.step(memory["picture"], state, memory)
        # The words are counted, the picture is not.
        return {**seen, "position": ops.zeros_like(state["position"])}

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "first_activation": keras.activations.serialize(self.first_activation),
        }
