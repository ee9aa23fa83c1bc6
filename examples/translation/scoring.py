"""How good outputs are: exact match, BLEU, chrF, and where the digits of a year look."""

import numpy as np
import tensorflow as tf

from examples.data import dates


def exact_match(outputs: list[str], references: list[str]) -> float:
    """Returns the share of outputs that equal their reference.

    Example:

    >>> exact_match(["1979-05-03", "x"], ["1979-05-03", "y"])
    0.5
    """
    return float(np.mean([a == b for a, b in zip(outputs, references, strict=True)]))


def corpus_bleu(
    outputs: list[str], references: list[str], tokenize: str = "none", lowercase: bool = False
) -> tuple[float, str]:
    """Returns corpus BLEU and the signature that says how it was computed.

    Args:
        outputs: Texts of the system.
        references: One reference each.
        tokenize: sacrebleu's tokenizer; `"none"` splits at spaces only.
        lowercase: Whether sacrebleu compares in lower case.
    """
    import sacrebleu

    # force: sacrebleu suspects, rightly, that texts split by "none" were tokenized before.
    metric = sacrebleu.metrics.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    score = metric.corpus_score(outputs, [references])
    return score.score, str(metric.get_signature())


def corpus_chrf(outputs: list[str], references: list[str]) -> float:
    """Returns corpus chrF (sacrebleu's defaults: chrF2), from 0 to 100."""
    import sacrebleu

    return sacrebleu.metrics.CHRF().corpus_score(outputs, [references]).score


def bleu_tokenizer(kind: str) -> str:
    """Returns sacrebleu's tokenizer for a run: `"none"` for words, whose texts are tokenized.

    Args:
        kind: The kind of the target tokenizer.
    """
    return "none" if kind == "words" else "13a"


def as_read(tokenizer, texts: list[str]) -> list[str]:
    """Returns references as the run's tokenizer reads them, which is all that it can write.

    That is NFC, lower case if the run lower-cases, single spaces unless tokens are characters.
    Unknown words stay what they are.
    """
    return [text.decode() for text in tokenizer.normalize(tf.constant(texts)).numpy()]


def years_attended(translations, texts: list[str]) -> tuple[float, int]:
    """Returns how many ISO dates look at the written year while they write the year.

    A date counts when, for each of the four digits of the year, the source position of
    largest weight lies inside the written year. Only texts that spell the year in digits
    count.

    Returns:
        The share of such dates, and their number.
    """
    symbols = dates.locale_symbols()
    inside = []
    for translation, text in zip(translations, texts, strict=True):
        span = dates.year_span(text, symbols)
        if span is None or len(translation.tokens) < 4:
            continue
        looked = translation.alignment[:4].argmax(axis=-1)
        inside.append(bool(np.all((looked >= span[0]) & (looked < span[1]))))
    return (float(np.mean(inside)) if inside else 0.0), len(inside)
