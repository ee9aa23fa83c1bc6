"""The callback that makes a run directory: history.csv, the best weights, and why it ended."""

import contextlib
import math
import pathlib
import time

import keras

from examples.training.history import History, read_history
from examples.training.settings import LARGER_IS_BETTER, TrainingDiverged
from examples.training.training_plan import TrainingPlan
from examples.training.workers import STEPS_BETWEEN_MESSAGES, Workers


class RunRecorder(keras.callbacks.Callback):
    """Measures, writes history.csv, saves the best weights and stops the training in time.

    All that it knows of earlier epochs it reads from history.csv, so that a resumed training
    goes on as if it had not been stopped.

    Args:
        directory: The run's folder.
        plan: The `TrainingPlan`.
        average: The callback that lends the moving average of the weights to the model, or None.
        workers: The processes of the run. The chief measures, writes and decides.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        plan: TrainingPlan,
        average: keras.callbacks.SwapEMAWeights | None = None,
        workers: Workers | None = None,
    ) -> None:
        super().__init__()
        path = directory / "history.csv"
        self.plan, self.settings, self.average = plan, plan.settings, average
        self.workers = workers or Workers()
        self.rows = read_history(path) if path.exists() else []
        self.reason = self._find_reason()
        self._history = History(path if self.workers.is_chief else None)
        self._seconds_before = 0.0

    @property
    def best(self) -> dict[str, float] | None:
        """The row of the best epoch."""
        values = [(row[self._column(row)], row) for row in self.rows]
        values = [(value, row) for value, row in values if not math.isnan(value)]
        if not values:
            return None
        choose = max if self.settings.monitor in LARGER_IS_BETTER else min
        return choose(values, key=lambda pair: pair[0])[1]

    def _column(self, row):
        validated = f"val_{self.settings.monitor}"
        return validated if validated in row else self.settings.monitor

    def best_value(self) -> float | None:
        """Returns the best value of the monitored metric, None if there is none."""
        return None if self.best is None else self.best[self._column(self.best)]

    def _find_reason(self):
        """Returns why the training is over after the rows so far, None if it is not."""
        settings, value = self.settings, self.best_value()
        if value is None:
            return None
        if settings.stop_at_metric is not None:
            is_larger = settings.monitor in LARGER_IS_BETTER
            wanted = settings.stop_at_metric
            if value >= wanted if is_larger else value <= wanted:
                return "stop_at_metric"
        minutes = settings.max_minutes
        if minutes is not None and self.rows[-1]["seconds"] >= 60 * minutes:
            return "max_minutes"
        waited = self.rows[-1]["epoch"] - self.best["epoch"]
        if settings.patience is not None and waited >= settings.patience:
            return "patience"
        return "epochs" if self.rows[-1]["epoch"] >= settings.epochs else None

    def _seconds(self):
        return self._seconds_before + time.monotonic() - self._began

    def on_train_begin(self, logs=None):
        self._began, self._is_first = time.monotonic(), True

    def on_epoch_begin(self, epoch, logs=None):
        if self._is_first:  # a row may be newer than the backup, or of an epoch cut short
            self._seconds_before = self.rows[-1]["seconds"] if self.rows else 0.0
            self.rows = [row for row in self.rows if row["epoch"] <= epoch]
            self._is_first = False
            if epoch:
                print(f"Resumed in epoch {epoch + 1}.")

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            self._raise_diverged("loss", logs["loss"])
        minutes = self.settings.max_minutes
        if minutes is None or (self.workers.count > 1 and batch % STEPS_BETWEEN_MESSAGES):
            return
        if self.workers.any(self._seconds() > 60 * minutes)[0]:
            self.reason = "max_minutes"
            self.model.stop_training = True

    def _raise_diverged(self, name, loss):
        raise TrainingDiverged(
            f"The training diverged at step {_read(self.model.optimizer.iterations):.0f}: {name} "
            f"{loss}. The backup in the run's folder is from before that. Lower the "
            "learning rate, warm up longer or clip harder (--clip-norm)."
        )

    def on_epoch_end(self, epoch, logs=None):
        if math.isnan(logs.get("val_loss", 0.0)):  # the last update spoiled the weights
            self._raise_diverged("validation loss", logs["val_loss"])
        with self._use_average():
            self._record(epoch, logs)
            if self.workers.is_chief and self.best is self.rows[-1]:
                self.plan.save(self.plan.model)
        # After the weights: what is killed in between trains the epoch again, and saves them.
        self._history.restore(self.rows)
        self.reason = self.reason or self._find_reason()
        if self.reason is not None:
            self.model.stop_training = True

    def _record(self, epoch, logs):
        model, optimizer, is_chief = self.plan.model, self.model.optimizer, self.workers.is_chief
        measured = {m.name: float(m.compute(model)) for m in self.plan.measures if is_chief}
        logs.update(self.workers.broadcast(measured))
        row = {"epoch": epoch + 1, "steps": _read(optimizer.iterations)}
        row |= {name: float(value) for name, value in logs.items()}
        row |= {"learning_rate": _read(optimizer.learning_rate), "seconds": self._seconds()}
        row = self.workers.broadcast(row)
        if self._column(row) not in row:
            raise ValueError(
                f"train expects `monitor` to be the name of a metric. Received: "
                f"monitor={self.settings.monitor!r}, measured: {', '.join(row)}"
            )
        self.rows.append(row)

    @contextlib.contextmanager
    def _use_average(self):
        """A context in which the model has the averaged weights."""
        if self.average is None:
            yield
            return
        self.average.on_test_begin()
        try:
            yield
        finally:
            self.average.on_test_end()


def _read(variable):
    return float(keras.ops.convert_to_numpy(variable))  # `float` fails for several devices


class Plateau(keras.callbacks.ReduceLROnPlateau):
    """Lowers the learning rate when a metric stops improving; counts on after a resumption.

    Args:
        directory: The run's folder, whose history.csv says what has been counted.
        monitor: Name of the metric.
        factor: What the rate is multiplied by.
        patience: Epochs without improvement before that.
    """

    def __init__(
        self, directory: pathlib.Path, monitor: str, factor: float = 0.5, patience: int = 2
    ) -> None:
        mode = "max" if monitor in LARGER_IS_BETTER else "min"
        super().__init__(monitor, factor, patience, mode=mode, min_delta=0.0)
        path = directory / "history.csv"
        self._rows = read_history(path) if path.exists() else []

    def on_epoch_begin(self, epoch, logs=None):
        rows, self._rows = self._rows, []
        rate = _read(self.model.optimizer.learning_rate)
        for row in rows:
            if row["epoch"] <= epoch:
                self.on_epoch_end(row["epoch"] - 1, row)
        self.model.optimizer.learning_rate = rate

    def on_epoch_end(self, epoch, logs=None):
        validated = f"val_{self.monitor}"
        if validated in logs:
            logs = {**logs, self.monitor: logs[validated]}
        super().on_epoch_end(epoch, logs)
