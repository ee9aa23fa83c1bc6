"""Attention around recurrent cells, and the decoders built on it."""

from keras_attention.recurrent.attention_rnn import AttentionRNN
from keras_attention.recurrent.bahdanau_decoder import BahdanauDecoder
from keras_attention.recurrent.bahdanau_gru import BahdanauGRU, BahdanauGRUCell
from keras_attention.recurrent.cho_gru import ChoGRUCell
from keras_attention.recurrent.context_add import ContextAdd
from keras_attention.recurrent.context_concat import ContextConcat
from keras_attention.recurrent.context_mlp import ContextMLP
from keras_attention.recurrent.decay import ExponentialDecay, InverseSigmoidDecay, LinearDecay
from keras_attention.recurrent.decoder import RecurrentDecoder
from keras_attention.recurrent.first_step import SkipFirstUpdate
from keras_attention.recurrent.intra_attention import IntraAttention
from keras_attention.recurrent.luong_decoder import LuongDecoder
from keras_attention.recurrent.maxout import maxout
from keras_attention.recurrent.reverse_tokens import ReverseTokens
from keras_attention.recurrent.scheduled_sampling import ScheduledSampling
from keras_attention.recurrent.seq2seq_decoder import Seq2SeqDecoder
from keras_attention.recurrent.show_attend_tell_decoder import ShowAttendTellDecoder
from keras_attention.recurrent.show_tell_decoder import ShowTellDecoder
from keras_attention.recurrent.summary_decoder import SummaryDecoder

__all__ = [
    "AttentionRNN",
    "BahdanauDecoder",
    "BahdanauGRU",
    "BahdanauGRUCell",
    "ChoGRUCell",
    "ContextAdd",
    "ContextConcat",
    "ContextMLP",
    "ExponentialDecay",
    "IntraAttention",
    "InverseSigmoidDecay",
    "LinearDecay",
    "LuongDecoder",
    "RecurrentDecoder",
    "ReverseTokens",
    "ScheduledSampling",
    "Seq2SeqDecoder",
    "ShowAttendTellDecoder",
    "ShowTellDecoder",
    "SkipFirstUpdate",
    "SummaryDecoder",
    "maxout",
]
