"""The training loop inside a notebook: a bar in one line, and a folder that is thrown away."""

import sys
import tempfile

from examples.training import loop
from examples.training.progress import clock
from examples.training.settings import TrainingResult, TrainingSettings

WIDTH = 20


def train(model, batches, dev_batches, *, settings=None, **options) -> TrainingResult:
    """Trains a model as `python -m examples train` does and leaves the best weights in it.

    Args:
        model, batches, dev_batches: See `examples.training.loop.train`.
        settings: Dict of the fields of `TrainingSettings` that are not the default.
        **options: What else `loop.train` takes: `objective`, `optimizer`, `average`, ...
    """
    chosen = TrainingSettings(**{"checkpoint_seconds": None, **(settings or {})})
    with tempfile.TemporaryDirectory() as folder:
        options = {"progress": LineBar(), **options}
        return loop.train(model, batches, dev_batches, chosen, folder, **options)


class LineBar:
    """A bar that is drawn over itself, on outputs that know nothing but the carriage return.

    Args:
        stream: A text file; standard output by default.

    Example:

    >>> bar = LineBar()
    >>> bar.start("epoch 1/2", total=4, done=0)
    >>> bar.message("epoch 1: done")
    epoch 1: done
    """

    def __init__(self, stream=None):
        self.stream = stream or sys.stdout
        self._drawn = 0

    def start(self, title: str, total: int, done: int) -> None:
        """Begins an epoch of `total` batches, `done` of them done."""
        self.title, self.total = title, total

    def update(self, done: int, loss: float, speed: str, left) -> None:
        """Draws the bar with the epoch's loss so far, the speed and the seconds left."""
        full = WIDTH * done // max(self.total, 1)
        bar = "█" * full + "░" * (WIDTH - full)
        line = f"{self.title} {bar} {done}/{self.total}  loss {loss:.4f}  {clock(left)} left"
        self.stream.write("\r" + line.ljust(self._drawn))
        self.stream.flush()
        self._drawn = len(line)

    def message(self, text: str) -> None:
        """Writes a line that stays, over the bar."""
        start = "\r" if self._drawn else ""
        self.stream.write(f"{start}{text.ljust(self._drawn)}\n")
        self.stream.flush()
        self._drawn = 0

    def close(self) -> None:
        """Ends the display; it may be started again."""
        if self._drawn:
            self.message("")
