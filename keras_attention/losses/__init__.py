"""Losses that a loop cannot add by itself, as layers that let the logits pass."""

from keras_attention.losses.doubly_stochastic import (
    DoublyStochasticLoss,
    doubly_stochastic_penalty,
)
from keras_attention.losses.reinforce import ReinforceLoss

__all__ = ["DoublyStochasticLoss", "ReinforceLoss", "doubly_stochastic_penalty"]
