"""How good outputs are: BLEU, exact match, and where the digits of a year look."""

import numpy as np

from examples.data import dates


def exact_match(outputs: list[str], references: list[str]) -> float:
    """Returns the share of outputs that equal their reference.

    Example:

    >>> exact_match(["1979-05-03", "x"], ["1979-05-03", "y"])
    0.5
    """
    return float(np.mean([a == b for a, b in zip(outputs, references, strict=True)]))


def corpus_bleu(outputs: list[str], references: list[str]) -> tuple[float, str]:
    """Returns corpus BLEU and the signature that says how it was computed.

    sacrebleu without a tokenizer of its own: the texts are compared token by token as they
    stand, split at spaces.
    """
    import sacrebleu

    metric = sacrebleu.metrics.BLEU(tokenize="none", force=True)  # the tokens are ours
    score = metric.corpus_score(outputs, [references])
    return score.score, str(metric.get_signature())


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
