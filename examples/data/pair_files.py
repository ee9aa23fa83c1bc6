"""The pairs that a command works on: those of the user's files, or the embedded dates."""

import dataclasses
import fractions
import pathlib

from examples.commands.arguments import UsageError
from examples.data import dates, parallel
from examples.data.lines import lines_of
from examples.data.parallel import Corpus
from examples.data.report import DataError, Report


@dataclasses.dataclass(frozen=True)
class PairFiles:
    """The files of one part of the data: two parallel files, one of pairs, or none for the dates.

    Attributes:
        source, target: Parallel files, or None.
        pairs: A file whose lines hold pairs, or None.
        form: The form of these lines, one of `parallel.FORMATS`.
    """

    source: pathlib.Path | None = None
    target: pathlib.Path | None = None
    pairs: pathlib.Path | None = None
    form: str = "tsv"

    @classmethod
    def choose(
        cls,
        part: str,
        source: pathlib.Path | None,
        target: pathlib.Path | None,
        pairs: pathlib.Path | None,
        form: str | None,
        default_form: str = "tsv",
        prefix: str = "",
    ) -> "PairFiles":
        """Returns the files that the command line names.

        Args:
            part: What the data are called.
            source, target, pairs: The files, or None.
            form: The form of the lines of pairs, or None for `default_form`.
            default_form: See above.
            prefix: What the flags of the files begin with.

        Raises:
            UsageError: If they are neither two parallel files, nor one of pairs, nor none.
        """
        flags = [f"--{prefix}{name}" for name in ("source", "target", "pairs")]
        if pairs and (source or target):
            raise UsageError(
                f"The {part} data is either two parallel files ({flags[0]}, {flags[1]}) or one of "
                f"pairs ({flags[2]}). Leave one of them out."
            )
        if bool(source) != bool(target):
            given, missing = flags[:2] if source else flags[1::-1]
            raise UsageError(
                f"{given} was given without {missing}. Name both files: line n of one is the "
                "translation of line n of the other."
            )
        if source and form:
            raise UsageError(
                "--format is for files of pairs. Leave it out, or name such files with --pairs. "
                f"Received: --format {form} {flags[0]} {source}"
            )
        # Two parallel files are never merged by source, however the run's own pairs were written.
        return cls(source, target, pairs, "tsv" if source else form or default_form)

    def __bool__(self) -> bool:
        return any((self.source, self.target, self.pairs))

    def read(self, part: str, on_bad_line: str = "skip", max_examples: int | None = None) -> Corpus:
        """Returns the pairs, and prints what was left out.

        Args:
            part: What is read, for the messages; of the dates "train", "validation" or "test".
            on_bad_line: `"skip"` or `"refuse"`.
            max_examples: Take only the first so many pairs; None takes all.

        Raises:
            DataError: If the files cannot be used.
        """
        if not self:
            split = "dev" if part == "validation" else part
            size = dates.DEFAULT_SIZES[split]
            pairs = dates.date_pairs(split, min(size, max_examples or size))
            return Corpus(pairs, list(range(1, len(pairs) + 1)), "dates", Report())
        corpus = self._read(on_bad_line)
        if corpus.report.left_out:
            print(f"{part}: {corpus.report}")
        first = slice(max_examples)
        return dataclasses.replace(corpus, pairs=corpus.pairs[first], lines=corpus.lines[first])

    def read_whole(self) -> Corpus:
        """Returns a pair for each line of the files.

        Raises:
            DataError: If they cannot be used, or a line is no pair.
        """
        corpus = self._read("skip")
        if corpus.report.left_out:
            raise DataError(
                f"{corpus.report.describe(corpus.name)}. Each line gets a line of the answer, "
                "so none is left out: repair them."
            )
        return corpus

    def count_lines(self) -> int:
        """Returns how many lines the files have; two of them have as many.

        Raises:
            DataError: If they cannot be read.
        """
        return sum(1 for _ in lines_of(self.pairs or self.source))

    def _read(self, on_bad_line):
        if self.pairs:
            return parallel.read_pairs(self.pairs, form=self.form, on_bad_line=on_bad_line)
        return parallel.read_parallel(self.source, self.target, on_bad_line=on_bad_line)


def hold_out(pairs: list[tuple[str, str]], fraction: float) -> tuple[list, list]:
    """Returns the pairs to learn from, and those of every n-th source, held out.

    A source with several targets is held out with all of them: none of them is learned.

    Raises:
        DataError: If there are too few sources to hold any out, or to learn from any.

    Example:

    >>> hold_out([("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")], 0.5)
    ([('a', '1'), ('c', '4')], [('b', '2'), ('b', '3')])
    """
    # As a fraction: 0.1 of 30 is 3, not 3.0000000000000004.
    part = fractions.Fraction(str(fraction))
    sources = {source: None for source, _ in pairs}
    out = {s for n, s in enumerate(sources, 1) if n * part // 1 > (n - 1) * part // 1}
    if not out or len(out) == len(sources):
        raise DataError(
            f"{len(sources)} different sources are too few to hold {float(part):g} of them out for "
            "evaluation. Name validation files, change --validation-fraction, or give more "
            "training data."
        )
    training = [pair for pair in pairs if pair[0] not in out]
    return training, [pair for pair in pairs if pair[0] in out]


@dataclasses.dataclass(frozen=True)
class References:
    """Texts to translate, and what is right.

    Attributes:
        texts: The texts.
        references: Those that each text accepts.
        lines: The line of each text in its file, the first one where several were joined.
        corpus: Where they come from.
    """

    texts: list[str]
    references: list[list[str]]
    lines: list[int]
    corpus: Corpus

    @classmethod
    def of(cls, corpus: Corpus, is_joined: bool, max_examples: int | None = None) -> "References":
        """Returns the first texts of a corpus.

        Args:
            corpus: The corpus.
            is_joined: Whether pairs of one source are one text with several references.
            max_examples: Texts at most; None takes all.
        """
        found = {}
        for place, (source, target) in enumerate(corpus):
            key = source if is_joined else place
            _, targets, _ = found.setdefault(key, (source, {}, corpus.lines[place]))
            targets[target] = None  # each once
        texts, targets, lines = zip(*list(found.values())[:max_examples], strict=True)
        return cls(list(texts), [list(accepted) for accepted in targets], list(lines), corpus)

    @property
    def names(self) -> list[str]:
        """What each text is called."""
        return [f"{self.corpus.name}:{line}" for line in self.lines]

    @property
    def pairs(self) -> Corpus:
        """A pair for each reference, under the line of its text."""
        rows = list(zip(self.texts, self.references, self.lines, strict=True))
        pairs = [(text, one) for text, accepted, _ in rows for one in accepted]
        lines = [line for _, accepted, line in rows for _ in accepted]
        return Corpus(pairs, lines, self.corpus.name, self.corpus.report)

    def place(self, outputs: list[str], count: int) -> list[str]:
        """Returns the outputs of the texts, with an empty one for each line that was left out.

        Args:
            outputs: An output for each text.
            count: Lines that are looked at.
        """
        left_out = set(range(1, count + 1)).difference(self.corpus.lines)
        rows = [*zip(self.lines, outputs, strict=True), *((line, "") for line in left_out)]
        return [output for _, output in sorted(rows)]
