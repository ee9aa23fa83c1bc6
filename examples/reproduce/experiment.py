"""What an experiment is: a training, an evaluation, and what they should come to."""

import dataclasses
import hashlib
import pathlib
import re
import shlex

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--max-pairs 256 --epochs 1 --no-jit --shapes 1"
QUICK_EVALUATION = "--max-pairs 32 --beam 1 --max-length 12"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A bound on a number that `evaluate --json` writes.

    Attributes:
        measure: The number: `"bleu"`, `"wer"`, `"per"` or `"exact_match"`.
        at_least: The least that is good enough, or None.
        at_most: The most that is good enough, or None; added to the same number of the
            experiment `above`, if that is named.
        above: Name of another experiment, or None.
    """

    measure: str
    at_least: float | None = None
    at_most: float | None = None
    above: str | None = None


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One row of the results.

    In `training` and `evaluation` `{data}` stands for the folder of the data, `{runs}` for that
    of all runs, and `{part}` for each of `parts`, which are trained and measured one by one; the
    row has their mean.

    Attributes:
        name: What the command line calls it; the folder of the run.
        task: The data and the direction, as people read it.
        system: The system that is trained.
        training: Options of `train`; training and dev files only.
        evaluation: Options of `evaluate`; the test files.
        minutes: Wall time that the training may take, all parts together.
        goals: The `Goal`s.
        published: The published figure and where it stands.
        seed: The seed.
        parts: Names of the parts, or none.
    """

    name: str
    task: str
    system: str
    training: str
    evaluation: str
    minutes: float
    goals: tuple[Goal, ...] = ()
    published: str = ""
    seed: int = 1
    parts: tuple[str, ...] = ()

    def files(self, data: pathlib.Path) -> list[pathlib.Path]:
        """Returns the files that the experiment reads."""
        names = re.findall(r"\{data\}/(\S+)", f"{self.training} {self.evaluation}")
        parts = self.parts or ("",)
        return [pathlib.Path(data, name.replace("{part}", p)) for p in parts for name in names]

    @property
    def numbers_file(self) -> str:
        """Name of the file of the numbers; another evaluation has another."""
        return f"evaluation-{hashlib.sha256(self.evaluation.encode()).hexdigest()[:8]}.json"

    def run_of(self, runs: pathlib.Path, part: str = "") -> pathlib.Path:
        """Returns the directory of the run, or of a part's."""
        return pathlib.Path(runs) / self.name / part

    def train(self, data, runs, part: str = "", quick: bool = False) -> list[str]:
        """Returns the arguments of `python -m examples` that train it."""
        run = self.run_of(runs, part)
        minutes = self.minutes / max(1, len(self.parts))
        options = _filled(self.training, data, runs, part)
        line = f"--seed {self.seed} {options} --minutes {minutes:g}"
        return ["train", self.system, "--run", str(run), *_words(line, QUICK_TRAINING, quick)]

    def evaluate(self, data, runs, part: str = "", quick: bool = False) -> list[str]:
        """Returns the arguments of `python -m examples` that measure it."""
        line = _filled(self.evaluation, data, runs, part)
        return ["evaluate", str(self.run_of(runs, part)), *_words(line, QUICK_EVALUATION, quick)]


def _filled(line, data, runs, part):
    for name, folder in (("{data}", data), ("{runs}", runs)):
        line = line.replace(name, shlex.quote(str(folder)))
    return line.replace("{part}", part)


def _words(line, quickly, quick):
    return shlex.split(f"{line} {quickly}" if quick else line)
