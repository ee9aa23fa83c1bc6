"""Reads and writes run directories: a trained model with its tokenizers and settings.

model.keras          the Keras model (classes of the library only)
run.json             schema version, model, its options, seed, special ids, lengths
source.tokenizer/    translators only: tokenizer.json and vocab.txt or spm.model
target.tokenizer/    translators only
history.csv          written by the training; this module ignores it
backup/              written by the training; this module ignores it
"""

import json
import os
import pathlib
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Mapping

import keras

import keras_attention  # noqa: F401  registers the classes of model files
from keras_attention.data import atomic_files
from keras_attention.export import tokenizers
from keras_attention.export._exception_summary import summarize_error
from keras_attention.export._translator_checks import check_translator, check_vocabularies
from keras_attention.export._type_aliases import JSONValue
from keras_attention.export.tokenizers import _storage
from keras_attention.export.tokenizers.base import SPECIAL_IDS

SCHEMA_VERSION = 1
SIDES = ("source", "target")
MIXED_POLICIES = ("mixed_bfloat16", "mixed_float16")
QUANTIZATIONS = ("int8",)


class Run:
    """A run directory that `read_run` has read.

    Attributes:
        directory: `pathlib.Path` of the run.
        settings: The dict that was passed to `write_run`.
        source_tokenizer, target_tokenizer: The tokenizers of a translator, else None.
        dtype: `"float32"` if mixed-precision layers are loaded as float32 layers, else None.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, JSONValue],
        source_tokenizer: tokenizers.Tokenizer | None,
        target_tokenizer: tokenizers.Tokenizer | None,
        dtype: str | None = None,
    ) -> None:
        self.directory = directory
        self.dtype = dtype
        self.settings = settings
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self._model = None

    @property
    def model(self) -> keras.Model:
        """The model, loaded on first access, without its optimizer.

        Raises:
            ValueError: If `model.keras` is damaged or does not fit the tokenizers.
        """
        if self._model is None:
            self._model = _load_model(self.directory / "model.keras")
            if self.dtype == "float32":
                self._model = convert_to_float32(self._model)
            if self.source_tokenizer is not None:
                check_vocabularies(self._model, self.source_tokenizer, self.target_tokenizer)
        return self._model


def write_run(
    directory: str | os.PathLike[str],
    model: keras.Model,
    settings: Mapping[str, JSONValue],
    source_tokenizer: tokenizers.Tokenizer | None = None,
    target_tokenizer: tokenizers.Tokenizer | None = None,
    *,
    replace: bool = False,
) -> pathlib.Path:
    """Writes a run directory; each file is replaced atomically, `run.json` last.

    The training calls it again with `replace=True` whenever the model improves. This replaces
    `model.keras` and keeps `history.csv` and `backup/`. If the tokenizers changed, or a model
    without any replaces a translator, the function removes `run.json` first, so that nobody reads
    old and new files together.

    Args:
        directory: Run directory; created if it does not exist.
        model: A Keras model; a translator has the children `encoder` and `decoder`.
        settings: Dict of JSON values. `model` (str), its name, is required. Export and evaluation
            read `seed` (int) and `lengths` (`{"source": int, "target": int}`, EOS
            included).
        source_tokenizer: Tokenizer of a translator's source side.
        target_tokenizer: Tokenizer of a translator's target side.
        replace: Whether an existing run is replaced.

    Returns:
        The directory, as a `pathlib.Path`.

    Raises:
        FileExistsError: If there is a run and `replace` is False.
        ValueError: If JSON cannot represent `settings`, or the vocabularies of the tokenizers
            and the model do not match.
    """
    directory = pathlib.Path(directory)
    given = [tokenizer for tokenizer in (source_tokenizer, target_tokenizer) if tokenizer]
    if given:
        check_translator("write_run", model)
        check_vocabularies(model, source_tokenizer, target_tokenizer)
    description = _serialize_settings(settings, bool(given))
    if (directory / "run.json").exists() and not replace:
        raise FileExistsError(
            f"{directory} already holds a run. Choose another directory, or pass replace=True."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for side, tokenizer in zip(SIDES, given or (None, None), strict=True):
        folder = directory / f"{side}.tokenizer"
        if _storage.is_saved(tokenizer, folder) if tokenizer else not folder.exists():
            continue
        (directory / "run.json").unlink(missing_ok=True)
        if tokenizer:
            tokenizer.save(folder)
        else:
            shutil.rmtree(folder)
    with atomic_files.replace_file(directory / "model.keras", suffix=".keras") as temporary_path:
        model.save(temporary_path)
    atomic_files.write_bytes(directory / "run.json", description)
    return directory


def read_run(directory: str | os.PathLike[str], dtype: str | None = None) -> Run:
    """Returns the run that `write_run` wrote into `directory`.

    Args:
        directory: The run directory.
        dtype: None to compute in the dtype of the training, or `"float32"` to convert a model
            that was trained in mixed precision, see `convert_to_float32`.

    Returns:
        A `Run`; it loads its model on first access.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged or was written by a newer version, or `dtype` is neither
            None nor `"float32"`.
    """
    if dtype not in (None, "float32"):
        raise ValueError(
            f"read_run expects `dtype` to be None or 'float32'. Received: dtype={dtype!r}"
        )
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(f"There is no run directory {directory}.")
    settings = _read_settings(directory / "run.json")
    if not (directory / "model.keras").is_file():
        raise FileNotFoundError(f"The run {directory} has no model.keras.")
    folders = [directory / f"{side}.tokenizer" for side in SIDES]
    is_translator = "special_ids" in settings or any(folder.exists() for folder in folders)
    if is_translator and settings.pop("special_ids", None) != SPECIAL_IDS:
        raise ValueError(
            f"{directory / 'run.json'} is expected to name the special ids {SPECIAL_IDS}. "
            "Restore it from a copy."
        )
    loaded_tokenizers = [tokenizers.load(folder) if is_translator else None for folder in folders]
    return Run(directory, settings, *loaded_tokenizers, dtype)


def convert_to_float32(model: keras.Model) -> keras.Model:
    """Returns a copy of `model` whose mixed-precision layers compute in float32.

    The weights are float32 already and stay the same, so the copy computes the same function more
    precisely. Compiled by XLA on a CPU it is also faster, above all with bfloat16 products: see
    `keras_attention.matmul_precision`.

    Args:
        model: A Keras model of serializable layers.
    """
    # Go through a file: a configuration does not record that encoder and decoder share a table.
    with tempfile.TemporaryDirectory() as folder:
        saved, converted = pathlib.Path(folder, "saved.keras"), pathlib.Path(folder, "copy.keras")
        model.save(saved)
        with zipfile.ZipFile(saved) as source, zipfile.ZipFile(converted, "w") as target:
            for name in source.namelist():
                content = source.read(name)
                if name == "config.json":
                    content = json.dumps(_replace_mixed_policies(json.loads(content)))
                target.writestr(name, content)
        return keras.saving.load_model(converted, compile=False)


def quantize_model(model: keras.Model, mode: str) -> keras.Model:
    """Quantizes the kernels and tables of `model` in place, and returns it.

    This is `model.quantize(mode)` without a warning for each layer that has nothing to quantize.

    Args:
        model: A built Keras model.
        mode: `"int8"`, or any other mode of `keras.Model.quantize`.

    Raises:
        ValueError: If the model is quantized already, or computes in float16.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have a `quantize` method", UserWarning)
        model.quantize(mode)
    return model


