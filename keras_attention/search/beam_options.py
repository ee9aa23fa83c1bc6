"""How a beam ranks and stops: `BeamOptions`."""

import dataclasses

from keras_attention import validation
from keras_attention._utils.tensor_types import ReorderCache, TensorLike
from keras_attention.search.penalties import (
    CoveragePenalty,
    CoveragePenaltyFunction,
    convert_penalty,
)

STOPPING = ("exact", "limit", "first", "heuristic", "shrinking")
#: The number of candidates that may finish, as a multiple of `beam_width`.
FINISHED_CANDIDATES = {"top_beam": 1, "all": 2}


@dataclasses.dataclass(frozen=True, eq=False)
class BeamOptions:
    """How a beam search ranks hypotheses, when it stops, and how it reorders the state.

    Args:
        coverage_penalty: None, the beta of a `CoveragePenalty`, or a callable such as one. It is
            applied to hypotheses as they finish.
        memory_mask: None, or a boolean tensor of shape `(batch, source)`, passed to
            `coverage_penalty`: True at real source positions. Options that hold a tensor of a
            compiled function are created inside that function.
        stopping: When the search of a batch element stops. `"exact"`: when its result is certain.
            `"limit"`: at its length limit, with the same result, later. `"first"`: when
            `beam_width` hypotheses are finished, which may miss better, longer ones.
            `"heuristic"`: when no live hypothesis would beat the worst of them at its current
            length, which is exact too unless the length penalty prefers long output.
            `"shrinking"`: when the beam is empty; each finished hypothesis reduces its width by
            one (Sutskever et al. 2014). With a beam of 1 this is greedy search, whatever the
            penalties.
        finished_candidates: Which hypotheses that end in a step count as finished. `"top_beam"`:
            those among the `beam_width` most probable of its `2 * beam_width` candidates, as in
            fairseq and Hugging Face; then a beam of 1 is greedy search. `"all"`: those anywhere
            among the `2 * beam_width`, as in tensor2tensor and t5x, which also finds improbable
            short hypotheses. `"all"` requires `stopping` to be `"exact"` or `"limit"`: the other
            rules would stop on a pool of improbable hypotheses.
        num_groups: Int that divides `beam_width`. More than 1 searches in groups that avoid each
            other's tokens. No group returns a hypothesis that an earlier one has found.
        diversity_penalty: Number of at least 0, subtracted from a token's log-probability for each
            time an earlier group chose it in the same step. It affects only the choice, never a
            score.
        reorder_cache: None to gather every leaf of `state`, or a cheaper callable `(state,
            parents) -> state` with the same result, such as a decoder's `reorder_cache`;
            `parents` is int32 `(batch, beam_width)`, the parent of each beam. It is not called in
            the first step, in which all beams have the same parent, or for a beam of 1.
        return_tree: Whether the result has the hypotheses of every step as well, `tree_ids`,
            `tree_parents` and `tree_log_probs`; `keras_attention.plotting.explore_beam_search`
            shows them.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> from keras_attention.search import BeamOptions
    >>> BeamOptions(coverage_penalty=0.2, stopping="first").stopping
    'first'

    Source of `finished_candidates`: fairseq `sequence_generator.py`, Hugging Face Transformers
    `generation/` (`"top_beam"`); tensor2tensor `utils/beam_search.py`, t5x `decoding.py` (`"all"`).
    """

    coverage_penalty: CoveragePenaltyFunction | float | None = None
    memory_mask: TensorLike | None = None
    stopping: str = "exact"
    finished_candidates: str = "top_beam"
    num_groups: int = 1
    diversity_penalty: float = 0.5
    reorder_cache: ReorderCache | None = None
    return_tree: bool = False

    def __post_init__(self) -> None:
        owner = "BeamOptions"
        penalty = convert_penalty(owner, "coverage_penalty", self.coverage_penalty, CoveragePenalty)
        object.__setattr__(self, "coverage_penalty", penalty)
        validation.check_one_of(owner, "stopping", self.stopping, STOPPING)
        validation.check_one_of(
            owner, "finished_candidates", self.finished_candidates, FINISHED_CANDIDATES
        )
        if self.finished_candidates == "all" and self.stopping not in ("exact", "limit"):
            reason = "would stop on the improbable hypotheses that then count as finished"
            if self.stopping == "shrinking":
                reason = "would remove a place of the beam for each of them, even those outside"
            raise ValueError(
                f"{owner} expects `stopping` to be 'exact' or 'limit' with "
                f"`finished_candidates='all'`: {self.stopping!r} {reason}. "
                f"Received: stopping={self.stopping!r}"
            )
        hint = "Use one that divides beam_width."
        validation.check_positive_int(owner, "num_groups", self.num_groups, hint)
        validation.check_number_in_range(owner, "diversity_penalty", self.diversity_penalty, 0, 1e6)
        if self.reorder_cache is not None and not callable(self.reorder_cache):
            raise ValueError(
                f"{owner} expects `reorder_cache` to be None or a callable `reorder_cache(state, "
                f"parents)`, such as a decoder's. Received: reorder_cache={self.reorder_cache!r}"
            )

    def check_beam_width(self, owner: str, beam_width: int) -> None:
        """Raises unless the groups divide a beam of this width.

        Args:
            owner: Name of the function or class that the user called.
            beam_width: Positive int.
        """
        if beam_width % self.num_groups:
            raise ValueError(
                f"{owner} expects `num_groups` to divide `beam_width`. "
                f"Received: num_groups={self.num_groups}, beam_width={beam_width}"
            )
