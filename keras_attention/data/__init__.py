"""Training data whose batches depend on a seed, the epoch and the batch alone.

`model.fit` reads them as it reads any `keras.utils.PyDataset` or `tf.data.Dataset`.
`keras_attention.callbacks.BackupAndRestore` moves them to the batch at which a training was
killed. Data of your own can do the same: write the four members of `ResumableData`.

Word alignments: `read_links` and `write_links` for Pharaoh files, `links_to_array` for
`GuidedAlignmentLoss`, `find_links` for those of attention weights.
"""

from keras_attention.data.resumable_arrays import ResumableArrays
from keras_attention.data.resumable_data import ResumableData
from keras_attention.data.resumable_dataset import ResumableDataset
from keras_attention.data.word_alignments import (
    find_links,
    format_links,
    links_to_array,
    read_links,
    write_links,
)

__all__ = [
    "ResumableArrays",
    "ResumableData",
    "ResumableDataset",
    "find_links",
    "format_links",
    "links_to_array",
    "read_links",
    "write_links",
]
