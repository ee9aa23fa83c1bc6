"""How good outputs are: exact match, BLEU, chrF, and where the digits of a year look.

A text may have several references: each measure takes, for every output, either one text or a
list of those that are accepted. Error rates of pronunciations are in `error_rates`.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from examples.data import dates

References = Sequence[str | list[str]]


def grouped(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Returns each source once, in the order of the pairs, and the targets of each.

    Example:

    >>> grouped([("ABS", "AE B Z"), ("AT", "AE T"), ("ABS", "EY B")])
    (['ABS', 'AT'], [['AE B Z', 'EY B'], ['AE T']])
    """
    targets = {}
    for source, target in pairs:
        targets.setdefault(source, {})[target] = None  # each once
    return list(targets), [list(accepted) for accepted in targets.values()]


def ungrouped(texts: list[str], references: References) -> list[tuple[str, str]]:
    """Returns a pair for each reference of each text."""
    rows = zip(texts, map(_accepted, references), strict=True)
    return [(text, one) for text, accepted in rows for one in accepted]


def exact_match(outputs: list[str], references: References) -> float:
    """Returns the share of outputs that equal their reference, or one of them.

    Example:

    >>> exact_match(["1979-05-03", "x"], ["1979-05-03", ["y", "z"]])
    0.5
    """
    pairs = zip(outputs, map(_accepted, references), strict=True)
    return float(np.mean([output in accepted for output, accepted in pairs]))


def corpus_bleu(
    outputs: list[str], references: References, tokenize: str = "none", lowercase: bool = False
) -> tuple[float, str]:
    """Returns corpus BLEU and the signature that says how it was computed.

    Args:
        outputs: Texts of the system.
        references: One reference each, or several.
        tokenize: sacrebleu's tokenizer; `"none"` splits at spaces only.
        lowercase: Whether sacrebleu compares in lower case.
    """
    import sacrebleu

    # force: sacrebleu suspects, rightly, that texts split by "none" were tokenized before.
    metric = sacrebleu.metrics.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    score = metric.corpus_score(outputs, _streams(references))
    return score.score, str(metric.get_signature())


def corpus_chrf(outputs: list[str], references: References) -> float:
    """Returns corpus chrF (sacrebleu's defaults: chrF2), from 0 to 100."""
    import sacrebleu

    return sacrebleu.metrics.CHRF().corpus_score(outputs, _streams(references)).score


def _accepted(reference):
    return [reference] if isinstance(reference, str) else reference


def _streams(references):
    """The first references of all, then the second ones, ..., None where there is none."""
    return list(map(list, itertools.zip_longest(*map(_accepted, references))))


def bleu_tokenizer(kind: str) -> str:
    """Returns sacrebleu's tokenizer for a run: `"none"` for words, whose texts are tokenized.

    Args:
        kind: The kind of the target tokenizer.
    """
    return "none" if kind == "words" else "13a"


def as_read(tokenizer, references: References) -> References:
    """Returns references as the run's tokenizer reads them, which is all that it can write.

    That is NFC, lower case if the run lower-cases, single spaces unless tokens are characters.
    Unknown words stay what they are.
    """
    flat = [text for reference in references for text in _accepted(reference)]
    read = (text.decode() for text in tokenizer.normalize(tf.constant(flat)).numpy())
    return [
        next(read) if isinstance(reference, str) else [next(read) for _ in reference]
        for reference in references
    ]


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
