"""Convolutional sequence to sequence: gated blocks, and a decoder that attends in every layer."""

from keras_attention.convolutional.conv_decoder import ConvDecoder
from keras_attention.convolutional.gated_conv import GatedConvBlock, scaled_normal
from keras_attention.convolutional.gradient_scaling import GradientScaling

__all__ = ["ConvDecoder", "GatedConvBlock", "GradientScaling", "scaled_normal"]
