"""Tokenizers that run inside the graph: characters, words and SentencePiece subwords."""

from keras_attention.export.tokenizers.base import Tokenizer
from keras_attention.export.tokenizers.characters import CharacterTokenizer
from keras_attention.export.tokenizers.storage import load
from keras_attention.export.tokenizers.subwords import SentencePieceTokenizer
from keras_attention.export.tokenizers.training import train
from keras_attention.export.tokenizers.words import WordTokenizer

__all__ = [
    "CharacterTokenizer",
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "load",
    "train",
]
