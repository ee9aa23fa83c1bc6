"""Losses that a decoder's loop cannot add, as layers that return the logits unchanged."""

from keras_attention.losses.doubly_stochastic import (
    DoublyStochasticLoss,
    doubly_stochastic_penalty,
)
from keras_attention.losses.reinforce import ReinforceLoss

__all__ = ["DoublyStochasticLoss", "ReinforceLoss", "doubly_stochastic_penalty"]
