"""Glimpses: layers that read patches from images and write patches into them."""

from keras_attention.glimpses.gaussian_glimpse import GaussianGlimpse
from keras_attention.glimpses.gaussian_writer import GaussianWriter
from keras_attention.glimpses.retina_glimpse import RetinaGlimpse

__all__ = [
    "GaussianGlimpse",
    "GaussianWriter",
    "RetinaGlimpse",
]
