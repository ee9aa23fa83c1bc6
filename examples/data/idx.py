"""MNIST from its four IDX files, gzipped as they are published or not.

    0x00 0x00 type dimensions            four bytes; type 0x08 are unsigned bytes
    size of each dimension               big-endian, four bytes each
    the numbers, the last dimension fastest

LeCun and Cortes, the MNIST database of handwritten digits.
"""

import gzip
import math
import pathlib
import zlib

import numpy as np

from examples.data.report import DataError

VALIDATION = 5_000
"""Training images that are held out, the last ones."""
SIDE = 28
PARTS = ("train", "validation", "test")
FILES = {"train": "train", "validation": "train", "test": "t10k"}
UNSIGNED_BYTES = 0x08
GZIP = b"\x1f\x8b"


def read_mnist(folder, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images and the digits of a part of MNIST.

    Args:
        folder: Where `train-images-idx3-ubyte.gz`, `train-labels-idx1-ubyte.gz` and the two that
            begin with `t10k` are; without `.gz` they may be unpacked.
        part: "train", the training files without their last 5,000 images; "validation", these; or
            "test".

    Returns:
        Arrays of uint8: images `(count, 28, 28)`, 0 is background and 255 ink, and digits
        `(count,)`.

    Raises:
        DataError: If a file is missing or damaged, or images and digits do not fit.
    """
    if part not in PARTS:
        raise ValueError(f"read_mnist expects `part` to be one of {PARTS}. Received: {part!r}")
    images_path = _find(folder, f"{FILES[part]}-images-idx3-ubyte")
    labels_path = _find(folder, f"{FILES[part]}-labels-idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.shape[1:] != (SIDE, SIDE):
        raise DataError(
            f"{images_path}: expected images of {SIDE} x {SIDE} points, three dimensions; it "
            f"has the shape {images.shape}."
        )
    if labels.shape != images.shape[:1]:
        raise DataError(
            f"{labels_path}: expected one digit for each of the {len(images):,} images of "
            f"{images_path.name}; it has the shape {labels.shape}."
        )
    if labels.size and labels.max() > 9:
        place = int(np.argmax(labels > 9))
        raise DataError(
            f"{labels_path}: expected digits from 0 to 9; number {place} is {labels[place]}."
        )
    kept = {
        "train": slice(None, -VALIDATION),
        "validation": slice(-VALIDATION, None),
        "test": slice(None),
    }[part]
    if not len(images[kept]):
        needed = f"more than {VALIDATION:,} images" if part == "train" else "images"
        raise DataError(f"{images_path}: expected {needed}; it has the shape {images.shape}.")
    return images[kept], labels[kept]


def read_idx(path) -> np.ndarray:
    """Returns the array of unsigned bytes in an IDX file, gzipped or not.

    Raises:
        DataError: If it cannot be read, is damaged or holds numbers of another type.

    Example:

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "three-idx1-ubyte")
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx(path).tolist()
    [7, 2, 1]
    """
    content = _content(pathlib.Path(path))
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(
            f"{path}: expected an IDX file, which begins with two bytes of 0. Received: "
            f"{content[:4]!r}"
        )
    if content[2] != UNSIGNED_BYTES:
        raise DataError(
            f"{path}: byte 2: expected the type {UNSIGNED_BYTES:#04x}, unsigned bytes. Received: "
            f"{content[2]:#04x}"
        )
    start = 4 + 4 * content[3]
    if not content[3] or len(content) < start:
        raise DataError(
            f"{path}: byte 3: expected the number of dimensions and, in four bytes each, their "
            f"sizes; it says {content[3]}, and {len(content) - 4} bytes follow."
        )
    shape = tuple(np.frombuffer(content, ">u4", content[3], 4).tolist())
    expected = math.prod(shape)
    if len(content) - start != expected:
        raise DataError(
            f"{path}: expected {expected:,} numbers after byte {start}, for the shape {shape}; "
            f"found {len(content) - start:,}. Copy the file again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _find(folder, name):
    """The path of a file, gzipped or not."""
    folder = pathlib.Path(folder)
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise DataError(f"{folder}: expected {name}.gz there, or {name}; it has neither.")


def _content(path):
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == GZIP else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: expected a gzip file that can be unpacked ({error}). Copy it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}. Check the path.") from None
