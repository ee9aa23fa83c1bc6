"""Recurrent cells, attention around any cell, and the LSTMN."""

from keras_attention.recurrent.attention_rnn import AttentionRNN
from keras_attention.recurrent.attentional_vector_cell import AttentionalVectorCell
from keras_attention.recurrent.bahdanau_gru import (
    BahdanauGRU,
    BahdanauGRUCell,
)
from keras_attention.recurrent.cho_gru import ChoGRUCell
from keras_attention.recurrent.context_add_cell import ContextAddCell
from keras_attention.recurrent.context_input_cell import ContextInputCell
from keras_attention.recurrent.lstmn import LSTMN
from keras_attention.recurrent.maxout import maxout
from keras_attention.recurrent.reverse_tokens import ReverseTokens
from keras_attention.recurrent.skip_first_update import SkipFirstUpdate

__all__ = [
    "AttentionRNN",
    "AttentionalVectorCell",
    "BahdanauGRU",
    "BahdanauGRUCell",
    "ChoGRUCell",
    "ContextAddCell",
    "ContextInputCell",
    "LSTMN",
    "ReverseTokens",
    "SkipFirstUpdate",
    "maxout",
]
