"""Saves and loads tokenizers: `tokenizer.json`, and `vocab.txt` or `spm.model` beside it."""

import json
import os
import pathlib

from keras_attention.data import atomic_files
from keras_attention.export.tokenizers._training import TOKENIZER_CLASSES
from keras_attention.export.tokenizers.base import SPECIAL_IDS, Tokenizer
from keras_attention.export.tokenizers.sentencepiece import SentencePieceTokenizer
from keras_attention.export.tokenizers.vocabulary import read_vocabulary

SCHEMA_VERSION = 1


def save(tokenizer: Tokenizer, directory: str | os.PathLike[str]) -> None:
    """Writes `tokenizer` into `directory`, each file atomically, `tokenizer.json` last."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    atomic_files.write_bytes(directory / tokenizer.file_name, tokenizer.get_content())
    atomic_files.write_bytes(directory / "tokenizer.json", _serialize_description(tokenizer))


def is_saved(tokenizer: Tokenizer, directory: str | os.PathLike[str]) -> bool:
    """Returns whether `directory` holds the same tokenizer, byte for byte."""
    directory = pathlib.Path(directory)
    try:
        description = (directory / "tokenizer.json").read_bytes()
        content = (directory / tokenizer.file_name).read_bytes()
    except OSError:
        return False
    return description == _serialize_description(tokenizer) and content == tokenizer.get_content()


def describe(tokenizer: Tokenizer) -> dict:
    """Returns the content of `tokenizer.json` as a dict."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": tokenizer.kind,
        "normalization": "NFC",
        "lowercase": tokenizer.lowercase,
        "special_ids": SPECIAL_IDS,
        "vocabulary_size": tokenizer.vocabulary_size,
        "symbols": list(tokenizer.symbols),
        "file": tokenizer.file_name,
        "sha256": atomic_files.sha256(tokenizer.get_content()),
    }


def _serialize_description(tokenizer):
    return (json.dumps(describe(tokenizer), ensure_ascii=False, indent=2) + "\n").encode()


def load(directory: str | os.PathLike[str]) -> Tokenizer:
    """Returns the tokenizer that `Tokenizer.save` wrote into `directory`.

    Args:
        directory: The directory of `tokenizer.json` and the file that it names.

    Returns:
        A `CharacterTokenizer`, `WordTokenizer`, `WordPieceTokenizer` or `SentencePieceTokenizer`.

    Raises:
        FileNotFoundError: If `tokenizer.json` or the file it names is missing.
        ValueError: If one of them is damaged, they do not match, or a newer version of the
            library wrote them.
    """
    directory = pathlib.Path(directory)
    description = _read_description(directory / "tokenizer.json")
    tokenizer_class = TOKENIZER_CLASSES[description["kind"]]
    content = _read(directory / tokenizer_class.file_name)
    if atomic_files.sha256(content) != description["sha256"]:
        raise ValueError(
            f"{directory / tokenizer_class.file_name} does not match tokenizer.json "
            "(their SHA-256 digests differ). Restore both from the same copy."
        )
    options = {key: description[key] for key in ("lowercase", "symbols")}
    if tokenizer_class is SentencePieceTokenizer:
        tokenizer = SentencePieceTokenizer(content, **options)
    else:
        tokenizer = tokenizer_class(read_vocabulary(content), **options)
    if tokenizer.vocabulary_size != description["vocabulary_size"]:
        raise ValueError(
            f"{directory / 'tokenizer.json'} is expected to name the vocabulary size of "
            f"{tokenizer.file_name}, {tokenizer.vocabulary_size}. "
            f"Received: vocabulary_size={description['vocabulary_size']}"
        )
    return tokenizer


def _read_description(path):
    try:
        description = json.loads(_read(path))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON. Restore it from a copy.") from error
    if not isinstance(description, dict) or "schema_version" not in description:
        raise ValueError(f"{path} is not a tokenizer description: it has no `schema_version`.")
    if description["schema_version"] != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has a different schema version; update keras-attention-layers. Expected "
            f"{SCHEMA_VERSION}. Received: schema_version={description['schema_version']!r}"
        )
    missing = {"kind", "lowercase", "symbols", "special_ids", "vocabulary_size", "sha256"}
    missing -= description.keys()
    if missing:
        raise ValueError(f"{path} lacks {', '.join(sorted(missing))}. Restore it from a copy.")
    if description["kind"] not in TOKENIZER_CLASSES or description["special_ids"] != SPECIAL_IDS:
        raise ValueError(
            f"{path} is expected to name one of the kinds {', '.join(TOKENIZER_CLASSES)} and the "
            "special ids "
            f"{SPECIAL_IDS}. Received: kind={description['kind']!r}, "
            f"special_ids={description['special_ids']!r}"
        )
    return description


def _read(path):
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"There is no tokenizer file {path}.") from None
