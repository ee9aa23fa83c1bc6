"""What every search is asked to do, checked: a step, limits, constraints."""

from typing import NamedTuple

from keras_attention import checks
from keras_attention.decoding import steps
from keras_attention.decoding.constraints import Constraints


class Task(NamedTuple):
    """What is searched.

    Attributes:
        run: The `CheckedStep`.
        max_length: Int, the width of the result.
        limits: Int32 `(batch,)`, the most tokens of each row.
        constraints: The `Constraints`, with the special ids.
    """

    run: steps.CheckedStep
    max_length: int
    limits: object
    constraints: Constraints

    @classmethod
    def checked(
        cls, owner, step, state, memory, special_ids, max_length, row_max_length, **rules
    ) -> "Task":
        """Returns the task, or raises a `ValueError` that names what is wrong.

        Args:
            owner: Name of the function the user called.
            step: The step function.
            state: Its first state.
            memory: Handed to it.
            special_ids: `(start_id, end_id, pad_id)`.
            max_length: Positive int.
            row_max_length: None, or an int tensor of shape `(batch,)`.
            **rules: What `Constraints` take beside these.
        """
        checks.positive_int(owner, "max_length", max_length)
        steps.check_special_ids(owner, *special_ids)
        run = steps.CheckedStep(owner, step, state, memory)
        limits = steps.row_limits(owner, max_length, row_max_length, run.batch)
        constraints = Constraints(owner, run.batch, max_length, special_ids, **rules)
        return cls(run, max_length, limits, constraints)
