"""What `BackupAndRestore` asks of training data."""

from typing import Protocol, runtime_checkable

from keras_attention._utils.tensor_types import Structure


@runtime_checkable
class ResumableData(Protocol):
    """Training data that can start at any batch of any epoch.

    `ResumableArrays` and `ResumableDataset` are two. For another source write these four
    members, and give `fit` a `tf.data.Dataset` on TensorFlow or a `keras.utils.PyDataset` on the
    other backends. The batches after `seek(epoch, batch)` must depend on nothing but the data, its
    seed, `epoch` and `batch`: no generator that is drawn from as the training goes on. `fit` asks
    for the number of batches after `seek(0, 0)`, and ends a pass that `seek` shortened early.

    Example:

    >>> import numpy as np
    >>> from keras_attention.data import ResumableArrays
    >>> data = ResumableArrays(np.arange(7), batch_size=2)
    >>> isinstance(data, ResumableData)
    True
    >>> isinstance([1, 2], ResumableData)
    False
    """

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches of a whole epoch."""
        ...

    @property
    def element_spec(self) -> Structure:
        """One batch as `keras.KerasTensor` objects: `x`, `(x, y)` or `(x, y, sample_weight)`."""
        ...

    def seek(self, epoch: int, batch: int) -> None:
        """Makes the next pass over the data begin at a batch of an epoch, both from 0.

        Later passes begin there too, until `seek` is called again.
        """
        ...

    def describe(self) -> dict[str, int | str | None]:
        """Returns what must be the same when a training is resumed, such as the seed."""
        ...
