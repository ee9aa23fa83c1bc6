"""The decoder of Show, Attend and Tell, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    c_0 = tanh(f_c(mean_i a_i)),   h_0 = tanh(f_h(mean_i a_i))      section 3.1.2
    z_t = beta_t phi(a, alpha_t),  alpha_t from h_{t-1}             equations 4 to 6
    h_t, c_t = LSTM([E y_{t-1}; z_t], h_{t-1}, c_{t-1})             equations 1 to 3
    p(y_t) = softmax(L_o act(E y_{t-1} + L_h h_t + L_z z_t))        equation 7

Equation 7 has no `act`; the authors' code has tanh. Code name -> paper name: `encoder_outputs` ->
a, `outputs` -> h, `contexts` -> z, `embedded` -> E y_{t-1}, `logits` -> L_o, `readout_dense` ->
L_h, L_z.
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
from keras_attention.attention import SoftAttention
from keras_attention.attention.base import AttentionMechanism
from keras_attention.decoders.recurrent import RecurrentDecoder
from keras_attention.recurrent._lstm_cells import make_lstm_cells
from keras_attention.recurrent.attention_rnn import AttentionRNN


@keras.saving.register_keras_serializable(package="keras_attention")
class ShowAttendTellDecoder(RecurrentDecoder):
    """Generates a caption, attending to different locations of an image for each word.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        embedding_dim: Positive int, the size of the embedding and of the readout.
        units: Positive int, the size of the LSTM's state.
        attention: A mechanism: `SoftAttention(units)`, the default, or `HardAttention`.
        readout_activation: Activation of the readout; "linear" is the paper's equation 7,
            "tanh" its authors' code.
        dropout: Float in [0, 1), applied to the embedding and to the readout.
        start_id: The id whose embedding is the zero vector, for the input of the first step;
            None embeds it like any other.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `RecurrentDecoder`: `target_ids`, `encoder_outputs`, here the
        annotations `(batch, locations, dim)`, `initial_state=None` (`[h, c]`, each
        `(batch, units)`; by default computed from the mean annotation), `memory_mask=None`,
        `training`, `return_attention_scores`, `return_auxiliary_outputs`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, followed by the requested outputs:
        the alignment `(batch, target, locations)`, and the auxiliary outputs, with
        `HardAttention` `log_alpha` and `entropy` for `ReinforceLoss`.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `key`, `value` and
        `mask`, as the attention prepares them. State: a dict of `cell`, the list of `h` and `c`
        `(rows, units)`, and `position` `(rows,)`.

    Raises:
        ValueError: If an argument is invalid, or an id lies outside the vocabulary.

    Example:

    >>> decoder = ShowAttendTellDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> ids, annotations = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 9, 6))
    >>> logits, alignment = decoder(ids, annotations, return_attention_scores=True)
    >>> tuple(logits.shape), tuple(alignment.shape)
    ((1, 3, 11), (1, 3, 9))

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 3.1.2.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        attention: AttentionMechanism | Config | None = None,
        readout_activation: Activation = "tanh",
        dropout: float = 0.0,
        start_id: int | None = 2,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, dropout, start_id, seed, **kwargs)
        self.units: int = validation.check_positive_int("ShowAttendTellDecoder", "units", units)
        self.readout_activation: ActivationFunction = keras.activations.get(readout_activation)
        if attention is None:
            attention = SoftAttention(units, dtype=self.dtype_policy, name="attention")
        if getattr(attention, "num_heads", None) is not None:
            raise ValueError(
                "ShowAttendTellDecoder starts from the mean of the annotations and does not "
                "support several heads, which project them. Use attention without heads, for "
                f"example `SoftAttention(units)`. Received: attention={attention!r}"
            )
        (cell,) = make_lstm_cells(units, 1, 0.0, None, self.dtype_policy)
        self.recurrence: AttentionRNN = AttentionRNN(
            cell, attention, order="bahdanau", dtype=self.dtype_policy, name="recurrence"
        )
        self.attention: AttentionMechanism = self.recurrence.attention
        self.readout_dense: keras.layers.Layer = self._dense("readout_dense", embedding_dim, None)
        self.initial_hidden_dense: keras.layers.Layer = self._dense(
            "initial_hidden_dense", units, "tanh"
        )
        self.initial_cell_dense: keras.layers.Layer = self._dense(
            "initial_cell_dense", units, "tanh"
        )

    def _dense(self, name, units, activation):
        return keras.layers.Dense(units, activation, dtype=self.dtype_policy, name=name)

    def build_readout(self, leading: Shape, memory_dim: int) -> None:
        context_dim = self.recurrence.context_dim
        self.readout_dense.build((*leading, self.units + context_dim))
        self.logits.build((*leading, self.embedding_dim))
        for begin in (self.initial_hidden_dense, self.initial_cell_dense):
            begin.build((leading[0], context_dim))

    def readout(
        self, embedded: Tensor, outputs: Tensor, contexts: Tensor, training: bool | None = None
    ) -> TensorLike:
        readout_dense = embedded + self.readout_dense(ops.concatenate([outputs, contexts], axis=-1))
        readout_dense = self.readout_activation(readout_dense)
        return self.logits(self.readout_dropout(readout_dense, training=training))

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        if initial_state is None:
            mean = masked_mean(memory["value"], memory["mask"])
            initial_state = [self.initial_hidden_dense(mean), self.initial_cell_dense(mean)]
        return super().start_state(memory, initial_state, max_length)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "attention": keras.saving.serialize_keras_object(self.attention),
            "readout_activation": keras.activations.serialize(self.readout_activation),
        }
