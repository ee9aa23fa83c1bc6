"""ConvS2S: gated convolution blocks, Gehring et al. 2017."""

from keras_attention.convolutional.gated_conv_block import (
    GatedConvBlock,
    scaled_normal,
)
from keras_attention.convolutional.gradient_scaling import GradientScaling

__all__ = [
    "GatedConvBlock",
    "GradientScaling",
    "scaled_normal",
]
