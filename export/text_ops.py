"""The TensorFlow Text module, imported in one place.

TensorFlow Text registers the ops that tokenizers and their SavedModels use, so it is
needed wherever a tokenizer is built, loaded or served.
"""

try:
    import tensorflow_text
    from tensorflow_text.python.ops import sentencepiece_tokenizer as sentencepiece_ops
except ImportError as error:  # pragma: no cover - the test environment has it
    raise ImportError(
        "keras_attention.export needs tensorflow-text. Install it in the checkout of this project "
        "with `pip install '.[export]'`."
    ) from error

__all__ = ["sentencepiece_ops", "tensorflow_text"]
