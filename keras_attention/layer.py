"""The base of the library's layers."""

import keras

from keras_attention.recomputation import Recomputable
from keras_attention.separate_arguments import SeparateArguments


class Layer(SeparateArguments, Recomputable, keras.layers.Layer):
    """A Keras layer whose tensors are arguments of their own, and that works in a `RematScope`."""
