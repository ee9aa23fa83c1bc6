"""MNIST's files: what they hold, and what is said of damaged ones."""

import gzip

import numpy as np
import pytest
from data_folder import DATA

from examples.data import idx
from examples.data.report import DataError

MNIST = DATA / "mnist"


def content(array):
    """An IDX file of bytes."""
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write(folder, part="t10k", images=None, labels=None, pack=gzip.compress):
    """The two files of a part, of 11 pictures by default."""
    images = np.arange(11 * 28 * 28).reshape(11, 28, 28) if images is None else images
    labels = np.arange(11) % 10 if labels is None else labels
    end = ".gz" if pack is gzip.compress else ""
    (folder / f"{part}-images-idx3-ubyte{end}").write_bytes(pack(content(images)))
    (folder / f"{part}-labels-idx1-ubyte{end}").write_bytes(pack(content(labels)))
    return images.astype(np.uint8), labels


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_pictures_and_digits_come_as_they_were_written(tmp_path, pack):
    written = write(tmp_path, pack=pack)
    for read, expected in zip(idx.read_mnist(tmp_path, "test"), written, strict=True):
        assert read.dtype == np.uint8
        np.testing.assert_array_equal(read, expected)


def test_the_last_five_thousand_training_pictures_are_the_validation_part(tmp_path):
    labels = np.arange(idx.VALIDATION + 3) % 7
    write(tmp_path, "train", np.zeros((idx.VALIDATION + 3, 28, 28)), labels)
    (images, training), (_, dev) = (
        idx.read_mnist(tmp_path, part) for part in ("train", "validation")
    )
    assert images.shape == (3, 28, 28)
    np.testing.assert_array_equal(np.concatenate([training, dev]), labels)


def test_damaged_files_are_told_by_name_and_byte(tmp_path):
    whole = content(np.arange(5))
    cases = {
        b"": "begins with two bytes of 0",
        b"\x89PNG....": "begins with two bytes of 0",
        bytes([0, 0, 13]) + whole[3:]: "byte 2: expected the type 0x08",
        bytes([0, 0, 8, 3, 0, 0]): "byte 3: expected the number of dimensions",
        whole[:-1]: r"expected 5 numbers after byte 8, for the shape \(5,\); found 4",
        whole + b"1": "found 6",
        gzip.compress(whole)[:-9]: "can be unpacked",
    }
    for number, (damaged, message) in enumerate(cases.items()):
        path = tmp_path / f"file{number}"
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"file{number}: .*{message}"):
            idx.read_idx(path)
    with pytest.raises(DataError, match="absent: .*Check the path"):
        idx.read_idx(tmp_path / "absent")


def test_files_that_do_not_fit_each_other_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected t10k-images-idx3-ubyte.gz there"):
        idx.read_mnist(tmp_path, "test")
    write(tmp_path, labels=np.arange(7))
    with pytest.raises(DataError, match="one digit for each of the 11 images"):
        idx.read_mnist(tmp_path, "test")
    write(tmp_path, labels=np.array([3] * 8 + [12, 1, 1]))
    with pytest.raises(DataError, match="digits from 0 to 9; number 8 is 12"):
        idx.read_mnist(tmp_path, "test")
    write(tmp_path, images=np.zeros((11, 7, 28)))
    with pytest.raises(DataError, match="images of 28 x 28"):
        idx.read_mnist(tmp_path, "test")
    write(tmp_path, "train")
    with pytest.raises(DataError, match=r"more than 5,000 images; it has the shape \(11, 28, 28"):
        idx.read_mnist(tmp_path, "train")
    with pytest.raises(ValueError, match="one of .'train', 'validation', 'test'"):
        idx.read_mnist(tmp_path, "dev")


@pytest.mark.skipif(not MNIST.is_dir(), reason="MNIST is not in the data folder")
def test_mnist_itself_is_read():
    images, labels = idx.read_mnist(MNIST, "test")
    assert images.shape == (10000, 28, 28)
    assert labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(labels)[1] == 1135
