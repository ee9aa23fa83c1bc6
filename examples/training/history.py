"""`history.csv`: one row an epoch, always a whole file, cut back to a checkpoint on resume."""

import csv
import io
import pathlib

from keras_attention.data import atomic_files


class History:
    """The rows of a run and the file that shows them.

    Args:
        path: Where the file stands; None keeps the rows in memory only.

    Each row is a dict of numbers. A change of columns is fine: the file is written anew
    each time, beside the old one, and renamed, so no crash leaves half a line.
    """

    def __init__(self, path: pathlib.Path | None = None):
        self.path = pathlib.Path(path) if path else None
        self.rows = []

    def append(self, row: dict) -> None:
        """Adds a row and writes the file.

        Raises:
            OSError: If it cannot be written; the row is kept, the next call tries again.
        """
        self.rows.append(dict(row))
        self.write()

    def restore(self, rows: list[dict]) -> None:
        """Goes back to the rows of a checkpoint, in memory and on disk."""
        self.rows = [dict(row) for row in rows]
        self.write()

    def write(self) -> None:
        """Writes the file anew; an empty history writes none."""
        if self.path is None or (not self.rows and not self.path.exists()):
            return
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        if columns:
            writer.writeheader()
        writer.writerows({k: _format_value(v) for k, v in row.items()} for row in self.rows)
        atomic_files.write_bytes(self.path, text.getvalue().encode())


def read_history(path: pathlib.Path) -> list[dict]:
    """Returns the rows of a `history.csv`, numbers as float, empty cells left out."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{k: _read(k, v) for k, v in row.items() if v != ""} for row in csv.DictReader(file)]


def _read(column, text):
    return int(text) if column == "epoch" else float(text)


def _format_value(value):
    return repr(float(value)) if isinstance(value, float) else value
