"""Linear start of memory networks, Sukhbaatar et al. 2015 (https://arxiv.org/abs/1503.08895),
section 4.2: training begins without the softmax over memories, which comes back when the
validation loss stops falling."""

import keras

from keras_attention import checks
from keras_attention.readers.memory_hops import MemoryHops


class LinearStart(keras.callbacks.Callback):
    """Begins training of a `MemoryHops` layer without its softmax, and puts it back in time.

    Use it where a memory network stays at chance: without the softmax the early
    gradients are larger. The model is not traced again when the softmax comes back.

    Args:
        layer: The `MemoryHops` layer of the model that is fitted, built.
        monitor: Name of the quantity that must fall.
        patience: Positive int, the number of epochs without a new minimum after which the
            softmax comes back.
        epochs: Optional positive int, the number of epochs after which it comes back at the
            latest. The authors' code always takes 20.

    Raises:
        ValueError: If `layer` is no `MemoryHops`, or a number is not a positive int.

    Example:

    >>> reader = MemoryHops(vocabulary_size=11, units=4)
    >>> _ = reader(keras.ops.ones((3, 5, 7), "int32"), keras.ops.ones((3, 6), "int32"))
    >>> callback = LinearStart(reader, epochs=20)
    >>> callback.on_train_begin()
    >>> reader.is_linear()
    True

    Reference: Sukhbaatar et al. 2015, https://arxiv.org/abs/1503.08895, section 4.2.
    """

    def __init__(self, layer, monitor="val_loss", patience=1, epochs=None):
        super().__init__()
        if not isinstance(layer, MemoryHops):
            raise ValueError(
                f"LinearStart expects `layer` to be a `MemoryHops`. Received: layer={layer!r}"
            )
        self.layer, self.monitor = layer, monitor
        self.patience = checks.positive_int("LinearStart", "patience", patience)
        if epochs is not None:
            checks.positive_int("LinearStart", "epochs", epochs)
        self.epochs = epochs

    def on_train_begin(self, logs=None):
        self.best, self.waited = float("inf"), 0
        self.layer.set_linear(True)

    def on_epoch_begin(self, epoch, logs=None):
        if self._is_late(epoch):  # a training that goes on after its first part was over
            self.layer.set_linear(False)

    def on_epoch_end(self, epoch, logs=None):
        if not self.layer.is_linear():
            return
        current = self._monitored(logs or {})
        self.waited = 0 if current < self.best else self.waited + 1
        self.best = min(self.best, current)
        if self.waited >= self.patience or self._is_late(epoch + 1):
            self.layer.set_linear(False)

    def _is_late(self, epochs):
        """Whether so many epochs are as many as the linear part may take."""
        return self.epochs is not None and epochs >= self.epochs

    def _monitored(self, logs):
        if self.monitor not in logs:
            raise ValueError(
                f"LinearStart watches {self.monitor!r}, which this training does not report. Pass "
                f"`validation_data` to `fit`, or another `monitor`. Received: logs={sorted(logs)}"
            )
        return float(logs[self.monitor])
