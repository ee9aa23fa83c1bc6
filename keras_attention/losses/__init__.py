"""Losses for `model.compile`, and those that a decoder's loop cannot add, as layers."""

from keras_attention.losses.coverage import CoverageLoss, coverage_penalty
from keras_attention.losses.doubly_stochastic import (
    DoublyStochasticLoss,
    doubly_stochastic_penalty,
)
from keras_attention.losses.guided_alignment import GuidedAlignmentLoss
from keras_attention.losses.reinforce import ReinforceLoss
from keras_attention.losses.token_crossentropy import TokenCrossentropy

__all__ = [
    "CoverageLoss",
    "DoublyStochasticLoss",
    "GuidedAlignmentLoss",
    "ReinforceLoss",
    "TokenCrossentropy",
    "coverage_penalty",
    "doubly_stochastic_penalty",
]
