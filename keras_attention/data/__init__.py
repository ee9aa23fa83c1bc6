"""Training data whose batches depend on a seed, the epoch and the batch alone.

`model.fit` reads them as it reads any `keras.utils.PyDataset` or `tf.data.Dataset`.
`keras_attention.callbacks.BackupAndRestore` moves them to the batch at which a training was
killed. Data of your own can do the same: write the four members of `ResumableData`.
"""

from keras_attention.data.arrays import ResumableArrays
from keras_attention.data.base import ResumableData
from keras_attention.data.dataset import ResumableDataset

__all__ = ["ResumableArrays", "ResumableData", "ResumableDataset"]
