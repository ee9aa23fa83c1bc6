"""Search over any step function: greedy, beam, sampling, and the scores of given sequences."""

from keras_attention.decoding.beam import beam_search
from keras_attention.decoding.check import check_decoder
from keras_attention.decoding.check_search import check_beam_search
from keras_attention.decoding.eager import EagerSearchWarning
from keras_attention.decoding.ensemble import ensemble_step
from keras_attention.decoding.greedy import greedy_search
from keras_attention.decoding.penalties import (
    AverageLengthPenalty,
    CoveragePenalty,
    GNMTLengthPenalty,
)
from keras_attention.decoding.sampling import sample_search
from keras_attention.decoding.scoring import score_sequences

__all__ = [
    "AverageLengthPenalty",
    "CoveragePenalty",
    "EagerSearchWarning",
    "GNMTLengthPenalty",
    "beam_search",
    "check_beam_search",
    "check_decoder",
    "ensemble_step",
    "greedy_search",
    "sample_search",
    "score_sequences",
]
