"""A toy translator, and exports of it that trace nothing."""

import os

import pytest


@pytest.fixture(scope="module")
def pieces():
    """A model and the tokenizers of its source and its target."""
    from toy_translator import toy_translator

    from keras_attention.export import tokenizers

    source = tokenizers.WordTokenizer(["a", "b", "c"])
    target = tokenizers.CharacterTokenizer(["x", "y"])
    return toy_translator(7, 6), source, target


@pytest.fixture
def quick(monkeypatch):
    """Saving writes a marker instead of tracing; what was to be saved is recorded."""
    from keras_attention.export import _version_writer

    calls = []

    def save(module, path, signatures, options):
        calls.append((module, signatures))
        with open(os.path.join(path, "saved_model.pb"), "wb") as file:
            file.write(b"graph")

    monkeypatch.setattr(_version_writer.tf.saved_model, "save", save)
    monkeypatch.setattr(_version_writer, "validate_export", lambda path: [])
    monkeypatch.setattr(
        _version_writer._warmup_requests, "replay_requests", lambda path, requests: []
    )
    monkeypatch.setattr(
        _version_writer._model_card, "complete_card", lambda card, *_: card | {"signatures": {}}
    )
    return calls
