"""The lines of plain and gzip files, with an error that names the file where one cannot be read."""

import gzip
import os
import zlib
from collections.abc import Iterator

from examples.data.report import DataError

_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def lines_of(path: str | os.PathLike) -> Iterator[bytes]:
    """Yields the lines of a plain or gzip file, without their ends and a byte-order mark.

    Raises:
        DataError: If the file cannot be read, is damaged, empty or UTF-16.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.txt")
    >>> _ = path.write_bytes(b"one\\r\\ntwo")
    >>> list(lines_of(path))
    [b'one', b'two']
    """
    name, number = os.fspath(path), 0
    try:
        with open(path, "rb") as raw:
            start = raw.read(2)
            raw.seek(0)
            if name.endswith(".gz") and start != _GZIP and start:
                raise DataError(f"{name} is named .gz but is not gzip. Rename or compress it.")
            with gzip.open(raw) if start == _GZIP else raw as stream:
                for number, line in enumerate(stream, start=1):
                    yield _without_end(line, number, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{name} is damaged after line {number} ({error}). Compress or copy it again."
        ) from error
    except FileNotFoundError as error:
        raise DataError(f"{name} does not exist. Check the path.") from error
    except IsADirectoryError as error:
        raise DataError(f"{name} is a folder. Name a file in it.") from error
    except OSError as error:
        raise DataError(f"{name} cannot be read ({error.strerror or error}).") from error
    if not number:
        raise DataError(f"{name} is empty. Give a file that holds something.")


def _without_end(line, number, name):
    if number == 1:
        if line.startswith(_UTF16):
            raise DataError(f"{name} is UTF-16. Convert it: `iconv -f UTF-16 -t UTF-8`.")
        line = line.removeprefix(_BOM)
    return line.removesuffix(b"\n").removesuffix(b"\r")


def decode_line(line: bytes, name: str, number: int) -> str:
    """Returns a line as text.

    Args:
        line: What stands in it.
        name: The file.
        number: Number of the line, from 1.

    Raises:
        DataError: If the line is not UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{name}:{number}: expected UTF-8. Convert the file.") from None
