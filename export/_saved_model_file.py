"""Reads `saved_model.pb` without loading the model."""

import os
import pathlib

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2


def read_bytes(directory: str | os.PathLike[str]) -> bytes:
    """Returns the content of `saved_model.pb`.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    try:
        return (pathlib.Path(directory) / "saved_model.pb").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"{directory} is not an exported version: it has no saved_model.pb."
        ) from None


def read_meta_graph(directory: str | os.PathLike[str]):
    """Returns the only `MetaGraphDef` of a SavedModel.

    Raises:
        FileNotFoundError: If there is no `saved_model.pb`.
        ValueError: If it is damaged, or does not hold exactly one graph.
    """
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(read_bytes(directory))
    except DecodeError:
        raise ValueError("saved_model.pb is damaged: it is not a SavedModel message") from None
    if len(saved_model.meta_graphs) != 1:
        raise ValueError(f"saved_model.pb holds {len(saved_model.meta_graphs)} graphs, expected 1")
    return saved_model.meta_graphs[0]
