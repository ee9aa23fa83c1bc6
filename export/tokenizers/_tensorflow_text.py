"""Imports TensorFlow Text in one place.

TensorFlow Text registers the ops of tokenizers and their SavedModels, so every module that builds,
loads or serves a tokenizer needs it.
"""

import tensorflow_text
from tensorflow_text.python.ops import sentencepiece_tokenizer as sentencepiece_ops

__all__ = ["sentencepiece_ops", "tensorflow_text"]
