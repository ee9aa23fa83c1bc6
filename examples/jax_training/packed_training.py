"""`training.npz`: what a training of translators needs, in one file without code."""

import dataclasses
import json
import pathlib
import zipfile
import zlib

import numpy as np

from keras_attention.data import atomic_files

FILE = "training.npz"


def write_arrays(path: pathlib.Path, **arrays: np.ndarray) -> None:
    """Writes a file of NumPy arrays, whole or not at all."""
    with atomic_files.replace_file(path) as temporary_path, open(temporary_path, "wb") as file:
        np.savez_compressed(file, **arrays)


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads a file of NumPy arrays.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is no such file, or is damaged.
    """
    try:
        with open(path, "rb") as raw, np.load(raw) as file:
            return dict(file)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}).") from error


@dataclasses.dataclass(frozen=True)
class PackedTraining:
    """A model, an optimizer and encoded pairs.

    Attributes:
        settings: `model` (Keras' JSON of it), `optimizer` (serialized by Keras), `label_smoothing`,
            `epochs`, and for `training` and `validation` the settings of `PackedPairs`.
        arrays: Those of `PackedPairs`, each name begins with `training_` or `validation_`.
    """

    settings: dict[str, object]
    arrays: dict[str, np.ndarray]

    def write(self, path: pathlib.Path) -> None:
        """Writes the file."""
        text = np.frombuffer(json.dumps(self.settings).encode(), np.uint8)
        write_arrays(path, settings=text, **self.arrays)

    @classmethod
    def read(cls, path: pathlib.Path) -> "PackedTraining":
        """Reads a file.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is none of `pack`, or is damaged.
        """
        try:
            arrays = read_arrays(path)
            settings = json.loads(arrays.pop("settings").tobytes())
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{path} is no training of `python -m examples.jax_training pack`, or is damaged."
            ) from error
        return cls(settings, arrays)

    def get_pairs(self, part: str) -> tuple[dict[str, np.ndarray], dict[str, object]]:
        """Returns the arguments of `PackedPairs` of "training" or "validation"."""
        prefix = f"{part}_"
        arrays = {
            name.removeprefix(prefix): array
            for name, array in self.arrays.items()
            if name.startswith(prefix)
        }
        return arrays, self.settings[part]
