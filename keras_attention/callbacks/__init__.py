"""Callbacks for `model.fit`."""

from keras_attention.callbacks.alignment_images import AlignmentImages
from keras_attention.callbacks.backup_and_restore import BackupAndRestore
from keras_attention.callbacks.decode_samples import DecodeSamples
from keras_attention.callbacks.xla_steps import XLASteps

__all__ = ["AlignmentImages", "BackupAndRestore", "DecodeSamples", "XLASteps"]
