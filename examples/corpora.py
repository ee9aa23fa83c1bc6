"""Which pairs a command works on: the user's files, or the embedded dates."""

import dataclasses

from examples.data import dates, parallel
from examples.data.report import DataError


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of one part of the data: two parallel files, or one of pairs.

    Attributes:
        source, target: Paths of parallel files, or None.
        pairs: Path of a file with `source <TAB> target` lines, or None.
    """

    source: str | None = None
    target: str | None = None
    pairs: str | None = None

    def __bool__(self) -> bool:
        return any((self.source, self.target, self.pairs))

    def read(self, part: str, on_bad_line: str = "skip"):
        """Returns the `Corpus` of these files and prints what was left out.

        Raises:
            DataError: If the files are not two parallel ones or one of pairs, or cannot be used.
        """
        if bool(self.pairs) == bool(self.source or self.target):
            raise DataError(f"The {part} data is either two parallel files or one of pairs.")
        if self.pairs:
            corpus = parallel.read_pairs(self.pairs, on_bad_line=on_bad_line)
        elif not (self.source and self.target):
            missing = "target" if self.source else "source"
            raise DataError(
                f"The {part} data has no {missing} side. Name both files, line n of one the "
                "translation of line n of the other."
            )
        else:
            corpus = parallel.read_parallel(self.source, self.target, on_bad_line=on_bad_line)
        if corpus.report.left_out:
            print(f"{part}: {corpus.report}")
        return corpus


def training_pairs(files: Files, dev_files: Files, dev_share: float, on_bad_line: str):
    """Returns training and dev pairs: from files, with a share held out, or the dates.

    Args:
        files: Training files; none stands for the embedded dates.
        dev_files: Dev files; none holds out every n-th pair of the training files.
        dev_share: The share held out.
        on_bad_line: `"skip"` or `"refuse"`.
    """
    if not files:
        if dev_files:
            raise DataError("Dev files were given without training files. Name both.")
        return dates.date_pairs("train"), dates.date_pairs("dev")
    train = files.read("train", on_bad_line).pairs
    if dev_files:
        return train, dev_files.read("dev", on_bad_line).pairs
    every = max(2, round(1 / dev_share))
    if len(train) < every:
        raise DataError(
            f"{len(train)} pairs are too few to hold any out for evaluation. Name dev files, or "
            "give more training data."
        )
    dev = train[every - 1 :: every]
    return [pair for n, pair in enumerate(train, 1) if n % every], dev
