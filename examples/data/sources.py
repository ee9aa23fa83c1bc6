"""Several sources as one text: `ein hund <sep> un chien`.

So a translator of several sources has the files, the tokenizers and the requests of one source.
"""

import gzip
import os
import pathlib
from collections.abc import Sequence

from examples.data.lines import lines_of
from examples.data.report import DataError
from keras_attention.data import atomic_files

SEPARATOR = "<sep>"


def join_sources(paths: Sequence[str | os.PathLike], output: str | os.PathLike) -> int:
    """Writes line n of all files as line n of one, and returns the number of lines.

    A line that is empty in all files stays empty. If it is empty in some, these sources are
    missing there.

    Args:
        paths: The sources, plain or gzip.
        output: The file to write, compressed if its name ends in .gz.

    Raises:
        DataError: If there are fewer than two files, one of them cannot be read or contains the
            separator, they have different numbers of lines, or the output cannot be written.

    Example:

    >>> import tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, text in (("de", "ein hund\\n"), ("fr", "un chien\\n")):
    ...     _ = (folder / name).write_text(text)
    >>> join_sources([folder / "de", folder / "fr"], folder / "de-fr")
    1
    >>> (folder / "de-fr").read_text()
    'ein hund <sep> un chien\\n'
    """
    if len(paths) < 2:
        raise DataError(f"Name at least two files. Received: {', '.join(map(str, paths))}")
    sources = {os.fspath(path): list(lines_of(path)) for path in paths}
    counts = {name: len(lines) for name, lines in sources.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise DataError(
            "Line n of every source must say the same, so all files need as many lines. Find the "
            "lines that are missing in one, or that only one has (an empty one at its end counts "
            f"too). Received: lines of {listed}"
        )
    separator = SEPARATOR.encode()
    for name, lines in sources.items():
        for number, line in enumerate(lines, 1):
            if separator in line:
                raise DataError(
                    f"{name}:{number} contains {SEPARATOR}, which stands between two sources. "
                    "Remove it."
                )
    joined = [
        b" ".join([b"%b %b" % (line.strip(), separator) for line in first] + [last.strip()])
        if any(line.strip() for line in (*first, last))
        else b""
        for *first, last in zip(*(sources[os.fspath(path)] for path in paths), strict=True)
    ]
    _write(pathlib.Path(output), b"".join(line.strip() + b"\n" for line in joined))
    return len(joined)


def _write(path, content):
    """Writes a file, whole or not at all."""
    try:
        atomic_files.write_bytes(path, gzip.compress(content) if path.suffix == ".gz" else content)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror}). Name a file that can."
        ) from error
