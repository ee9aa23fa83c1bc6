"""The checked arguments that all searches share."""

from typing import NamedTuple

from keras_attention import validation
from keras_attention.search._checked_step import CheckedStep, check_capacity
from keras_attention.search._length_limits import resolve_max_lengths
from keras_attention.search._shallow_fusion_step import ShallowFusionStep
from keras_attention.search._token_rules import TokenRules
from keras_attention.search.constraints import Constraints
from keras_attention.search.shallow_fusion import check_fusion


class SearchSpec(NamedTuple):
    """The specification of a search.

    Attributes:
        checked_step: The `CheckedStep`, or a `ShallowFusionStep` around it.
        max_length: Int, the width of the result.
        limits: Int32 `(batch,)`, the maximum number of tokens of each batch element.
        rules: The `TokenRules`.
        special_ids: The `SpecialIds`.
    """

    checked_step: CheckedStep | ShallowFusionStep
    max_length: int
    limits: object
    rules: TokenRules
    special_ids: object

    @classmethod
    def from_arguments(
        cls, owner, step, state, memory, max_length, constraints, fusion=None
    ) -> "SearchSpec":
        """Returns the specification, or raises a `ValueError` that names the wrong argument."""
        validation.check_positive_int(owner, "max_length", max_length)
        if not isinstance(constraints, Constraints):
            raise ValueError(
                f"{owner} expects `constraints` to be a `Constraints`, such as "
                f"Constraints(min_length=2). Received: constraints={constraints!r}"
            )
        check_fusion(owner, fusion)
        checked_step = CheckedStep(owner, step, state, memory)
        check_capacity(owner, step, state, max_length)
        if fusion is not None and fusion.weight > 0.0:
            checked_step = ShallowFusionStep(checked_step, fusion, max_length)
        limits = resolve_max_lengths(owner, max_length, constraints.max_lengths, checked_step.batch)
        rules = TokenRules(owner, checked_step.batch, max_length, constraints)
        return cls(checked_step, max_length, limits, rules, constraints.special_ids)
