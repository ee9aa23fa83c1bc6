"""How good outputs are: exact match, BLEU, chrF, error rates, and what a year's digits attend to.

Every output has a list of the references that are accepted.

    WER = 100 * words whose output equals none of their references / words
    PER = 100 * sum over words of d(output, nearest) / sum over words of |nearest|

d and `nearest` are those of `keras_attention.metrics.WordErrorRate`, counted in phonemes. A phoneme
is what stands between spaces.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from examples.data import dates
from keras_attention.metrics import WordErrorRate

References = Sequence[list[str]]


def measure_outputs(
    measure: str,
    outputs: list[str],
    references: References,
    tokenizer,
    bleu_tokenize: str | None = None,
) -> dict[str, float | str]:
    """Returns exact match and another measure, by name.

    Args:
        measure: `"exact_match"`, `"bleu"`, which has chrF with it, or `"wer"`, which has PER.
        outputs: Texts of the model.
        references: The references of each.
        tokenizer: The tokenizer of the target.
        bleu_tokenize: sacrebleu's tokenizer; None for that of `choose_bleu_tokenizer`.
    """
    references = normalize_references(tokenizer, references)
    numbers = {"exact_match": exact_match(outputs, references)}
    if measure == "wer":
        numbers["wer"] = word_error_rate(outputs, references)
        numbers["per"] = phoneme_error_rate(outputs, references)
    elif measure == "bleu":
        numbers["bleu"], numbers["bleu_signature"] = corpus_bleu(
            outputs,
            references,
            bleu_tokenize or choose_bleu_tokenizer(tokenizer.kind),
            tokenizer.lowercase,
        )
        numbers["chrf"] = corpus_chrf(outputs, references)
    return numbers


def exact_match(outputs: list[str], references: References) -> float:
    """Returns the fraction of outputs that equal one of their references.

    Example:

    >>> exact_match(["1979-05-03", "x"], [["1979-05-03"], ["y", "z"]])
    0.5
    """
    pairs = zip(outputs, references, strict=True)
    return float(np.mean([output in accepted for output, accepted in pairs]))


def corpus_bleu(
    outputs: list[str], references: References, tokenize: str = "none", lowercase: bool = False
) -> tuple[float, str]:
    """Returns corpus BLEU and the signature that says how it was computed.

    Args:
        outputs: Texts of the model.
        references: The references of each.
        tokenize: sacrebleu's tokenizer; `"none"` splits at spaces only.
        lowercase: Whether sacrebleu compares in lower case.
    """
    import sacrebleu

    # force: sacrebleu suspects, rightly, that texts split by "none" were tokenized before.
    metric = sacrebleu.metrics.BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    score = metric.corpus_score(outputs, _transpose(references))
    return score.score, str(metric.get_signature())


def corpus_chrf(outputs: list[str], references: References) -> float:
    """Returns corpus chrF (sacrebleu's defaults: chrF2), from 0 to 100."""
    import sacrebleu

    return sacrebleu.metrics.CHRF().corpus_score(outputs, _transpose(references)).score


def word_error_rate(outputs: list[str], references: References) -> float:
    """Returns the percentage of outputs that equal none of their references, as phonemes.

    Example:

    >>> word_error_rate(["K AE T", "D AO"], [["K AE T", "K AA T"], ["D AO G"]])
    50.0
    """
    pairs = zip(outputs, references, strict=True)
    wrong = [output.split() not in [one.split() for one in accepted] for output, accepted in pairs]
    return 100.0 * sum(wrong) / len(wrong)


def phoneme_error_rate(outputs: list[str], references: References) -> float:
    """Returns the edits to the nearest references, in percent of their phonemes.

    Example: one edit of three phonemes, and one of four.

    >>> round(phoneme_error_rate(["D AO", "AE B Z"], [["D AO G"], ["EY B", "AE B Z Z"]]), 2)
    28.57
    """
    rate = WordErrorRate()
    rate.update_state(references, outputs)
    return 100.0 * rate.num_edits / rate.num_words


def choose_bleu_tokenizer(kind: str) -> str:
    """Returns sacrebleu's tokenizer for a run: `"none"` for words, whose texts are tokenized.

    Args:
        kind: The kind of the target tokenizer.
    """
    return "none" if kind == "words" else "13a"


def normalize_references(tokenizer, references: References) -> list[list[str]]:
    """Returns references as the run's tokenizer reads them, which is all that it can write.

    That is NFC, lower case if the run lower-cases, single spaces unless tokens are characters.
    Unknown words stay what they are.
    """
    flat = list(itertools.chain.from_iterable(references))
    texts = (text.decode() for text in tokenizer.normalize(tf.constant(flat)).numpy())
    return [[next(texts) for _ in accepted] for accepted in references]


def measure_year_attention(translations, texts: list[str]) -> tuple[float, int]:
    """Returns how many ISO dates attend to the written year while they write the year.

    A date counts when, for each of the four digits of the year, the source position of
    largest weight lies inside the written year. Only texts that spell the year in digits
    count. Tokens are characters on both sides.

    Returns:
        The fraction of such dates, and their number.
    """
    symbols = dates.locale_symbols()
    inside = []
    for translation, text in zip(translations, texts, strict=True):
        span = dates.year_span(text, symbols)
        if span is None or len(translation.tokens) < 4:
            continue
        places = translation.alignment[:4].argmax(axis=-1)
        inside.append(bool(np.all((places >= span[0]) & (places < span[1]))))
    return (float(np.mean(inside)) if inside else 0.0), len(inside)


def _transpose(references):
    """The first references of all, then the second ones, ..., None where there is none."""
    return list(map(list, itertools.zip_longest(*references)))
