"""Runs, tokenizers and SavedModels: from a trained model to a model server."""

from keras_attention.export import runs, tokenizers
from keras_attention.export.compilation import Compilation
from keras_attention.export.keras_model import TextInput, export_model
from keras_attention.export.translator import export_translator
from keras_attention.export.validate import validate_export

__all__ = [
    "Compilation",
    "TextInput",
    "export_model",
    "export_translator",
    "runs",
    "tokenizers",
    "validate_export",
]
