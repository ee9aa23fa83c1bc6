"""Tokenizers that run inside the graph: characters, words, WordPiece, SentencePiece."""

from keras_attention.export.tokenizers.base import Tokenizer
from keras_attention.export.tokenizers.characters import CharacterTokenizer
from keras_attention.export.tokenizers.storage import load
from keras_attention.export.tokenizers.subwords import SentencePieceTokenizer
from keras_attention.export.tokenizers.training import SUBWORDS, train
from keras_attention.export.tokenizers.wordpiece import WordPieceTokenizer
from keras_attention.export.tokenizers.words import WordTokenizer

__all__ = [
    "CharacterTokenizer",
    "SUBWORDS",
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordPieceTokenizer",
    "WordTokenizer",
    "load",
    "train",
]
