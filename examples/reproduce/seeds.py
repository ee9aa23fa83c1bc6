"""A table below the rows: what each run of an experiment with several seeds came to.

Errors of each task in %, test questions; the run that counts, best on the validation questions, is
bold.
"""

import re

from examples.reproduce.experiment import Experiment

TITLE = (
    "`{}`: the error of each seed in %; bold is the one that counts, the best on the validation "
    "questions."
)
HEAD = re.escape(TITLE).replace(re.escape("{}"), "([^`]+)")


def table(experiment: Experiment, parts: dict[str, dict]) -> str:
    """Returns the table of an experiment, or nothing where no runs were compared.

    Args:
        experiment: The experiment.
        parts: For each part what `evaluate RUN --others RUN ... --json` wrote.

    Example:

    >>> runs = [{"run": "a", "tasks": {"1": 0.5}}, {"run": "b", "tasks": {"1": 2.0}}]
    >>> both = Experiment("x", "y", "memory-network", "", "", 1, seeds=(1, 7))
    >>> print(table(both, {"": {"run": "a", "runs": runs}}).partition("\\n\\n")[2], end="")
    | task | seed 1 | seed 7 |
    |---|---|---|
    | 1 | **0.50** | 2.00 |
    """
    lines = []
    for numbers in parts.values():
        runs = numbers.get("runs", [])
        for task in runs[0]["tasks"] if runs else ():
            errors = (
                _format_error(one["tasks"][task], one["run"] == numbers["run"]) for one in runs
            )
            lines.append(_line(task, *errors))
    if not lines:
        return ""
    head = _line("task", *(f"seed {seed}" for seed in experiment.seeds))
    rule = f"|{'---|' * (1 + len(experiment.seeds))}\n"
    return f"{TITLE.format(experiment.name)}\n\n{head}{rule}{''.join(lines)}"


def read(text: str) -> dict[str, str]:
    """Returns the tables that stand in a text, by the names of their experiments."""
    found = re.finditer(rf"^{HEAD}\n\n(?:\|.*\n)+", text, re.MULTILINE)
    return {match[1]: match[0] for match in found}


def _format_error(error, counts):
    return f"**{error:.2f}**" if counts else f"{error:.2f}"


def _line(*cells):
    return f"| {' | '.join(cells)} |\n"
