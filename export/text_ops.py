"""The TensorFlow Text module, imported in one place.

TensorFlow Text registers the ops that tokenizers and their SavedModels use, so it is
needed wherever a tokenizer is built, loaded or served.
"""

import tensorflow_text
from tensorflow_text.python.ops import sentencepiece_tokenizer as sentencepiece_ops

__all__ = ["sentencepiece_ops", "tensorflow_text"]
