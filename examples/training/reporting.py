"""What a run says while it goes: speed, progress, epoch summaries, TensorBoard."""

import pathlib
import time

import tensorflow as tf

from examples.training.objectives import Objective
from examples.training.progress import clock

SECONDS_BETWEEN_LOOKS = 0.5
# Before so many steps or so long, nothing is foretold: the first ones are not typical.
STEPS_TO_FORETELL, SECONDS_TO_FORETELL = 10, 2.0


class Pace:
    """Measures an epoch's speed, leaving out steps that were compiled and pauses.

    Args:
        count: What the objective has counted already when the measuring starts.
    """

    def __init__(self, count: float = 0.0):
        self.compiled, self.compiling = 0, 0.0
        self._steps, self._stepping, self._before = 0, 0.0, count
        self._looked = self._last = time.monotonic()

    def add(self, compiled: bool, count: float) -> None:
        """Counts the step just made; `count` is that of a step that was compiled."""
        now = time.monotonic()
        if compiled:
            self.compiled += 1
            self.compiling += now - self._last
            self._before += count
        else:
            self._steps += 1
            self._stepping += now - self._last
        self._last = now

    def catch_up(self) -> None:
        """Counts the wait for steps that ran on after they were counted; XLA's do."""
        if self._steps:
            now = time.monotonic()
            self._stepping += now - self._last
            self._last = now

    def resume(self) -> None:
        """Forgets the time since the last step, spent on a checkpoint."""
        self._last = time.monotonic()

    def should_look(self) -> bool:
        """Returns True about twice a second."""
        now = time.monotonic()
        if now - self._looked < SECONDS_BETWEEN_LOOKS:
            return False
        self._looked = now
        return True

    def per_second(self, count: float) -> float:
        """Returns the speed, given what has been counted by now."""
        return (count - self._before) / self._stepping if self._stepping else 0.0

    def seconds_for(self, steps: int, shapes: int = 0) -> float | None:
        """Returns what so many more steps will take, None while it is too early to say.

        Args:
            steps: Steps to come.
            shapes: How many of them meet a new batch shape, and wait for its compilation.
        """
        if self._steps < STEPS_TO_FORETELL and self._stepping < SECONDS_TO_FORETELL:
            return None
        compiling = shapes * self.compiling / self.compiled if self.compiled else 0.0
        return steps * self._stepping / self._steps + compiling


class Reporter:
    """Speaks for a run.

    Args:
        progress: A bar or lines; see `progress`.
        objective: What is minimized; it names what is counted, and its numbers.
        metric_names: The columns of history.csv to name in an epoch's summary.
        tensorboard: The folder for TensorBoard's files, or None.
    """

    def __init__(
        self,
        progress,
        objective: Objective,
        metric_names=(),
        tensorboard: pathlib.Path | None = None,
    ):
        self.progress, self.objective = progress, objective
        self.metric_names = tuple(metric_names)
        self._writer = tf.summary.create_file_writer(str(tensorboard)) if tensorboard else None

    def message(self, text: str) -> None:
        """Says a line that stays."""
        self.progress.message(text)

    def batch(self, position, seconds_left, **values) -> None:
        """Shows where the epoch stands; `values` need `train_loss`, `per_second`."""
        speed = values.pop("per_second")
        self.progress.update(position.batch, values["train_loss"], self._speed(speed), seconds_left)
        values[f"{self.objective.unit}_per_second"] = speed
        self._scalars(position.steps, values)

    def epoch(self, row: dict, improved: bool, pace: Pace, num_shapes: int) -> None:
        """Sums an epoch up."""
        parts = [
            f"epoch {row['epoch']}: train loss {row['train_loss']:.4f}",
            f"dev loss {row['dev_loss']:.4f}",
            *self.objective.text(row),
            *(f"{name} {row[name]:.4g}" for name in self.metric_names),
            self._speed(row[f"{self.objective.unit}_per_second"]),
            f"{clock(row['seconds'])}{' (best)' if improved else ''}",
        ]
        self.message(", ".join(parts))
        if pace.compiled:
            shapes = "shape" if pace.compiled == 1 else "shapes"
            self.message(
                f"  of which {pace.compiling:.0f} s went into compiling {pace.compiled} new batch "
                f"{shapes} ({num_shapes} in all)"
            )
        names = [name for name in row if name.startswith("dev_") or name in self.metric_names]
        self._scalars(row["steps"], {name: row[name] for name in names})

    def close(self) -> None:
        """Ends the display and TensorBoard's file."""
        self.progress.close()
        if self._writer is not None:
            self._writer.close()

    def _speed(self, per_second):
        return f"{per_second:,.0f} {self.objective.unit}/s"

    def _scalars(self, step, values):
        if self._writer is not None:
            with self._writer.as_default(step=step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()
