"""A loss on the attention weights of a decoder, as a layer that returns the logits."""

from typing import Unpack

import keras

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.subclass_hooks import name_missing
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)


class AlignmentLoss(Layer):
    """Adds `loss_weight` times `compute_penalty` of all steps' weights; returns the logits.

    A subclass defines `compute_penalty(weights, mask, source_mask)` and documents the call.
    """

    loss_weight: float
    is_recomputable = False

    def __init__(self, loss_weight: float = 1.0, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # logits keep their dtype, the loss is computed in float32
        self.loss_weight = validation.check_number_in_range(
            type(self).__name__, "loss_weight", loss_weight, 0
        )

    def build(self, logits_shape: Shape, *args: Shape, **kwargs: Shape) -> None:
        self.built = True

    def compute_penalty(
        self, weights: Tensor, mask: Tensor | None, source_mask: Tensor | None
    ) -> TensorLike:
        """Returns the scalar to add, for checked arguments."""
        name_missing(self, AlignmentLoss, "compute_penalty", "returns a scalar")

    def call(
        self,
        logits: Tensor,
        weights: Tensor,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
    ) -> TensorLike:
        mask, source_mask = self._check_masks(weights, mask, source_mask)
        self.add_loss(self.loss_weight * self.compute_penalty(weights, mask, source_mask))
        return logits

    def _check_masks(self, weights, mask, source_mask):
        """Returns both masks as booleans, after checking the shapes."""
        owner = type(self).__name__
        self._check_weights(weights)
        batch, query, key = weights.shape
        return (
            validation.convert_mask(owner, "mask", mask, (batch, query), "(batch, query)"),
            validation.convert_mask(
                owner, "source_mask", source_mask, (batch, key), "(batch, key)"
            ),
        )

    def _check_weights(self, weights):
        axes = "(batch, query, key)"
        validation.check_rank(type(self).__name__, "weights", weights, (3,), axes)

    def compute_mask(self, logits: Tensor, previous_mask: Mask = None) -> Mask:
        return previous_mask

    def compute_output_shape(
        self, logits_shape: Shape, weights_shape: Shape, **kwargs: Shape
    ) -> OutputShape:
        self._check_weights(weights_shape)
        return tuple(logits_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_masks(call.weights, call.mask, call.source_mask)
        return keras.KerasTensor(call.logits.shape, dtype=call.logits.dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "loss_weight": self.loss_weight}
