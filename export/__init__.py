"""Runs, tokenizers and SavedModels: from a trained translator to a model server."""

from keras_attention.export import runs, tokenizers
from keras_attention.export.translator import export_translator
from keras_attention.export.validate import validate_export

__all__ = ["export_translator", "runs", "tokenizers", "validate_export"]
