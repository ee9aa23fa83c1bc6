"""What decides which weights are best."""

import math
from collections.abc import Sequence

from examples.training.objectives import Objective
from examples.training.settings import Metric


class Monitor:
    """One number of an evaluation, and which way it is better.

    Args:
        name: A number of the objective, such as `"loss"`, or the name of a metric.
        objective: What is minimized and measured.
        metrics: What is measured beside it.

    Raises:
        ValueError: If nothing has that name.
    """

    def __init__(self, name: str, objective: Objective, metrics: Sequence[Metric]):
        larger = {metric.name: metric.larger_is_better for metric in metrics}
        larger = objective.larger_is_better | larger | objective.larger_is_better
        if name not in larger:
            raise ValueError(
                f"train expects `monitor` to be one of {', '.join(map(repr, larger))}. "
                f"Received: monitor={name!r}"
            )
        self._larger_is_better = larger[name]
        self._column = f"dev_{name}" if name in objective.larger_is_better else name

    def value_in(self, row: dict) -> float:
        """Returns the number in a row of history.csv."""
        return row[self._column]

    def improves(self, row: dict, best: float | None) -> bool:
        """Returns whether a row is better than the best value so far, None for no value."""
        value = self.value_in(row)
        if best is None or math.isnan(best):
            return best is None or not math.isnan(value)
        return value > best if self._larger_is_better else value < best

    def reached(self, goal: float, best: float | None) -> bool:
        """Returns whether the best value so far is as good as `goal`."""
        if best is None:
            return False
        return best >= goal if self._larger_is_better else best <= goal
