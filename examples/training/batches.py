"""Batches of the examples as data that `fit` reads and that `BackupAndRestore` can move.

What the examples call batches is an object with `batches_per_epoch()`, the same in every epoch,
and `epoch(number, start)`, a `tf.data.Dataset` of the batches of an epoch from batch `start` on.
Their order depends on a seed and the epoch alone.
"""

import keras
import tensorflow as tf


class EpochBatches:
    """A `keras_attention.data.ResumableData` over the epochs of batches.

    Args:
        batches: The batches; see the module.

    Attributes:
        dataset: The `tf.data.Dataset` for `fit`.
    """

    def __init__(self, batches) -> None:
        self.batches = batches
        self.batches_per_epoch: int = batches.batches_per_epoch()
        self._position = (0, 0)
        specs = batches.epoch(0).element_spec
        with tf.device("CPU"):
            dataset = tf.data.Dataset.from_generator(
                lambda: iter(batches.epoch(*self._position)), output_signature=specs
            )
            # `fit` wants to know the number of batches, and a resumed epoch has fewer: the second
            # part declares infinitely many and has none.
            endless = dataset.concatenate(dataset.take(0).repeat())
            self.dataset = endless.take(self.batches_per_epoch).prefetch(tf.data.AUTOTUNE)

    def seek(self, epoch: int, batch: int) -> None:
        """Makes the next pass begin at a batch of an epoch."""
        self._position = (epoch, batch)

    @property
    def element_spec(self):
        """One batch as `keras.KerasTensor`s."""
        return tf.nest.map_structure(
            lambda spec: keras.KerasTensor(spec.shape.as_list(), spec.dtype.name),
            self.dataset.element_spec,
        )

    def describe(self) -> dict[str, int | str | None]:
        """Returns the seed of the order; the run's record has digests of the data."""
        return {"seed": self.batches.seed}
