"""Tokenizers that run inside TensorFlow graphs: characters, words, WordPiece, SentencePiece."""

from keras_attention.export.tokenizers._storage import load
from keras_attention.export.tokenizers._training import SUBWORD_KINDS, TOKENIZER_CLASSES, train
from keras_attention.export.tokenizers.base import Tokenizer
from keras_attention.export.tokenizers.characters import CharacterTokenizer
from keras_attention.export.tokenizers.copied_words import CopiedWords
from keras_attention.export.tokenizers.sentencepiece import SentencePieceTokenizer
from keras_attention.export.tokenizers.wordpiece import WordPieceTokenizer
from keras_attention.export.tokenizers.words import WordTokenizer

__all__ = [
    "CharacterTokenizer",
    "CopiedWords",
    "SUBWORD_KINDS",
    "SentencePieceTokenizer",
    "TOKENIZER_CLASSES",
    "Tokenizer",
    "WordPieceTokenizer",
    "WordTokenizer",
    "load",
    "train",
]
