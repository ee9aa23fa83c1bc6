"""The run directory: everything a trained model leaves behind, readable without examples.

model.keras          the Keras model (library classes only)
run.json             schema version, system, flags, seed, id conventions, lengths
source.tokenizer/    of a translator: tokenizer.json and vocab.txt or spm.model
target.tokenizer/    of a translator
history.csv          written by training, never touched here
checkpoints/         written by training, never touched here
"""

import json
import os
import pathlib

import keras

import keras_attention  # noqa: F401  registers the classes a model file may hold
from keras_attention.export import files, tokenizers
from keras_attention.export.contract import check_translator, check_vocabularies
from keras_attention.export.reasons import reason
from keras_attention.export.tokenizers import storage
from keras_attention.export.tokenizers.base import SPECIAL_IDS

SCHEMA_VERSION = 1
SIDES = ("source", "target")
MIXED = ("mixed_bfloat16", "mixed_float16")


class Run:
    """A run directory that has been read; `read_run` makes it.

    Attributes:
        directory: `pathlib.Path` of the run.
        settings: Dict, as given to `write_run`.
        source_tokenizer, target_tokenizer: The tokenizers of a translator, else None.
        float32: Whether layers of mixed precision are loaded as layers in float32.
    """

    def __init__(self, directory, settings, source_tokenizer, target_tokenizer, float32=False):
        self.directory = directory
        self.float32 = float32
        self.settings = settings
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self._model = None

    @property
    def model(self) -> keras.Model:
        """The model, loaded (without optimizer) when first asked for.

        Raises:
            ValueError: If `model.keras` is damaged or does not fit the tokenizers.
        """
        if self._model is None:
            self._model = _load_model(self.directory / "model.keras")
            if self.float32:
                self._model = in_float32(self._model)
            if self.source_tokenizer is not None:
                check_vocabularies(self._model, self.source_tokenizer, self.target_tokenizer)
        return self._model


def write_run(
    directory: str | os.PathLike,
    model: keras.Model,
    settings: dict,
    source_tokenizer: tokenizers.Tokenizer | None = None,
    target_tokenizer: tokenizers.Tokenizer | None = None,
    *,
    replace: bool = False,
) -> pathlib.Path:
    """Writes a run directory, each file whole, `run.json` last.

    Training calls it again (`replace=True`) whenever the model improves: `model.keras` is
    then replaced in one step, and `history.csv` and `checkpoints/` stay. If the tokenizers
    changed, the old `run.json` goes first, so that a run is never read half old, half new.

    Args:
        directory: Made if it does not exist.
        model: A Keras model; a translator has the children `encoder` and `decoder`.
        settings: Dict of what JSON can hold. `system` (str) must be there; `flags` (dict),
            `seed` (int), `lengths` (`{"source": int, "target": int}`, end mark counted) are
            what export and evaluation look for.
        source_tokenizer: Of a translator, the tokenizer of the source side.
        target_tokenizer: Of a translator, the tokenizer of the target side.
        replace: Whether a run that is there already is replaced.

    Returns:
        The directory, as a `pathlib.Path`.

    Raises:
        FileExistsError: If there is a run and `replace` is False.
        ValueError: If `settings` cannot be written, or the tokenizers' vocabularies do not
            fit the model.
    """
    directory = pathlib.Path(directory)
    given = [tokenizer for tokenizer in (source_tokenizer, target_tokenizer) if tokenizer]
    if given:
        check_translator("write_run", model)
        check_vocabularies(model, source_tokenizer, target_tokenizer)
    description = _describe(settings, bool(given))
    if (directory / "run.json").exists() and not replace:
        raise FileExistsError(
            f"{directory} holds a run already. Choose another directory, or pass replace=True."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for side, tokenizer in zip(SIDES, given, strict=False):
        if not storage.is_saved(tokenizer, directory / f"{side}.tokenizer"):
            (directory / "run.json").unlink(missing_ok=True)
            tokenizer.save(directory / f"{side}.tokenizer")
    with files.replaced(directory / "model.keras", suffix=".keras") as beside:
        model.save(beside)
    files.write_bytes(directory / "run.json", description)
    return directory


def read_run(directory: str | os.PathLike, float32: bool = False) -> Run:
    """Returns the run that `write_run` wrote into `directory`.

    Args:
        directory: The run directory.
        float32: Whether a model that was trained in mixed precision computes in float32 now, as
            `in_float32` says.

    Returns:
        A `Run`; its model is loaded when first used.

    Raises:
        FileNotFoundError: If a part is missing.
        ValueError: If a part is damaged, or was written by a newer version.
    """
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
    loaded = [tokenizers.load(folder) if is_translator else None for folder in folders]
    return Run(directory, settings, *loaded, float32)


def in_float32(model: keras.Model) -> keras.Model:
    """Returns a copy of `model` whose layers of mixed precision compute in float32.

    Their weights are float32 already and stay what they are, so it computes what the model
    does, more precisely. Compiled on a CPU it is faster as well, the more so with bfloat16
    products: see `keras_attention.matmul_precision`.

    Args:
        model: A Keras model of serializable layers.
    """
    config = _widened(keras.saving.serialize_keras_object(model))
    copy = keras.saving.deserialize_keras_object(config)
    copy.set_weights(model.get_weights())
    return copy


def _widened(config):
    if isinstance(config, dict):
        return {key: _widened(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return type(config)(_widened(value) for value in config)
    return "float32" if isinstance(config, str) and config in MIXED else config


def _describe(settings, is_translator):
    if not isinstance(settings, dict) or not isinstance(settings.get("system"), str):
        raise ValueError(
            "write_run expects `settings` to be a dict with the name of the system, "
            f"{{'system': 'rnnsearch', ...}}. Received: settings={settings!r}"
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
            f"{path.parent} is not a run directory, or its run never got as far as being "
            "written: it has no run.json."
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON. Restore it from a copy.") from error
    version = settings.pop("schema_version", None) if isinstance(settings, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{path} is expected to have the schema version {SCHEMA_VERSION}; update "
            f"keras-attention-layers, or train again. Received: schema_version={version!r}"
        )
    if "system" not in settings:
        raise ValueError(f"{path} is expected to name the system. Restore it from a copy.")
    return settings


def _load_model(path):
    try:
        return keras.saving.load_model(path, compile=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # Keras, h5py and zipfile each raise their own
        raise ValueError(
            f"{path} cannot be loaded as a Keras model. Restore it from a copy, or from the "
            f"last checkpoint. Keras says: {reason(error)}"
        ) from error
