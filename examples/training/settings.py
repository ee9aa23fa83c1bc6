"""What a training is told, and what it answers."""

import dataclasses
from collections.abc import Callable

import keras

#: Metrics of which the larger value is the better one; of all others it is the smaller.
LARGER_IS_BETTER = {"accuracy", "bleu", "exact_match", "pointing_accuracy"}


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Settings of `train`.

    Args:
        epochs: Positive int, epochs at most.
        monitor: Name of the metric whose best value on the validation data decides which weights
            are kept.
        max_minutes: None, or the wall time the training may take, all resumptions together,
            but not what an interrupted epoch had taken. The epoch in which it ends is cut short
            and measured.
        patience: None, or the epochs without improvement after which the training stops.
        stop_at_metric: None, or the value of the metric at which the training stops.
        jit_compile: Whether to compile with XLA.
        checkpoint_seconds: Seconds from one backup to the next within an epoch.
        tensorboard: Whether to write files for TensorBoard.
        uses_average: Whether the optimizer keeps a moving average of the weights, which is
            measured and kept then.
    """

    epochs: int
    monitor: str
    max_minutes: float | None = None
    patience: int | None = None
    stop_at_metric: float | None = None
    jit_compile: bool = True
    checkpoint_seconds: float = 60.0
    tensorboard: bool = False
    uses_average: bool = False


class TrainingDiverged(ArithmeticError):
    """The loss is no longer a number."""


@dataclasses.dataclass(frozen=True)
class Measure:
    """Something to measure after each epoch that is no metric of `compile`, such as BLEU.

    Args:
        name: The column in history.csv.
        compute: Function of the model that returns a float.
    """

    name: str
    compute: Callable[[keras.Model], float]


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """How a training ended.

    Args:
        reason: `"epochs"`, `"patience"`, `"stop_at_metric"` or `"max_minutes"`.
        history: The rows of history.csv.
        best: The best value of the monitored metric, None if no epoch ended.
        best_epoch: Its epoch, counted from 1.
    """

    reason: str
    history: list[dict[str, float]]
    best: float | None
    best_epoch: int | None
