"""Callbacks for `model.fit`."""

from keras_attention.callbacks.backup_and_restore import BackupAndRestore

__all__ = ["BackupAndRestore"]
