"""The five tasks of the Neural Turing Machine paper as streams of random sequences.

`base` says what a task is, a module each draws them, and `streams` makes epochs of batches.
"""

from examples.tasks.associative_recall import AssociativeRecall
from examples.tasks.base import Task
from examples.tasks.copy_task import Copy
from examples.tasks.ngrams import NGrams
from examples.tasks.priority_sort import PrioritySort
from examples.tasks.repeat_copy import RepeatCopy

TASKS = {
    task.name: task
    for task in (Copy(), RepeatCopy(), AssociativeRecall(), NGrams(), PrioritySort())
}


def find(name: str) -> Task:
    """Returns the task of that name.

    Raises:
        ValueError: If there is none; the error lists those there are.
    """
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}. Choose one of {', '.join(TASKS)}.")
    return TASKS[name]
