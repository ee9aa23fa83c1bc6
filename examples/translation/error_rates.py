"""Word and phoneme error rates of pronunciations, where a word may have several right ones.

    WER = 100 * words whose output equals none of their references / words
    PER = 100 * sum over words of d(output, nearest) / sum over words of |nearest|

d is the edit distance in phonemes (insertions, deletions, substitutions, one each); `nearest` is
the reference with the least of it, the first of several, and |nearest| its number of phonemes.
A phoneme is what stands between spaces.
"""

from collections.abc import Sequence


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
    edits = length = 0
    for output, accepted in zip(outputs, references, strict=True):
        candidates = [reference.split() for reference in accepted]
        distances = [edit_distance(output.split(), phonemes) for phonemes in candidates]
        nearest = min(range(len(distances)), key=distances.__getitem__)
        edits += distances[nearest]
        length += len(candidates[nearest])
    return 100.0 * edits / length


def edit_distance(first: Sequence, second: Sequence) -> int:
    """Returns the fewest insertions, deletions and substitutions that make one the other.

    Example:

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(second) + 1))  # distances from what is read of `first` so far
    for place, one in enumerate(first, 1):
        diagonal, row[0] = row[0], place
        for n, other in enumerate(second, 1):
            changed = diagonal + (one != other)
            diagonal, row[n] = row[n], min(changed, row[n] + 1, row[n - 1] + 1)
    return row[-1]
