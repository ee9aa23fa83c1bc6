"""The loop over time, here under the name it had when only recurrent layers used it."""

from keras_attention.loop import run_loop

__all__ = ["run_loop"]
