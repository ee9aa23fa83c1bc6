"""Exports trained models to TensorFlow Serving: run directories, tokenizers, SavedModels."""

try:
    import tensorflow_text as _tensorflow_text  # noqa: F401
except ModuleNotFoundError as _error:
    from keras_attention.validation import missing_package_error

    raise missing_package_error("keras_attention.export", _error.name, "export") from _error

from keras_attention.export import runs, tokenizers
from keras_attention.export._connect_encoder_decoder import connect_encoder_decoder
from keras_attention.export.compilation import XLABuckets
from keras_attention.export.functional_model_export import TextInput, export_model
from keras_attention.export.search_options import SearchOptions
from keras_attention.export.text_translator import Translation, Translator
from keras_attention.export.translator_export import export_translator
from keras_attention.export.validate import validate_export

__all__ = [
    "SearchOptions",
    "TextInput",
    "Translation",
    "Translator",
    "XLABuckets",
    "connect_encoder_decoder",
    "export_model",
    "export_translator",
    "runs",
    "tokenizers",
    "validate_export",
]
