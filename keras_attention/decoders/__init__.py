"""Decoders: the base class, one module for each paper's decoder, and ensembles of them."""

from keras_attention.decoders.bahdanau import BahdanauDecoder
from keras_attention.decoders.base import Decoder
from keras_attention.decoders.check import check_decoder
from keras_attention.decoders.cho import ChoDecoder
from keras_attention.decoders.convolutional import ConvDecoder
from keras_attention.decoders.copynet import CopyNetDecoder
from keras_attention.decoders.ensemble import EnsembleDecoder, EnsembleEncoder
from keras_attention.decoders.key_value import KeyValueDecoder
from keras_attention.decoders.luong import LuongDecoder
from keras_attention.decoders.pointer_generator import PointerGeneratorDecoder
from keras_attention.decoders.protocol import (
    get_decoder_start_id,
    get_reorder_cache,
    start_decoder,
)
from keras_attention.decoders.recurrent import RecurrentDecoder
from keras_attention.decoders.sampling_schedules import (
    ExponentialDecay,
    InverseSigmoidDecay,
    LinearDecay,
)
from keras_attention.decoders.scheduled_sampling import ScheduledSampling
from keras_attention.decoders.seq2seq import Seq2SeqDecoder
from keras_attention.decoders.show_attend_tell import ShowAttendTellDecoder
from keras_attention.decoders.show_tell import ShowTellDecoder
from keras_attention.decoders.transformer import TransformerDecoder

__all__ = [
    "BahdanauDecoder",
    "ChoDecoder",
    "ConvDecoder",
    "CopyNetDecoder",
    "Decoder",
    "EnsembleDecoder",
    "EnsembleEncoder",
    "ExponentialDecay",
    "InverseSigmoidDecay",
    "KeyValueDecoder",
    "LinearDecay",
    "LuongDecoder",
    "PointerGeneratorDecoder",
    "RecurrentDecoder",
    "ScheduledSampling",
    "Seq2SeqDecoder",
    "ShowAttendTellDecoder",
    "ShowTellDecoder",
    "TransformerDecoder",
    "check_decoder",
    "get_decoder_start_id",
    "get_reorder_cache",
    "start_decoder",
]
