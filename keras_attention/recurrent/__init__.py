"""Recurrent cells, attention around any cell, and the LSTMN."""

from keras_attention.recurrent.attention_rnn import AttentionRNN
from keras_attention.recurrent.bahdanau_gru import (
    BahdanauGRU,
    BahdanauGRUCell,
)
from keras_attention.recurrent.cho_gru import ChoGRUCell
from keras_attention.recurrent.context_add_cell import ContextAdd
from keras_attention.recurrent.context_concat_cell import ContextConcat
from keras_attention.recurrent.context_mlp_cell import ContextMLP
from keras_attention.recurrent.lstmn import LSTMN
from keras_attention.recurrent.maxout import maxout
from keras_attention.recurrent.reverse_tokens import ReverseTokens
from keras_attention.recurrent.skip_first_update import SkipFirstUpdate

__all__ = [
    "AttentionRNN",
    "BahdanauGRU",
    "BahdanauGRUCell",
    "ChoGRUCell",
    "ContextAdd",
    "ContextConcat",
    "ContextMLP",
    "LSTMN",
    "ReverseTokens",
    "SkipFirstUpdate",
    "maxout",
]
