"""Runs, tokenizers and SavedModels: from a trained model to a model server."""

try:
    import tensorflow_text as _tensorflow_text  # noqa: F401
except ModuleNotFoundError as error:
    from keras_attention.extras import missing_package

    raise missing_package("keras_attention.export", error.name, "export") from error

from keras_attention.export import runs, tokenizers
from keras_attention.export.compilation import Compilation
from keras_attention.export.keras_model import TextInput, export_model
from keras_attention.export.text_translator import Translation, Translator
from keras_attention.export.translator import export_translator
from keras_attention.export.validate import validate_export

__all__ = [
    "Compilation",
    "TextInput",
    "Translation",
    "Translator",
    "export_model",
    "export_translator",
    "runs",
    "tokenizers",
    "validate_export",
]
