"""Training a tokenizer: the corpus passes through the very ops that will split it later."""

import tensorflow as tf

from keras_attention import checks
from keras_attention.export.tokenizers.base import SPECIAL_TOKENS, Tokenizer, normalized_symbols
from keras_attention.export.tokenizers.characters import CharacterTokenizer
from keras_attention.export.tokenizers.subwords import SentencePieceTokenizer, train_sentencepiece
from keras_attention.export.tokenizers.vocabulary import count_tokens, count_vocabulary
from keras_attention.export.tokenizers.wordpiece import WordPieceTokenizer, learn_pieces
from keras_attention.export.tokenizers.words import WordTokenizer

KINDS = {
    "characters": CharacterTokenizer,
    "words": WordTokenizer,
    "wordpiece": WordPieceTokenizer,
    "sentencepiece": SentencePieceTokenizer,
}
#: Kinds whose vocabulary has a size instead of counts, and their names.
SUBWORDS = {"wordpiece": "WordPiece", "sentencepiece": "SentencePiece"}
_BATCH = 1024


def train(
    kind: str,
    texts,
    *,
    vocabulary_size: int | None = None,
    minimum_count: int = 1,
    lowercase: bool = False,
    symbols=(),
    model_type: str = "unigram",
    character_coverage: float = 1.0,
) -> Tokenizer:
    """Returns a tokenizer made from `texts`; the same texts give the same tokenizer.

    Args:
        kind: `"characters"`, `"words"`, `"wordpiece"` or `"sentencepiece"`.
        texts: Iterable of lines, strings; read once. Empty ones count for nothing.
        vocabulary_size: Number of ids, the four special ones included: the limit for
            characters and words (None for no limit), the aim for subwords (8,000 if None;
            WordPiece and a unigram SentencePiece model of a small corpus get fewer).
        minimum_count: Characters and words only; those seen less often are left out.
        lowercase: Whether texts are lower-cased first, here and ever after.
        symbols: Strings that are one token each, whatever their count.
        model_type: SentencePiece only, `"unigram"` or `"bpe"`.
        character_coverage: SentencePiece only, the share of characters (by count) that must
            be in the vocabulary.

    Returns:
        A `CharacterTokenizer`, `WordTokenizer`, `WordPieceTokenizer` or `SentencePieceTokenizer`.

    Raises:
        ValueError: If an argument is out of range, `texts` holds no text at all, or the
            vocabulary cannot be made from it.

    Example:

    >>> tokenizer = train("words", ["a dog", "a cat", "a dog asleep"], minimum_count=2)
    >>> tokenizer.vocabulary
    ['a', 'dog']
    """
    owner = "tokenizers.train"
    checks.one_of(owner, "kind", kind, tuple(KINDS))
    checks.positive_int(owner, "minimum_count", minimum_count)
    checks.one_of(owner, "model_type", model_type, ("unigram", "bpe"))
    checks.number_in_range(owner, "character_coverage", character_coverage, 0.0, 1.0)
    if vocabulary_size is not None:
        least = len(SPECIAL_TOKENS) + 1
        checks.int_at_least(owner, "vocabulary_size", vocabulary_size, least)
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"{owner} expects `texts` to be an iterable of lines, not one string; wrap it in a "
            f"list. Received: texts={texts[:40]!r}"
        )
    tokenizer_class = KINDS[kind]
    normalizer = _normalizer(tokenizer_class, lowercase)
    symbols = normalized_symbols(symbols, normalizer)
    batches = (normalizer(batch) for batch in _batches(owner, texts))
    if kind in SUBWORDS:
        if minimum_count != 1:
            raise ValueError(
                f"{owner} expects `minimum_count` to be 1 for {SUBWORDS[kind]}, whose vocabulary "
                f"is set by `vocabulary_size`. Received: minimum_count={minimum_count}"
            )
        vocabulary_size = 8000 if vocabulary_size is None else vocabulary_size
    if kind == "sentencepiece":
        lines = [line.decode() for batch in batches for line in batch.numpy() if line]
        _refuse_nothing(owner, lines)
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
        vocabulary = count_vocabulary(tokens, symbols, vocabulary_size, minimum_count)
    _refuse_nothing(owner, vocabulary)
    return tokenizer_class(vocabulary, lowercase=lowercase, symbols=symbols)


def _normalizer(tokenizer_class, lowercase):
    """The `normalize` that tokenizers of the class will have, before there is one."""
    unbuilt = tokenizer_class.__new__(tokenizer_class)
    tf.Module.__init__(unbuilt)
    unbuilt.lowercase = lowercase
    return unbuilt.normalize


def _batches(owner, texts):
    batch = []
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(
                f"{owner} expects `texts` to be an iterable of strings. Received: an element "
                f"of type {type(text).__name__}"
            )
        batch.append(text)
        if len(batch) == _BATCH:
            yield tf.constant(batch)
            batch = []
    if batch:
        yield tf.constant(batch)


def _refuse_nothing(owner, found):
    if not found:
        raise ValueError(
            f"{owner} expects `texts` with at least one token seen `minimum_count` times. "
            "Received: none"
        )
