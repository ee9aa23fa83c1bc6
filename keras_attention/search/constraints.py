"""What a sequence may contain: `Constraints` and `SpecialIds`, for all searches."""

import dataclasses
import numbers
from collections.abc import Sequence

import numpy as np

from keras_attention import validation
from keras_attention._utils.tensor_types import TensorLike


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids of the BOS token, the EOS token and padding.

    Args:
        start_id: Int, the BOS token, fed at the first step. A search never produces it, unless it
            equals `end_id`.
        end_id: Int, the EOS token, ends a sequence.
        pad_id: Int, padding after the end. A search never produces it.

    Raises:
        ValueError: If an id is not an int of at least 0, or EOS and padding are the same.

    Example:

    >>> from keras_attention.search import SpecialIds
    >>> SpecialIds(start_id=1, end_id=2)
    SpecialIds(start_id=1, end_id=2, pad_id=0)
    """

    start_id: int = 2
    end_id: int = 3
    pad_id: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            validation.check_int_at_least("SpecialIds", field.name, value, 0)
        if self.end_id == self.pad_id:
            raise ValueError(
                "SpecialIds expects `end_id` and `pad_id` to differ. "
                f"Received: end_id={self.end_id}, pad_id={self.pad_id}"
            )


@dataclasses.dataclass(frozen=True, eq=False)
class Constraints:
    """What the sequences of a search may contain.

    They restrict the choice of tokens only: log-probabilities stay those of the model. Constraints
    that hold tensors of a compiled function are created inside that function. A compiled graph
    cannot raise, so there it clips tensors to what is permitted.

    Args:
        min_length: Int, or an int tensor of shape `(batch,)`: no sequence ends with fewer tokens.
            The EOS token counts. `max_lengths` takes precedence over it.
        max_lengths: None, or an int tensor of shape `(batch,)`: the limit of each element, from 1
            to the `max_length` of the search.
        suppress_ids: Ids never produced, ints, the same for the whole batch.
        no_repeat_ngram_size: None, or a positive int `n`: no sequence contains the same `n`-gram
            twice. Ids of the prefix count.
        prefix: None, or int ids of shape `(batch, prefix)` that every sequence starts with,
            regardless of other constraints. They are part of the result, of its lengths,
            log-probabilities and alignments. EOS cannot be forced. A token that the step forbids
            raises. Inside a compiled graph its batch element gets padding hypotheses from a beam
            search, and stops without EOS in the other searches.
        prefix_lengths: None to use each prefix up to its first padding, or an int tensor of shape
            `(batch,)`; 0 forces nothing.
        special_ids: The `SpecialIds` of the vocabulary.

    Raises:
        ValueError: If an argument is out of range. Tensors are checked by the search.

    Example:

    >>> from keras_attention.search import Constraints
    >>> Constraints(suppress_ids=[7, 1]).suppress_ids
    (1, 7)
    """

    min_length: int | TensorLike = 0
    max_lengths: TensorLike | None = None
    suppress_ids: Sequence[int] = ()
    no_repeat_ngram_size: int | None = None
    prefix: TensorLike | None = None
    prefix_lengths: TensorLike | None = None
    special_ids: SpecialIds = SpecialIds()

    def __post_init__(self) -> None:
        owner = "Constraints"
        if isinstance(self.min_length, numbers.Integral):
            validation.check_int_at_least(owner, "min_length", self.min_length, 0)
        object.__setattr__(self, "suppress_ids", _sort_ids(self.suppress_ids))
        if self.no_repeat_ngram_size is not None:
            validation.check_positive_int(
                owner,
                "no_repeat_ngram_size",
                self.no_repeat_ngram_size,
                "Omit it to allow repetition.",
            )
        if self.prefix is None and self.prefix_lengths is not None:
            raise ValueError(
                f"{owner} expects `prefix` with `prefix_lengths`. Received: prefix=None"
            )
        check_special_ids(owner, self.special_ids)


def check_special_ids(owner: str, special_ids: SpecialIds) -> None:
    """Raises unless `special_ids` are a `SpecialIds`."""
    if not isinstance(special_ids, SpecialIds):
        raise ValueError(
            f"{owner} expects `special_ids` to be a `SpecialIds`, such as "
            f"SpecialIds(start_id=2, end_id=3). Received: special_ids={special_ids!r}"
        )


def _sort_ids(ids):
    """Returns `suppress_ids` as a sorted tuple of ints."""
    plain = ids.tolist() if isinstance(ids, (np.ndarray, np.generic)) else ids
    if not isinstance(plain, (list, tuple, set, frozenset, range)) or any(
        isinstance(i, bool) or not isinstance(i, numbers.Integral) or i < 0 for i in plain
    ):
        raise ValueError(
            "Constraints expects `suppress_ids` to be ids, ints of at least 0, the same for every "
            f"batch element. Received: suppress_ids={plain!r}"
        )
    return tuple(sorted({int(i) for i in plain}))