def _replace_mixed_policies(config):
    if isinstance(config, dict):
        return {key: _replace_mixed_policies(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return type(config)(_replace_mixed_policies(value) for value in config)
    return "float32" if isinstance(config, str) and config in MIXED_POLICIES else config


def _serialize_settings(settings, is_translator):
    if not isinstance(settings, dict) or not isinstance(settings.get("model"), str):
        raise ValueError(
            "write_run expects `settings` to be a dict with the name of the model, "
            f"{{'model': 'rnnsearch', ...}}. Received: settings={settings!r}"
        )
    head = {"schema_version": SCHEMA_VERSION}
    if is_translator:
        head["special_ids"] = SPECIAL_IDS
    reserved = {"schema_version", "special_ids"} & settings.keys()
    if reserved:
        raise ValueError(
            "write_run sets `schema_version` and `special_ids` itself; leave them out of "
            f"`settings`. Received: {sorted(reserved)}"
        )
    try:
        text = json.dumps({**head, **settings}, ensure_ascii=False, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"write_run expects `settings` that JSON can hold. Received: {error}"
        ) from error
    return (text + "\n").encode()


def _read_settings(path):
    try:
        settings = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path.parent} is not a run directory, or its training stopped before the first "
            "model was written: it has no run.json."
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON. Restore it from a copy.") from error
    version = settings.pop("schema_version", None) if isinstance(settings, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{path} is expected to have the schema version {SCHEMA_VERSION}; update "
            f"keras-attention-layers, or train again. Received: schema_version={version!r}"
        )
    if "model" not in settings:
        raise ValueError(f"{path} is expected to name the model. Restore it from a copy.")
    return settings


def _load_model(path):
    try:
        return keras.saving.load_model(path, compile=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # Keras, h5py and zipfile each raise their own
        raise ValueError(
            f"{path} cannot be loaded as a Keras model. Restore it from a copy, or from the "
            f"last checkpoint. Keras reports: {summarize_error(error)}"
        ) from error
