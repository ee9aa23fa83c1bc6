"""Arrays in an order that depends on the seed and the epoch alone."""

import keras
import numpy as np

from keras_attention import validation
from keras_attention._utils.tensor_types import Structure
from keras_attention.data.resumable_dataset import ResumableDataset


class ResumableArrays:
    """Shuffled batches of arrays that can start at any batch of any epoch, on every backend.

    Use it with `BackupAndRestore`, and pass `data.dataset` to `model.fit` with `shuffle=False`:
    it is shuffled already, in a different order in each epoch.

    `BackupAndRestore` calls `seek` at the beginning of each epoch. In a `fit` without it, every
    epoch has the order of the first.

    Args:
        x: Array of shape `(examples, ...)`, or a structure of such arrays.
        y: Optional targets, as `x`.
        sample_weight: Optional weights, as `x`; ignored without `y`.
        batch_size: Positive int. The last batch of an epoch may be smaller.
        seed: Int of at least 0, or None, which keeps the order of the arrays.

    Attributes:
        dataset: A `tf.data.Dataset` on TensorFlow, otherwise a `keras.utils.PyDataset`.

    Raises:
        ValueError: If `batch_size` or `seed` is not such an int, or if the arrays have different
            numbers of examples.

    Example:

    >>> import numpy as np
    >>> data = ResumableArrays(np.arange(7), batch_size=3, seed=1)
    >>> epoch = [np.asarray(batch[0]).tolist() for batch in data.dataset]
    >>> data.seek(epoch=0, batch=2)
    >>> [np.asarray(batch[0]).tolist() for batch in data.dataset] == epoch[2:]
    True
    """

    def __init__(
        self,
        x: Structure,
        y: Structure = None,
        sample_weight: Structure = None,
        batch_size: int = 32,
        seed: int | None = 0,
    ) -> None:
        owner = type(self).__name__
        self.batch_size: int = validation.check_positive_int(owner, "batch_size", batch_size)
        self.seed = seed
        if seed is not None:
            validation.check_int_at_least(owner, "seed", seed, 0, "Or pass None.")
        given = (x,) if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)
        arrays = keras.tree.map_structure(np.asarray, given)
        shapes = [array.shape for array in keras.tree.flatten(arrays)]
        sizes = {shape[:1] for shape in shapes}
        if len(sizes) != 1 or sizes <= {(), (0,)}:
            raise ValueError(
                f"{owner} expects arrays of shape (examples, ...) with the same number of "
                f"examples, at least one. Received: arrays of shapes {shapes}"
            )
        self._num_examples = shapes[0][0]
        self._arrays = arrays
        self.batches_per_epoch: int = -(-self._num_examples // self.batch_size)
        self._seek = self._make_tf_dataset() if _on_tensorflow() else self._make_py_dataset()

    def _make_tf_dataset(self):
        import tensorflow as tf

        tensors = keras.tree.map_structure(tf.convert_to_tensor, self._arrays)
        indices = tf.range(self._num_examples)

        def make_epoch(seed):
            order = indices
            if self.seed is not None:
                order = tf.random.experimental.stateless_shuffle(indices, [seed, 0])

            def make_batch(batch):
                first = batch * self.batch_size
                chosen = order[first : first + self.batch_size]
                return keras.tree.map_structure(lambda tensor: tf.gather(tensor, chosen), tensors)

            return tf.data.Dataset.range(self.batches_per_epoch).map(make_batch)

        data = ResumableDataset(make_epoch, self.batches_per_epoch, self.seed or 0)
        self.dataset: tf.data.Dataset | keras.utils.PyDataset = data.dataset
        return data.seek

    def _make_py_dataset(self):
        self.dataset = _ArrayBatches(self._arrays, self._num_examples, self.batch_size, self.seed)
        return self.dataset.seek

    def seek(self, epoch: int, batch: int) -> None:
        """Makes the next pass start at batch `batch` of epoch `epoch`.

        `BackupAndRestore` calls it.
        """
        self._seek(epoch, batch)

    @property
    def element_spec(self) -> Structure:
        """One batch as `keras.KerasTensor` objects."""
        return keras.tree.map_structure(_describe_array, self._arrays)

    def describe(self) -> dict[str, int | str | None]:
        """Returns the number of examples, the batch size and the seed."""
        return {"examples": self._num_examples, "batch_size": self.batch_size, "seed": self.seed}


def _describe_array(array):
    dtype = "string" if array.dtype.kind in "USO" else array.dtype.name
    return keras.KerasTensor((None, *array.shape[1:]), dtype)


def _on_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


class _ArrayBatches(keras.utils.PyDataset):
    """The batches of an epoch, from a first one on, in the order of a seed and the epoch."""

    def __init__(self, arrays, num_examples, batch_size, seed):
        super().__init__()
        self._arrays, self._num_examples = arrays, num_examples
        self._batch_size, self._seed = batch_size, seed
        self._last_index = None
        self._move(0, 0)

    def seek(self, epoch, batch):
        # After the first `seek`, detect whether `fit` shuffles the batches.
        if self._last_index is None:
            self._last_index = -1
        self._move(epoch, batch)

    def _move(self, epoch, batch):
        self._start = batch
        self._order = np.arange(self._num_examples)
        if self._seed is not None:
            np.random.default_rng([self._seed, epoch]).shuffle(self._order)

    def __len__(self):
        return -(-self._num_examples // self._batch_size) - self._start

    def __getitem__(self, index):
        if self._last_index is not None:
            if index > self._last_index + 1:
                raise ValueError(
                    "ResumableArrays shuffles by itself, and `fit` cannot repeat its own shuffling "
                    "in another process. Pass `shuffle=False` to `fit`. "
                    f"Received: batch {index} is asked for after batch {self._last_index}"
                )
            self._last_index = max(self._last_index, index)
        first = (self._start + index) * self._batch_size
        chosen = self._order[first : first + self._batch_size]
        return keras.tree.map_structure(lambda array: array[chosen], self._arrays)
