"""Which pairs a command works on: the user's files, or the embedded dates."""

import dataclasses
import fractions

from examples.data import dates, parallel
from examples.data.lines import lines_of
from examples.data.report import DataError


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of one part of the data: two parallel files, or one of pairs.

    Attributes:
        source, target: Paths of parallel files, or None.
        pairs: Path of a file whose lines hold pairs, or None.
        form: The form of these lines, one of `parallel.FORMATS`.
    """

    source: str | None = None
    target: str | None = None
    pairs: str | None = None
    form: str = "tsv"

    def __bool__(self) -> bool:
        return any((self.source, self.target, self.pairs))

    def read(self, part: str, on_bad_line: str = "skip"):
        """Returns the `Corpus` of these files and prints what was left out.

        Raises:
            DataError: If they cannot be used.
        """
        corpus = self._corpus(on_bad_line)
        if corpus.report.left_out:
            print(f"{part}: {corpus.report}")
        return corpus

    def read_whole(self):
        """Returns the `Corpus` of these files, a pair for each of their lines.

        Raises:
            DataError: If they cannot be used, or a line is no pair.
        """
        corpus = self._corpus("skip")
        if corpus.report.left_out:
            raise DataError(
                f"{corpus.report.told(corpus.name)}. Each line gets a line of the answer, so none "
                "is left out: repair them."
            )
        return corpus

    def _corpus(self, on_bad_line):
        if self.pairs:
            return parallel.read_pairs(self.pairs, form=self.form, on_bad_line=on_bad_line)
        return parallel.read_parallel(self.source, self.target, on_bad_line=on_bad_line)

    def count_lines(self) -> int:
        """Returns how many lines the files have; two of them have as many.

        Raises:
            DataError: If they cannot be read.
        """
        return sum(1 for _ in lines_of(self.pairs or self.source))


def training_pairs(
    files: Files,
    dev_files: Files,
    dev_share: float,
    on_bad_line: str,
    max_pairs: int | None = None,
):
    """Returns training and dev pairs: from files, with a share held out, or the dates.

    Args:
        files: Training files; none stands for the embedded dates.
        dev_files: Dev files; none holds out every n-th source of the training files.
        dev_share: The share held out.
        on_bad_line: `"skip"` or `"refuse"`.
        max_pairs: Take only the first so many of each part; None takes all.

    Raises:
        DataError: If the files cannot be used, or are too few to hold any pair out.
    """
    if not files:
        return date_pairs("train", max_pairs), date_pairs("dev", max_pairs)
    train = files.read("train", on_bad_line).pairs[:max_pairs]
    if dev_files:
        return train, dev_files.read("dev", on_bad_line).pairs[:max_pairs]
    return held_out(train, dev_share)


def held_out(pairs: list[tuple[str, str]], share: float) -> tuple[list, list]:
    """Returns the pairs to learn from, and those of every so-manieth source, held out.

    A source with several targets is held out with all of them: none of them is learned.

    Raises:
        DataError: If there are too few sources to hold any out, or to learn from any.

    Example:

    >>> held_out([("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")], 0.5)
    ([('a', '1'), ('c', '4')], [('b', '2'), ('b', '3')])
    """
    # As a fraction: 0.1 of 30 is 3, not 3.0000000000000004.
    part = fractions.Fraction(str(share))
    sources = {source: None for source, _ in pairs}
    out = {s for n, s in enumerate(sources, 1) if n * part // 1 > (n - 1) * part // 1}
    if not out or len(out) == len(sources):
        raise DataError(
            f"{len(sources)} different sources are too few to hold {float(part):g} of them out for "
            "evaluation. Name dev files, change --validation-fraction, or give more training data."
        )
    training = [pair for pair in pairs if pair[0] not in out]
    return training, [pair for pair in pairs if pair[0] in out]


def date_pairs(part: str, max_pairs: int | None = None) -> list[tuple[str, str]]:
    """Returns the embedded dates of a part, or the first so many of them."""
    size = dates.DEFAULT_SIZES[part]
    return dates.date_pairs(part, min(size, max_pairs or size))
