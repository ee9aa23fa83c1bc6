"""Word error rate: the edits that turn the hypotheses into their references.

    WER = sum over texts of d(hypothesis, nearest) / sum over texts of |nearest|

d is the Levenshtein distance in words (insertions, deletions, substitutions, one each). `nearest`
is the reference with the least of it, the first of several, and |nearest| its number of words.
"""

from collections.abc import Sequence

import keras

from keras_attention._utils.tensor_types import DTypePolicy
from keras_attention.metrics._text_checks import Reference, pair_texts


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns the fewest insertions, deletions and substitutions that make one the other.

    Example:

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(second) + 1))  # distances from the elements of `first` read so far
    for position, one in enumerate(first, 1):
        diagonal, row[0] = row[0], position
        for n, other in enumerate(second, 1):
            substituted = diagonal + (one != other)
            diagonal, row[n] = row[n], min(substituted, row[n] + 1, row[n - 1] + 1)
    return row[-1]


@keras.saving.register_keras_serializable(package="keras_attention")
class WordErrorRate(keras.metrics.Metric):
    """Computes the rate of wrong words of decoded texts; 0 is perfect, and it may exceed 1.

    Words are separated by white space. Texts of phonemes or characters, separated so, give the
    phoneme or character error rate. The sums are exact. The rate is 0 before the first update.

    Args:
        name: Optional str.
        dtype: Optional dtype, of no effect: the result is a Python float.

    Call arguments:
        references: List of strings; instead of one, a list of all that are accepted, of which the
            nearest counts.
        hypotheses: List of as many strings, what the model wrote.

    Raises:
        ValueError: If these are not lists of strings of one length.

    Example:

    >>> rate = WordErrorRate()
    >>> rate.update_state(["a dog sleeps", ["two cats", "a pair of cats"]], ["a dog", "two cats"])
    >>> rate.result()  # one edit, five words
    0.2
    """

    def __init__(
        self, name: str | None = "word_error_rate", dtype: DTypePolicy | None = None
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.reset_state()

    def update_state(self, references: Sequence[Reference], hypotheses: Sequence[str]) -> None:
        for accepted, hypothesis in pair_texts("WordErrorRate", references, hypotheses):
            candidates = [text.split() for text in accepted]
            distances = [edit_distance(hypothesis.split(), words) for words in candidates]
            nearest = distances.index(min(distances))
            self.num_edits += distances[nearest]
            self.num_words += len(candidates[nearest])

    def result(self) -> float:
        return self.num_edits / max(self.num_words, 1)

    def reset_state(self) -> None:
        self.num_edits = self.num_words = 0
