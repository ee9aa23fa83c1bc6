"""What a run is told, and what it answers."""

import dataclasses
from collections.abc import Callable

import keras

from keras_attention import validation


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Settings of `loop.train`; every field has a default.

    Args:
        epochs: Positive int, epochs at most.
        minutes: None, or the wall time the run may take, all resumptions together. The last
            evaluation is counted in as far as its length is known.
        patience: None, or the evaluations without improvement after which the run stops.
        goal: None, or the value of what is monitored at which the run stops.
        monitor: What decides which weights are best: `"loss"` (on the dev data, the
            default), another number of the objective (`"accuracy"`), or the name of a `Metric`
            given to the loop.
        clip_norm: None, or the largest global norm of the gradient.
        clip_value: None, or the largest absolute value of an element of the gradient.
        jit_compile: Bool, compile with XLA.
        checkpoint_seconds: None, or the seconds from one checkpoint to the next.
        checkpoint_steps: None, or the updates from one checkpoint to the next.
        keep_checkpoints: Positive int, how many are kept.
        log_steps: Positive int, updates between two looks at the loss at most; a loss
            that is not finite is noticed there.
        tensorboard: Bool, write scalars for TensorBoard under `tensorboard/`.

    Raises:
        ValueError: If a field is not as described.

    Example:

    >>> TrainingSettings(epochs=0)
    Traceback (most recent call last):
        ...
    ValueError: TrainingSettings expects `epochs` to be a positive int. Received: epochs=0
    """

    epochs: int = 10
    minutes: float | None = None
    patience: int | None = None
    goal: float | None = None
    monitor: str = "loss"
    clip_norm: float | None = 1.0
    clip_value: float | None = None
    jit_compile: bool = True
    checkpoint_seconds: float | None = 120.0
    checkpoint_steps: int | None = None
    keep_checkpoints: int = 2
    log_steps: int = 50
    tensorboard: bool = False

    @classmethod
    def from_arguments(cls, arguments, **changes) -> "TrainingSettings":
        """Returns the settings that the options of `python -m examples train` ask for.

        Args:
            arguments: Namespace with the options that every family has, and `clip_value` where
                it has that. A norm or value of 0 clips nothing.
            **changes: Fields that are not what the options say.
        """
        same = ("epochs", "minutes", "patience", "goal", "monitor", "checkpoint_seconds")
        settings = {name: getattr(arguments, name) for name in (*same, "tensorboard")}
        settings |= {
            name: getattr(arguments, name, None) or None for name in ("clip_norm", "clip_value")
        }
        return cls(**settings | {"jit_compile": not arguments.no_jit} | changes)

    def __post_init__(self):
        owner = "TrainingSettings"
        for name in ("epochs", "keep_checkpoints", "log_steps"):
            validation.check_positive_int(owner, name, getattr(self, name))
        for name in ("patience", "checkpoint_steps"):
            if getattr(self, name) is not None:
                validation.check_positive_int(owner, name, getattr(self, name))
        for name in ("minutes", "checkpoint_seconds", "clip_norm", "clip_value"):
            if getattr(self, name) is not None:
                validation.check_number_in_range(owner, name, getattr(self, name), 0.0)
        for name in ("clip_norm", "clip_value"):
            if getattr(self, name) == 0:
                raise ValueError(
                    f"{owner} expects `{name}` to be positive; None leaves the gradient as it is. "
                    f"Received: {name}=0"
                )


class TrainingDiverged(ArithmeticError):
    """The loss or the gradient is no longer a number."""


@dataclasses.dataclass(frozen=True)
class Metric:
    """Something to measure after each epoch, such as BLEU or exact match.

    Args:
        name: The column in history.csv.
        compute: Function of the model that returns a float.
        larger_is_better: Bool.
    """

    name: str
    compute: Callable[[keras.Model], float]
    larger_is_better: bool = True


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """How a run ended.

    Args:
        reason: `"epochs"`, `"patience"`, `"goal"`, `"minutes"` or `"interrupted"`.
        history: The rows of history.csv.
        best: Value of the monitored quantity for the weights the model now holds, None
            if nothing was evaluated.
        best_epoch: The epoch they come from, counted from 1.
        steps: Updates made.
        seconds: Wall time, all resumptions together.
    """

    reason: str
    history: list
    best: float | None
    best_epoch: int | None
    steps: int
    seconds: float
