"""Trains tokenizers; the same ops normalize and split texts in training and in use."""

import functools
from collections.abc import Iterable, Sequence

import tensorflow as tf

from keras_attention import validation
from keras_attention.export.tokenizers.base import SPECIAL_TOKENS, Tokenizer, normalize_symbols
from keras_attention.export.tokenizers.characters import CharacterTokenizer
from keras_attention.export.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    train_sentencepiece,
)
from keras_attention.export.tokenizers.vocabulary import build_vocabulary, count_tokens
from keras_attention.export.tokenizers.wordpiece import WordPieceTokenizer, learn_pieces
from keras_attention.export.tokenizers.words import WordTokenizer

#: The kinds that `train` takes, and their classes.
TOKENIZER_CLASSES = {
    "characters": CharacterTokenizer,
    "words": WordTokenizer,
    "wordpiece": WordPieceTokenizer,
    "sentencepiece": SentencePieceTokenizer,
}
#: Kinds with a target vocabulary size instead of a minimum frequency, and their names.
SUBWORD_KINDS = {"wordpiece": "WordPiece", "sentencepiece": "SentencePiece"}
_BATCH_SIZE = 1024


def train(
    kind: str,
    texts: Iterable[str],
    *,
    vocabulary_size: int | None = None,
    min_frequency: int = 1,
    lowercase: bool = False,
    symbols: Sequence[str] = (),
    model_type: str = "unigram",
    character_coverage: float = 1.0,
) -> Tokenizer:
    """Trains a tokenizer on `texts`; the same texts give the same tokenizer.

    Args:
        kind: `"characters"`, `"words"`, `"wordpiece"` or `"sentencepiece"`.
        texts: Iterable of lines, one text per line; read only once. Empty lines are ignored.
        vocabulary_size: Number of ids, including the four special ones. For characters and words
            it is a maximum (None for no limit). For subwords it is the target (8,000 if None);
            WordPiece and unigram SentencePiece models of a small corpus get fewer.
        min_frequency: For characters and words only: rarer ones are left out.
        lowercase: Whether texts are lower-cased first, in training and in use.
        symbols: Strings that are one token each, whatever their frequency.
        model_type: SentencePiece only, `"unigram"` or `"bpe"`.
        character_coverage: SentencePiece only, the fraction of the characters of the corpus that
            the vocabulary must cover.

    Returns:
        A `CharacterTokenizer`, `WordTokenizer`, `WordPieceTokenizer` or `SentencePieceTokenizer`.

    Raises:
        ValueError: If an argument is out of range, `texts` is empty, or no vocabulary can be made
            from it.

    Example:

    >>> tokenizer = train("words", ["a dog", "a cat", "a dog asleep"], min_frequency=2)
    >>> tokenizer.vocabulary
    ['a', 'dog']
    """
    owner = "tokenizers.train"
    validation.check_one_of(owner, "kind", kind, tuple(TOKENIZER_CLASSES))
    validation.check_positive_int(owner, "min_frequency", min_frequency)
    validation.check_one_of(owner, "model_type", model_type, ("unigram", "bpe"))
    validation.check_number_in_range(owner, "character_coverage", character_coverage, 0.0, 1.0)
    if vocabulary_size is not None:
        least = len(SPECIAL_TOKENS) + 1
        validation.check_int_at_least(owner, "vocabulary_size", vocabulary_size, least)
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"{owner} expects `texts` to be an iterable of lines, not one string; wrap it in a "
            f"list. Received: texts={texts[:40]!r}"
        )
    tokenizer_class = TOKENIZER_CLASSES[kind]
    text_normalizer = functools.partial(tokenizer_class.normalize_texts, lowercase=lowercase)
    symbols = normalize_symbols(symbols, text_normalizer)
    batches = (text_normalizer(batch) for batch in _batches(owner, texts))
    if kind in SUBWORD_KINDS:
        if min_frequency != 1:
            raise ValueError(
                f"{owner} expects `min_frequency` to be 1 for {SUBWORD_KINDS[kind]}, whose "
                f"vocabulary is set by `vocabulary_size`. Received: min_frequency={min_frequency}"
            )
        vocabulary_size = 8000 if vocabulary_size is None else vocabulary_size
    if kind == "sentencepiece":
        lines = [line.decode() for batch in batches for line in batch.numpy() if line]
        _check_not_empty(owner, lines)
        model = train_sentencepiece(
            lines,
            vocabulary_size=vocabulary_size,
            symbols=symbols,
            model_type=model_type,
            character_coverage=character_coverage,
        )
        return SentencePieceTokenizer(model, lowercase=lowercase, symbols=symbols)
    tokens = (tokenizer_class.split_texts(batch, symbols).flat_values.numpy() for batch in batches)
    if kind == "wordpiece":
        words = {word.decode(): n for word, n in count_tokens(tokens).items()}
        vocabulary = learn_pieces(words, symbols, vocabulary_size)
    else:
        vocabulary = build_vocabulary(tokens, symbols, vocabulary_size, min_frequency)
    _check_not_empty(owner, vocabulary)
    return tokenizer_class(vocabulary, lowercase=lowercase, symbols=symbols)


def _batches(owner, texts):
    batch = []
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(
                f"{owner} expects `texts` to be an iterable of strings. Received: an element "
                f"of type {type(text).__name__}"
            )
        batch.append(text)
        if len(batch) == _BATCH_SIZE:
            yield tf.constant(batch)
            batch = []
    if batch:
        yield tf.constant(batch)


def _check_not_empty(owner, found):
    if not found:
        raise ValueError(
            f"{owner} expects `texts` with at least one token (seen at least `min_frequency` times "
            "for characters and words). Received: no such token"
        )
