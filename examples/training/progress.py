"""What a person watching a run sees: a bar on a terminal, plain lines in a log."""

import sys
import time

from examples.missing_packages import missing_package_error

SECONDS_BETWEEN_LINES = 20.0


def make_progress(stream=None):
    """Returns a bar when `stream` (standard output) is a terminal, plain lines otherwise."""
    stream = stream or sys.stdout
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def clock(seconds: float | None) -> str:
    """Returns seconds as people read them.

    Example:

    >>> clock(62), clock(3723.4), clock(None)
    ('1:02', '1:02:03', '-')
    """
    if seconds is None:
        return "-"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _left(seconds):
    return "time left not known yet" if seconds is None else f"{clock(seconds)} left"


class LineProgress:
    """Prints a line now and then.

    Args:
        stream: A text file.
        seconds: Seconds between two lines within an epoch.
    """

    def __init__(self, stream=None, seconds: float = SECONDS_BETWEEN_LINES):
        self.stream = stream or sys.stdout
        self.seconds = seconds
        self._last = time.monotonic()

    def start(self, title: str, total: int, done: int) -> None:
        """Begins an epoch of `total` batches, `done` of them done."""
        self.title, self.total = title, total

    def update(self, done: int, loss: float, speed: str, left) -> None:
        """Shows the epoch's loss so far, the speed and the seconds left."""
        if time.monotonic() - self._last < self.seconds:
            return
        self._last = time.monotonic()
        self.message(
            f"{self.title}  batch {done}/{self.total}  loss {loss:.4f}  {speed}  {_left(left)}"
        )

    def message(self, text: str) -> None:
        """Prints a line that stays."""
        print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Ends the display; it may be started again."""


class BarProgress:
    """Draws a progress bar with loss, speed and time left (needs `rich`)."""

    def __init__(self, stream=None):
        try:
            from rich import console, progress
        except ModuleNotFoundError as error:
            raise missing_package_error("The progress bar", "rich") from error
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=20),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[detail]}"),
            console=console.Console(file=stream or sys.stdout, highlight=False),
            transient=True,
        )
        self._task = None

    def start(self, title, total, done):
        self.close()
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, completed=done, detail="")

    def update(self, done, loss, speed, left):
        detail = f"loss {loss:.4f}  {speed}  {_left(left)}"
        self._bar.update(self._task, completed=done, detail=detail, refresh=True)

    def message(self, text):
        self._bar.console.print(text, markup=False)

    def close(self):
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
        self._bar.stop()
