"""Callbacks for `model.fit`."""

from keras_attention.callbacks.alignment_images import AlignmentImages
from keras_attention.callbacks.backup_and_restore import BackupAndRestore
from keras_attention.callbacks.compiled_steps import CompiledSteps
from keras_attention.callbacks.decode_samples import DecodeSamples

__all__ = ["AlignmentImages", "BackupAndRestore", "CompiledSteps", "DecodeSamples"]
