"""The decoder of Li et al. 2019 (https://arxiv.org/abs/1910.02612), with keys beside values.

    h_t  = LSTM(h~_{t-1}, h_{t-1})                      reads no target token
    h~_t = tanh(W_c [sum_j b_tj k_j; h_t]),  b_t from h_t and k
    a_t  = softmax(score(h~_t, k_j))                    where to read: the keys alone
    c_t  = sum_j a_tj v_j                               what to write: the values alone
    p(y_t) = softmax(W_o c_t + b_o)

Code name -> paper name: `keys` -> the encoded functional embeddings k, `values` -> the primitive
embeddings v, `outputs` -> h~. In the authors' code the score of position j is row j of W h~_t, so
that its sources have a maximum length; here it compares h~_t with the keys, additive by default.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.flat_beams import flatten_beams, unflatten_beams
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Shape,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention import BahdanauAttention
from keras_attention.attention.base import AttentionMechanism
from keras_attention.decoders.base import Decoder
from keras_attention.kernels.matmul_precision import Dense
from keras_attention.recurrent._lstm_cells import make_lstm_cells
from keras_attention.recurrent.attention_rnn import AttentionRNN


@keras.saving.register_keras_serializable(package="keras_attention")
class KeyValueDecoder(Decoder):
    """Decides where to read by the keys alone, and what to write by the values alone.

    Take it if words that are used alike are to be read alike, whatever they mean: a new verb in
    known sentences. The recurrence attends to the keys only, and a token is predicted from the
    attended value only, so that no state can learn which values go together. It reads no earlier
    target tokens: all beams of a source are in the same state.

    Args:
        vocabulary_size: Int of at least 4, the number of target ids; 0 is padding.
        units: Positive int, the size of the LSTM's state and of h~.
        value_dim: Positive int, the size of a value: the last entries of an encoder output. Those
            before them are its key.
        attention: The mechanism that compares h~ with the keys and reads the values;
            `BahdanauAttention(units)` by default. One that needs earlier weights is an error.
        dropout: Float in [0, 1), applied to h~ before it is compared.
        seed: Optional int, the seed of the dropout.

    Call arguments: see `Decoder`: `target_ids`, of which only the shape is used,
        `encoder_outputs` `(batch, source, key_dim + value_dim)`, `initial_state=None` (`[h, c]`,
        each `(batch, units)`; zeros by default), `memory_mask=None`, `training`,
        `return_attention_scores`, `return_auxiliary_outputs`.

    Returns:
        Logits `(batch, target, vocabulary_size)` in float32, followed by the requested outputs:
        the alignment `(batch, target, source)`, the auxiliary outputs of `attention`.

    Methods for decoding: `prepare`, `start` and `step`. Memory: a dict of `recurrence` and
        `values`, each a dict of `key`, `value` and `mask`, as an attention prepares them. State: a
        dict of `cell`, the list of `h` and `c` `(rows, units)`, `position` `(rows,)` and `feedback`
        `(rows, units)`.

    Raises:
        ValueError: If an argument is invalid, an id lies outside the vocabulary, or an encoder
            output is not wider than `value_dim`.

    Example:

    >>> decoder = KeyValueDecoder(vocabulary_size=11, units=4, value_dim=3)
    >>> keys, values = keras.ops.ones((1, 6, 5)), keras.ops.ones((1, 6, 3))
    >>> memory = keras.ops.concatenate([keys, values], axis=-1)
    >>> tuple(decoder(keras.ops.array([[2, 5, 7]]), memory).shape)
    (1, 3, 11)

    Reference: Li et al. 2019, https://arxiv.org/abs/1910.02612, section 3; Russin et al. 2019,
    https://arxiv.org/abs/1904.09708.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        value_dim: int,
        attention: AttentionMechanism | Config | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(vocabulary_size, dropout, seed, **kwargs)
        owner = "KeyValueDecoder"
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.value_dim: int = validation.check_positive_int(owner, "value_dim", value_dim)
        if attention is None:
            attention = BahdanauAttention(units, dtype=self.dtype_policy, name="attention")
        elif isinstance(attention, dict):
            attention = keras.saving.deserialize_keras_object(attention)
        if not isinstance(attention, AttentionMechanism) or attention.num_heads is not None:
            raise ValueError(
                f"{owner} expects `attention` to be an attention layer of this package without "
                "heads, for example `BahdanauAttention(units)` or `Attention(scorer)`. "
                f"Received: attention={attention!r}"
            )
        if attention.reads_weights is not None or attention.state_sizes(None):
            raise ValueError(
                f"{owner} attends from all steps at once and cannot pass weights or a state of "
                "earlier steps to `attention`. Choose a mechanism that reads neither. "
                f"Received: attention={attention!r}"
            )
        self.attention: AttentionMechanism = attention
        self.recurrence: AttentionRNN = AttentionRNN(
            make_lstm_cells(units, 1, 0.0, None, self.dtype_policy)[0],
            BahdanauAttention(units, dtype=self.dtype_policy, name="attention"),
            order="luong",
            input_feeding=True,
            dtype=self.dtype_policy,
            name="recurrence",
        )
        self.output_dropout: keras.layers.Layer = self.make_dropout("output_dropout", 0)
        self.logits: Dense = Dense(vocabulary_size, dtype=self.dtype_policy, name="logits")

    @property
    def auxiliary_outputs(self) -> tuple[str, ...]:
        """Names of the outputs of `attention` besides context and weights."""
        return self.attention.auxiliary_outputs

    def build_layers(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        leading = encoder_outputs_shape[:-1]
        key_shape = (*leading, encoder_outputs_shape[-1] - self.value_dim)
        value_shape = (*leading, self.value_dim)
        self.recurrence.build((*target_ids_shape, 1), key_shape)
        if not self.attention.built:
            self.attention.build((*target_ids_shape, self.units), value_shape, key_shape)
        self.logits.build((*target_ids_shape, self.value_dim))

    def check_shapes(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        super().check_shapes(target_ids_shape, encoder_outputs_shape)
        if encoder_outputs_shape[-1] <= self.value_dim:
            raise ValueError(
                "KeyValueDecoder expects `encoder_outputs` to be keys and, after them in the last "
                f"axis, values of width {self.value_dim}. Received: "
                f"encoder_outputs.shape={tuple(encoder_outputs_shape)}"
            )

    def check_initial_state(self, initial_state: Structure) -> None:
        """Raises `ValueError` unless `initial_state` is None or a state of the LSTM."""
        self.recurrence.adapter.check_state(initial_state, type(self).__name__)

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        keys = encoder_outputs[..., : -self.value_dim]
        values = encoder_outputs[..., -self.value_dim :]
        return {
            "recurrence": self.recurrence.prepare(keys, memory_mask),
            "values": self.attention.prepare(values, key=keys, value_mask=memory_mask),
        }

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        return self.recurrence.start(memory["recurrence"], initial_state)

    def decode_step(
        self, ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[TensorLike, TensorDict, TensorLike | None]:
        rows, mask, position = get_shape(ids)[0], memory["values"]["mask"], state["position"]
        output, _, _, state = self.recurrence.step(
            self._make_inputs(ids), state, memory["recurrence"]
        )
        context, weights = self.attention.attend(
            unflatten_beams(output, mask),
            memory["values"],
            position=unflatten_beams(position, mask),
        )
        logits = self.logits(flatten_beams(context, rows))
        return logits, state, flatten_beams(weights, rows)

    def decode_sequence(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure,
        memory_mask: Tensor | None,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[TensorLike, TensorLike | None, TensorDict]:
        memory = self.prepare(encoder_outputs, memory_mask)
        state = self.start(memory, initial_state)
        outputs, *_ = self.recurrence.run(
            self._make_inputs(target_ids), state, memory["recurrence"], training=training
        )
        outputs = self.output_dropout(outputs, training=training)
        sizes = (*get_shape(target_ids), get_shape(encoder_outputs)[1])
        contexts, weights, auxiliary_outputs = self.attention.attend(
            outputs,
            memory["values"],
            position=state["position"],
            noise=self.attention.noise(*sizes, training),
            training=training,
            return_auxiliary_outputs=True,
            has_all_queries=True,
        )
        return self.logits(contexts), weights, auxiliary_outputs

    def _make_inputs(self, ids):
        """Returns the input of the LSTM beside its feedback, 0 whatever the ids are."""
        return ops.zeros((*get_shape(ids), 1), dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "value_dim": self.value_dim,
            "attention": keras.saving.serialize_keras_object(self.attention),
        }
