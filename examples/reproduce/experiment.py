"""What an experiment is: a training, an evaluation, and what they should come to."""

import dataclasses
import hashlib
import pathlib
import re
import shlex

from examples import registry


@dataclasses.dataclass(frozen=True)
class Goal:
    """A bound on a number that `evaluate --json` writes.

    Attributes:
        measure: The number, one of `results.MEASURES`.
        at_least: The least that is good enough, or None.
        at_most: The most that is good enough, or None; added to the same number of the
            experiment `above`, if that is named.
        above: Name of another experiment, or None.
        tasks: Of an error, the tasks for each of which it holds; none for that of all together.
    """

    measure: str
    at_least: float | None = None
    at_most: float | None = None
    above: str | None = None
    tasks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One row of the results.

    In `training` and `evaluation` `{data}` stands for the folder of the data, `{runs}` for that
    of all runs, and `{part}` for each of `parts`, which are trained and measured one by one; the
    row has their mean. Of several `seeds` the run counts that is best on the validation data, which
    `evaluate RUN --others RUN ...` finds.

    Attributes:
        name: What the command line calls it; the folder of the run.
        task: The data and the direction, as people read it.
        model: The model that is trained.
        training: Options of `train`; training and validation files only.
        evaluation: Options of `evaluate`; the test files.
        minutes: Wall time that the training may take, all runs together.
        goals: The `Goal`s.
        published: The published figure and where it stands.
        seeds: The seeds, one for each run.
        parts: Names of the parts, or none.
        measures: Name of the experiment whose run is measured, for one that trains none.
    """

    name: str
    task: str
    model: str
    training: str
    evaluation: str
    minutes: float
    goals: tuple[Goal, ...] = ()
    published: str = ""
    seeds: tuple[int, ...] = (1,)
    parts: tuple[str, ...] = ()
    measures: str = ""

    def files(self, data: pathlib.Path) -> list[pathlib.Path]:
        """Returns the files that the experiment reads."""
        names = re.findall(r"\{data\}/(\S+)", f"{self.training} {self.evaluation}")
        parts = self.parts or ("",)
        return [pathlib.Path(data, name.replace("{part}", p)) for p in parts for name in names]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the experiments whose runs it reads."""
        names = re.findall(r"\{runs\}/([^\s/]+)", f"{self.training} {self.evaluation}")
        return tuple(dict.fromkeys([*filter(None, [self.measures]), *names]))

    @property
    def beside(self) -> tuple[str, ...]:
        """Names of the experiments whose numbers its goals are relative to."""
        return tuple(dict.fromkeys(goal.above for goal in self.goals if goal.above is not None))

    @property
    def numbers_file(self) -> str:
        """Name of the file of the numbers; another evaluation has another."""
        return f"evaluation-{hashlib.sha256(self.evaluation.encode()).hexdigest()[:8]}.json"

    def runs_of(self, runs: pathlib.Path, part: str = "") -> list[pathlib.Path]:
        """Returns the directories of the runs, or of a part's: one for each seed."""
        folder = pathlib.Path(runs) / (self.measures or self.name) / part
        return [folder / f"seed-{n}" for n in self.seeds] if len(self.seeds) > 1 else [folder]

    def train(self, data, runs, part: str = "", quick: bool = False) -> list[list[str]]:
        """Returns for each run the arguments of `python -m examples` that train it, if it is."""
        if self.measures:
            return []
        minutes = self.minutes / max(1, len(self.parts)) / len(self.seeds)
        line = f"{_fill_placeholders(self.training, data, runs, part)} --max-minutes {minutes:g}"
        words = _words(line, self._quick()[0], quick)
        return [
            ["train", self.model, "--run", str(run), "--seed", str(seed), *words]
            for run, seed in zip(self.runs_of(runs, part), self.seeds, strict=True)
        ]

    def evaluate(self, data, runs, part: str = "", quick: bool = False) -> list[str]:
        """Returns the arguments of `python -m examples` that measure it."""
        line = _fill_placeholders(self.evaluation, data, runs, part)
        words = _words(line, self._quick()[1], quick)
        run, *others = map(str, self.runs_of(runs, part))
        return ["evaluate", run, *words, *(["--others", *others] if others else [])]

    def _quick(self):
        recipe = registry.find(self.model).recipe
        return recipe.quick_training, recipe.quick_evaluation


def _fill_placeholders(line, data, runs, part):
    for name, folder in (("{data}", data), ("{runs}", runs)):
        line = line.replace(name, shlex.quote(str(folder)))
    return line.replace("{part}", part)


def _words(line, quickly, quick):
    words = shlex.split(f"{line} {quickly}" if quick else line)
    if quick and "--decay-epochs" in words:  # one epoch has no six to cool down in
        words += ["--decay-epochs", "1"]
    return words
