"""Rows of measured results, kept between two marks in a page.

The block between the marks is read back before it is written: rows of experiments that were not
run this time stay as they stand.
"""

import dataclasses
import pathlib
import re
import shlex
import statistics
import textwrap

from examples.reproduce import seeds
from examples.reproduce.experiment import Experiment, Goal
from keras_attention.data import atomic_files

BEGIN = "<!-- reproduce: rows below are written by `python -m examples reproduce` -->"
END = "<!-- reproduce: end -->"
HEAD = (
    "| experiment | data | measured | goal | published | seed | minutes |\n"
    "|---|---|---|---|---|---|---|\n"
)
MEASURES = {
    "bleu": "BLEU",
    "wer": "WER",
    "per": "PER",
    "exact_match": "exact match",
    "position_distance": "mean distance of predicted positions",
    "position_within_one": "of them within one",
    "accuracy": "accuracy",
    "naive_bayes": "naive Bayes",
    "most_frequent": "the most frequent candidate",
    "error": "error",
    "perplexity": "perplexity",
    "perplexity_free_running": "perplexity, free-running",
    "bound": "bound in nats",
    "token_accuracy": "token accuracy",
    "pointing_accuracy": "pointing accuracy",
}
#: Numbers that are shares, and stand in the page as percent; numbers in percent.
SHARES = ("exact_match", "position_within_one", "token_accuracy", "pointing_accuracy")
PERCENT = ("accuracy", "naive_bayes", "most_frequent", "error")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an experiment came to.

    Attributes:
        parts: For each part (one, named "", if there are none), the numbers of its evaluation.
        minutes: Wall time of the training, all parts together.
    """

    parts: dict[str, dict]
    minutes: float

    def number(self, measure: str) -> float | None:
        """Returns a number, the mean over the parts; None if it was not measured."""
        found = [numbers[measure] for numbers in self.parts.values() if measure in numbers]
        return statistics.fmean(found) if found else None

    def tasks(self) -> dict[str, float]:
        """Returns the error of each task, of all parts together; none where there are no tasks."""
        return {task: e for n in self.parts.values() for task, e in n.get("tasks", {}).items()}


def row(experiment: Experiment, outcome: Outcome, others: dict[str, Outcome]) -> str:
    """Returns the line of the table.

    Args:
        experiment: The experiment.
        outcome: What it came to.
        others: The outcomes known, for goals that are relative to another's.
    """
    measured = ", ".join(_list_numbers(experiment, outcome, others)) or "-"
    cells = (
        f"`{experiment.name}`",
        experiment.task,
        measured,
        ", ".join(map(goal_text, experiment.goals)) or "-",
        experiment.published or "-",
        ", ".join(map(str, experiment.seeds)),
        f"{outcome.minutes:.1f}" if outcome.minutes < 10 else f"{outcome.minutes:.0f}",
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def goal_text(goal: Goal) -> str:
    """Returns a goal as the page shows it.

    Example:

    >>> goal_text(Goal("bleu", at_least=30)), goal_text(Goal("wer", at_most=1, above="x"))
    ('BLEU >= 30', 'WER <= that of x + 1')
    >>> goal_text(Goal("error", at_most=5, tasks=("1", "4")))
    'error of each of the tasks 1, 4 <= 5 %'
    """
    name = MEASURES[goal.measure]
    if goal.tasks:
        name += f" of each of the tasks {', '.join(goal.tasks)}"
    sign, bound = (">=", goal.at_least) if goal.at_most is None else ("<=", goal.at_most)
    text = f"{100 * bound:g} %" if goal.measure in SHARES else f"{bound:g}"
    text += " %" if goal.measure in PERCENT else ""
    return f"{name} {sign} {f'that of {goal.above} + ' if goal.above else ''}{text}"


def is_met(goal: Goal, outcome: Outcome, others: dict[str, Outcome]) -> bool | None:
    """Returns whether a goal of all tasks together is met, None if that cannot be told."""
    number = outcome.number(goal.measure)
    base = 0.0
    if goal.above is not None:
        base = others[goal.above].number(goal.measure) if goal.above in others else None
    return None if number is None or base is None else _holds(goal, number, base)


def _holds(goal, number, base=0.0):
    if goal.at_least is not None:
        return number >= base + goal.at_least
    return number <= base + goal.at_most


def command_text(experiment: Experiment, quick: bool = False) -> str:
    """Returns the commands of an experiment, the folder of the data named `D`."""
    part = "PART" if experiment.parts else ""
    each = f" (PART: {', '.join(experiment.parts)})" if experiment.parts else ""
    trainings = experiment.train("D", "runs", part, quick)
    lines = [
        _format_command(line)
        for line in (*trainings, experiment.evaluate("D", "runs", part, quick))
    ]
    return "\n".join([f"# {experiment.name}{each}", *lines])


def write(path: pathlib.Path, rows: dict[str, tuple[str, str, str]], order: list[str]) -> None:
    """Puts rows into the page, in place of those of the same names.

    Args:
        path: The page; made if it does not exist, the marks appended if it has none.
        rows: For each experiment its line of the table, its commands, and a table of its own or
            nothing.
        order: Names in the order of the table; unknown ones come last.

    Raises:
        ValueError: If the page has one of the marks only.
    """
    path = pathlib.Path(path)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if (BEGIN in text) != (END in text) or text.find(BEGIN) > text.find(END):
        raise ValueError(f"{path} has one of the two marks of its rows only, {BEGIN} and {END}.")
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n".lstrip()
    before, rest = text.split(BEGIN, 1)
    block, after = rest.split(END, 1)
    known = {**_read(block), **rows}
    names = [name for name in order if name in known]
    names += [name for name in known if name not in names]
    page = before + BEGIN + _block(known, names) + END + after
    if page != text:
        atomic_files.write_bytes(path, page.encode())


def _list_numbers(experiment, outcome, others):
    """Returns the numbers of a row: BLEU, or the error rates, or exact match."""
    present = [name for name in MEASURES if outcome.number(name) is not None]
    if "wer" in present or "bleu" in present:
        present.remove("exact_match")
    goals = {goal.measure: goal for goal in experiment.goals if not goal.tasks}
    texts = []
    for name in present:
        goal = goals.get(name)
        met = None if goal is None else is_met(goal, outcome, others)
        number = _number(name, outcome.number(name), goal if met is False else None)
        text = f"{MEASURES[name]} {_bold(number, met)}"
        each = [_of_task(*one, experiment) for one in outcome.tasks().items() if name == "error"]
        if experiment.parts and not each:
            each = [f"{part} {_number(name, n[name])}" for part, n in outcome.parts.items()]
        text += f" ({', '.join(each)})" if each else ""
        texts.append(f"{text} (missed)" if met is False else text)
    return texts


def _of_task(task, error, experiment):
    """The error of a task, bold or missed if there is a goal for it."""
    held = [_holds(goal, error) for goal in experiment.goals if task in goal.tasks]
    met = all(held) if held else None
    return f"{task} {_bold(_number('error', error), met)}{' (missed)' if met is False else ''}"


def _bold(text, met):
    return f"**{text}**" if met else text


def _number(measure, value, missed=None):
    """A number as the page has it, with enough digits to tell it from the goal that it missed."""
    scale, digits = (100, 1) if measure in SHARES else (1, 2)
    if missed is not None and missed.above is None:
        bound = missed.at_least if missed.at_most is None else missed.at_most
        while f"{scale * value:.{digits}f}" == f"{scale * bound:.{digits}f}":
            digits += 1
    text = f"{scale * value:.{digits}f}"
    return f"{text} %" if measure in (*SHARES, *PERCENT) else text


def _format_command(arguments):
    line = shlex.join(["python", "-m", "examples", *arguments])
    return " \\\n    ".join(
        textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False)
    )


def _block(rows, names):
    if not names:
        return "\n"
    lines, commands, tables = zip(*(rows[name] for name in names), strict=True)
    table = HEAD + "".join(f"{line}\n" for line in lines)
    fence = "```sh\n" + "\n\n".join(commands) + "\n```\n"
    return "\n\n" + "\n".join([table, *filter(None, tables), fence]) + "\n"


def _read(block):
    """Returns the rows of a block as `_block` wrote them."""
    lines = {match[1]: match[0] for match in re.finditer(r"^\| `([^`]+)` \|.*$", block, re.M)}
    fence = re.search(r"^```sh\n(.*?)^```$", block, re.M | re.S)
    commands = re.split(r"\n\n(?=# )", fence[1].rstrip("\n")) if fence else []
    by_name = {text.split()[1]: text for text in commands}
    tables = seeds.read(block)
    return {
        name: (line, by_name.get(name, f"# {name}"), tables.get(name, ""))
        for name, line in lines.items()
    }
