"""The checked arguments shared by all searches: a step, limits, constraints."""

from typing import NamedTuple

from keras_attention._utils import validation
from keras_attention.search import _step_function
from keras_attention.search._constraints import Constraints


class SearchSpec(NamedTuple):
    """The specification of a search.

    Attributes:
        checked_step: The `CheckedStep`.
        max_length: Int, the width of the result.
        limits: Int32 `(batch,)`, the maximum number of tokens of each batch element.
        constraints: The `Constraints`, with the special ids.
    """

    checked_step: _step_function.CheckedStep
    max_length: int
    limits: object
    constraints: Constraints

    @classmethod
    def from_arguments(
        cls, owner, step, state, memory, special_ids, max_length, max_lengths, **rules
    ) -> "SearchSpec":
        """Returns the specification, or raises a `ValueError` that names the wrong argument.

        Args:
            owner: Name of the function the user called.
            step: The step function.
            state: Its initial state.
            memory: Passed to it.
            special_ids: `(start_id, end_id, pad_id)`.
            max_length: Positive int.
            max_lengths: None, or an int tensor of shape `(batch,)`.
            **rules: Further arguments of `Constraints`.
        """
        validation.check_positive_int(owner, "max_length", max_length)
        _step_function.check_special_ids(owner, *special_ids)
        checked_step = _step_function.CheckedStep(owner, step, state, memory)
        limits = _step_function.check_max_lengths(
            owner, max_length, max_lengths, checked_step.batch
        )
        constraints = Constraints(owner, checked_step.batch, max_length, special_ids, **rules)
        return cls(checked_step, max_length, limits, constraints)
