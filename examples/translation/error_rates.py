"""Word and phoneme error rates of pronunciations, where a word may have several right ones.

    WER = 100 * words whose output equals none of their references / words
    PER = 100 * sum over words of d(output, nearest) / sum over words of |nearest|

d and `nearest` are those of `keras_attention.metrics.WordErrorRate`, counted in phonemes. A phoneme
is what stands between spaces.
"""

from keras_attention.metrics import WordErrorRate


def word_error_rate(outputs: list[str], references: list[list[str]]) -> float:
    """Returns the percentage of outputs that equal none of their references, as phonemes.

    Example:

    >>> word_error_rate(["K AE T", "D AO"], [["K AE T", "K AA T"], ["D AO G"]])
    50.0
    """
    pairs = zip(outputs, references, strict=True)
    wrong = [output.split() not in [one.split() for one in accepted] for output, accepted in pairs]
    return 100.0 * sum(wrong) / len(wrong)


def phoneme_error_rate(outputs: list[str], references: list[list[str]]) -> float:
    """Returns the edits to the nearest references, in percent of their phonemes.

    Example: one edit of three phonemes, and one of four.

    >>> round(phoneme_error_rate(["D AO", "AE B Z"], [["D AO G"], ["EY B", "AE B Z Z"]]), 2)
    28.57
    """
    rate = WordErrorRate()
    rate.update_state(references, outputs)
    return 100.0 * rate.num_edits / rate.num_words
