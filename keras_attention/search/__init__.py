"""Greedy search, beam search, sampling and scoring over any step function."""

from keras_attention.search._search_loop import EagerSearchWarning
from keras_attention.search.bayes_risk import minimum_bayes_risk
from keras_attention.search.beam import beam_search
from keras_attention.search.beam_options import BeamOptions
from keras_attention.search.check_search import check_beam_search
from keras_attention.search.constraints import Constraints, SpecialIds
from keras_attention.search.ensemble import ensemble_step
from keras_attention.search.greedy import greedy_search
from keras_attention.search.penalties import (
    AverageLengthPenalty,
    CoveragePenalty,
    GNMTLengthPenalty,
)
from keras_attention.search.recurrent_language_model import RecurrentLanguageModel
from keras_attention.search.resumable import ResumableSearch
from keras_attention.search.sampling import sample_search
from keras_attention.search.score_sequences import score_sequences
from keras_attention.search.shallow_fusion import ShallowFusion

__all__ = [
    "AverageLengthPenalty",
    "BeamOptions",
    "Constraints",
    "CoveragePenalty",
    "EagerSearchWarning",
    "GNMTLengthPenalty",
    "RecurrentLanguageModel",
    "ResumableSearch",
    "ShallowFusion",
    "SpecialIds",
    "beam_search",
    "check_beam_search",
    "ensemble_step",
    "greedy_search",
    "minimum_bayes_risk",
    "sample_search",
    "score_sequences",
]
