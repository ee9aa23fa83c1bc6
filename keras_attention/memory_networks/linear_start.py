"""Linear start of memory networks, Sukhbaatar et al. 2015 (https://arxiv.org/abs/1503.08895),
section 4.2: training starts without the softmax over memories, which is inserted when the
validation loss stops falling."""

from collections.abc import Mapping

import keras

from keras_attention import validation
from keras_attention.memory_networks.memory_hops import MemoryHops


class LinearStart(keras.callbacks.Callback):
    """Trains a `MemoryHops` layer without its softmax first, and inserts it later.

    Use it if a memory network stays at chance: without the softmax the early gradients are larger.
    Inserting the softmax does not trace the model again.

    Args:
        layer: The built `MemoryHops` layer of the model to fit.
        monitor: Name of the quantity that must decrease.
        patience: Positive int, the number of epochs without a new minimum after which the
            softmax is inserted.
        epochs: Optional positive int, the maximum number of epochs without the softmax. The
            authors' code always uses 20.

    Raises:
        ValueError: If `layer` is not a `MemoryHops`, or a number is not a positive int.

    Example:

    >>> reader = MemoryHops(vocabulary_size=11, units=4)
    >>> _ = reader(keras.ops.ones((3, 5, 7), "int32"), keras.ops.ones((3, 6), "int32"))
    >>> callback = LinearStart(reader, epochs=20)
    >>> callback.on_train_begin()
    >>> reader.is_linear()
    True

    Reference: Sukhbaatar et al. 2015, https://arxiv.org/abs/1503.08895, section 4.2.
    """

    layer: MemoryHops
    monitor: str
    patience: int
    best: float
    wait: int

    def __init__(
        self,
        layer: MemoryHops,
        monitor: str = "val_loss",
        patience: int = 1,
        epochs: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(layer, MemoryHops):
            raise ValueError(
                f"LinearStart expects `layer` to be a `MemoryHops`. Received: layer={layer!r}"
            )
        self.layer, self.monitor = layer, monitor
        self.patience = validation.check_positive_int("LinearStart", "patience", patience)
        if epochs is not None:
            validation.check_positive_int("LinearStart", "epochs", epochs)
        self.epochs = epochs

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        self.best, self.wait = float("inf"), 0
        self.layer.set_linear(True)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        if self._is_at_limit(epoch):  # a resumed training whose linear part is over
            self.layer.set_linear(False)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        if not self.layer.is_linear():
            return
        current = self._get_monitor_value(logs or {})
        self.wait = 0 if current < self.best else self.wait + 1
        self.best = min(self.best, current)
        if self.wait >= self.patience or self._is_at_limit(epoch + 1):
            self.layer.set_linear(False)

    def _is_at_limit(self, epochs):
        """Whether this is the maximum number of epochs of the linear part."""
        return self.epochs is not None and epochs >= self.epochs

    def _get_monitor_value(self, logs):
        if self.monitor not in logs:
            raise ValueError(
                f"LinearStart monitors {self.monitor!r}, which this training does not report. Pass "
                "`validation_data` to `fit`, or a different `monitor`. "
                f"Received: logs={sorted(logs)}"
            )
        return float(logs[self.monitor])
