"""One tokenizer of each kind, trained on a few lines."""

import functools

from keras_attention.export import tokenizers

LINES = [
    "ein Mann läuft schnell .",
    "der Hund läuft .",
    "<de-DE> 3.4.2005",
    "Tag der Männer und Hunde",
    "мама мыла раму",
    "今日は\\n良い天気",
] * 10
SYMBOLS = ["<de-DE>", "<de>"]
KINDS = {
    "characters": {"kind": "characters"},
    "words": {"kind": "words"},
    "wordpiece": {"kind": "wordpiece", "vocabulary_size": 139},
    "unigram": {"kind": "sentencepiece", "vocabulary_size": 73},
    "bpe": {"kind": "sentencepiece", "vocabulary_size": 73, "model_type": "bpe"},
}


@functools.cache
def train_tokenizer(name):
    """The tokenizer of a name in `KINDS`, the same one at every call."""
    return tokenizers.train(texts=LINES, symbols=SYMBOLS, **KINDS[name])


def texts_of(tensor):
    return [text.decode("utf-8", errors="strict") for text in tensor.numpy()]
