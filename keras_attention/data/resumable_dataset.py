"""A `tf.data` pipeline in an order that depends on the seed and the epoch alone."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_attention import validation
from keras_attention._utils.tensor_types import Structure, Tensor

if TYPE_CHECKING:
    import tensorflow as tf


class ResumableDataset:
    """A `tf.data` pipeline that can start at any batch of any epoch.

    Use it with `BackupAndRestore`, and pass `data.dataset` to `model.fit`. The batches before
    the first are made and skipped: a resumption in the middle of an epoch reads them again.

    `BackupAndRestore` calls `seek` at the beginning of each epoch. In a `fit` without it, every
    epoch has the order of the first.

    Args:
        make_epoch: Function of a seed, an int64 scalar tensor that differs in each epoch, that
            returns the batches of an epoch. It is traced once, and must not call functions that
            draw random numbers without that seed.
        batches_per_epoch: Positive int. If there are fewer batches, Keras warns and ends the
            epoch; extra batches are not read.
        seed: Int of at least 0.

    Attributes:
        dataset: The `tf.data.Dataset`; `fit` reads an epoch of it at a time.

    Raises:
        ValueError: If `batches_per_epoch` or `seed` is not such an int.

    Example:

    >>> import keras
    >>> if keras.backend.backend() == "tensorflow":
    ...     import tensorflow as tf
    ...     numbers = tf.data.Dataset.range(7)
    ...     data = ResumableDataset(lambda seed: numbers.shuffle(7, seed=seed).batch(3), 3, seed=1)
    ...     epoch = [batch.numpy().tolist() for batch in data.dataset]
    ...     data.seek(epoch=0, batch=2)
    ...     assert [batch.numpy().tolist() for batch in data.dataset] == epoch[2:]
    """

    def __init__(
        self,
        make_epoch: Callable[[Tensor], "tf.data.Dataset"],
        batches_per_epoch: int,
        seed: int = 0,
    ) -> None:
        import tensorflow as tf

        owner = "ResumableDataset"
        self.batches_per_epoch: int = validation.check_positive_int(
            owner, "batches_per_epoch", batches_per_epoch
        )
        self.seed: int = validation.check_int_at_least(owner, "seed", seed, 0)
        with tf.device("CPU"):
            self._epoch_seed = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._start = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seek(0, 0)
        batches = tf.data.Dataset.range(1).flat_map(
            lambda _: make_epoch(self._epoch_seed.read_value()).skip(self._start.read_value())
        )
        # `fit` asks for the number of batches before `seek` is called. The empty `repeat` makes the
        # declared cardinality infinite, so that `fit` accepts an epoch that resumes with fewer
        # batches, for which `assert_cardinality` would raise.
        of_unknown_end = batches.concatenate(batches.take(0).repeat())
        epoch = of_unknown_end.take(batches_per_epoch)
        self.dataset: tf.data.Dataset = epoch.prefetch(tf.data.AUTOTUNE)

    def seek(self, epoch: int, batch: int) -> None:
        """Makes the next pass start at batch `batch` of epoch `epoch`.

        `BackupAndRestore` calls it.
        """
        state = np.random.SeedSequence([self.seed, epoch]).generate_state(1, np.uint64)
        self._epoch_seed.assign(int(state[0] >> np.uint64(1)))
        self._start.assign(batch)

    @property
    def element_spec(self) -> Structure:
        """One batch as `keras.KerasTensor` objects."""
        return keras.tree.map_structure(
            lambda spec: keras.KerasTensor(spec.shape.as_list(), spec.dtype.name),
            self.dataset.element_spec,
        )

    def describe(self) -> dict[str, int | str | None]:
        """Returns the seed; `BackupAndRestore` adds the shapes of the batches."""
        return {"seed": self.seed}
