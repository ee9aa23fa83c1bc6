"""What a sequence may contain: `Constraints` and `SpecialIds`, for all searches."""

import dataclasses
import numbers
from collections.abc import Collection, Sequence

import numpy as np

from keras_attention import validation
from keras_attention._utils.tensor_types import LogitsProcessor, TensorLike

#: The types of several ids.
COLLECTIONS = (list, tuple, set, frozenset, range, np.ndarray)
MAX_PENALTY = 1e6


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids of the BOS token, the EOS token and padding.

    Args:
        start_id: Int, the BOS token, fed at the first step. A search never produces it, unless it
            equals `end_id`.
        end_id: Int, the EOS token, ends a sequence. Or several ints: any of them is an EOS token,
            and a result contains the one that was chosen.
        pad_id: Int, padding after the end. A search never produces it.

    Raises:
        ValueError: If an id is not an int of at least 0, there is no `end_id`, or EOS and padding
            are the same.

    Example:

    >>> from keras_attention.search import SpecialIds
    >>> SpecialIds(start_id=1, end_id=2)
    SpecialIds(start_id=1, end_id=2, pad_id=0)
    >>> SpecialIds(end_id=[7, 3]).end_ids
    (3, 7)
    """

    start_id: int = 2
    end_id: int | Collection[int] = 3
    pad_id: int = 0

    def __post_init__(self) -> None:
        owner = "SpecialIds"
        for name in ("start_id", "pad_id"):
            validation.check_int_at_least(owner, name, getattr(self, name), 0)
        if isinstance(self.end_id, COLLECTIONS):
            end_ids = _sort_ids(owner, "end_id", self.end_id)
            if not end_ids:
                raise ValueError(
                    f"{owner} expects at least one id as `end_id`. Received: end_id={self.end_id!r}"
                )
            end_id = end_ids if len(end_ids) > 1 else end_ids[0]
            object.__setattr__(self, "end_id", end_id)
        validation.check_int_at_least(owner, "end_id", self.end_ids[0], 0)
        if self.pad_id in self.end_ids:
            raise ValueError(
                "SpecialIds expects `end_id` and `pad_id` to differ. "
                f"Received: end_id={self.end_id}, pad_id={self.pad_id}"
            )

    @property
    def end_ids(self) -> tuple[int, ...]:
        """All ids that end a sequence, in ascending order."""
        return self.end_id if isinstance(self.end_id, tuple) else (self.end_id,)


@dataclasses.dataclass(frozen=True, eq=False)
class Constraints:
    """What the sequences of a search may contain.

    They restrict the choice of tokens only: log-probabilities stay those of the model. Exceptions
    are `repetition_penalty` and `logits_processor`. They change the logits before the softmax, and
    all results of a search are those of the changed logits; `score_sequences` computes the
    model's own.

    Constraints that hold tensors of a compiled function are created inside that function. A
    compiled graph cannot raise, so there it clips tensors to what is permitted.

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
        repetition_penalty: Positive number. The logit of each token that a sequence contains is
            divided by it if the logit is positive, and multiplied otherwise (CTRL). 1 changes
            nothing; more than 1, such as 1.2, avoids repetition. Ids of the prefix count.
        logits_processor: None, or a callable `(logits, ids, num_tokens) -> logits`, called in
            each step after the repetition penalty and before all other constraints. `logits` and
            its result are float32 `(rows, vocabulary)`, with the rows of `step`. `ids` are int32
            `(rows, max_length)`: the tokens that each sequence contains, -1 from `num_tokens` on.
            `num_tokens` is an int32 scalar. Rows of sequences that have ended are ignored. A
            compiled search traces it, so it uses `keras.ops`.
        phrases: None, or int ids of shape `(batch, num_phrases, phrase_length)`, padded after each
            phrase: every hypothesis of a beam search contains all phrases of its batch element,
            each as a contiguous run of ids. They may overlap; padding alone is no phrase. Ids of
            the prefix count, and the other constraints take precedence. A phrase that no sequence
            can contain raises. Where the search finds no sequence with all phrases, it returns
            padding hypotheses, also for such a phrase inside a compiled graph. The number of
            phrases and their length are static. Other searches refuse phrases.

    Raises:
        ValueError: If an argument is out of range. Tensors are checked by the search.

    Example:

    >>> from keras_attention.search import Constraints
    >>> Constraints(suppress_ids=[7, 1]).suppress_ids
    (1, 7)

    Source of `repetition_penalty`: Keskar et al. 2019 (https://arxiv.org/abs/1909.05858),
    section 4.1, with the sign of the logit as in Hugging Face Transformers. Of `phrases`: Post and
    Vilar 2018 (https://arxiv.org/abs/1804.06609).
    """

    min_length: int | TensorLike = 0
    max_lengths: TensorLike | None = None
    suppress_ids: Sequence[int] = ()
    no_repeat_ngram_size: int | None = None
    prefix: TensorLike | None = None
    prefix_lengths: TensorLike | None = None
    special_ids: SpecialIds = SpecialIds()
    repetition_penalty: float = 1.0
    logits_processor: LogitsProcessor | None = None
    phrases: TensorLike | None = None

    def __post_init__(self) -> None:
        owner = "Constraints"
        if isinstance(self.min_length, numbers.Integral):
            validation.check_int_at_least(owner, "min_length", self.min_length, 0)
        object.__setattr__(
            self, "suppress_ids", _sort_ids(owner, "suppress_ids", self.suppress_ids)
        )
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
        validation.check_number_in_range(
            owner, "repetition_penalty", self.repetition_penalty, 0, MAX_PENALTY, exclude_low=True
        )
        processor = self.logits_processor
        if processor is not None and (not callable(processor) or isinstance(processor, type)):
            raise ValueError(
                f"{owner} expects `logits_processor` to be None or a callable `(logits, ids, "
                f"num_tokens) -> logits`. Received: logits_processor={processor!r}"
            )

    def needs_ids(self, max_length: int) -> bool:
        """Returns whether a search of `max_length` stores the ids of each hypothesis for them."""
        ngram_size = self.no_repeat_ngram_size
        return (
            (ngram_size is not None and ngram_size < max_length)
            or self.repetition_penalty != 1.0
            or self.logits_processor is not None
        )


def check_special_ids(owner: str, special_ids: SpecialIds) -> None:
    """Raises unless `special_ids` are a `SpecialIds`."""
    if not isinstance(special_ids, SpecialIds):
        raise ValueError(
            f"{owner} expects `special_ids` to be a `SpecialIds`, such as "
            f"SpecialIds(start_id=2, end_id=3). Received: special_ids={special_ids!r}"
        )


def _sort_ids(owner, name, ids):
    """Returns ids as a sorted tuple of distinct ints."""
    plain = ids.tolist() if isinstance(ids, (np.ndarray, np.generic)) else ids
    if not isinstance(plain, COLLECTIONS) or any(
        isinstance(i, bool) or not isinstance(i, numbers.Integral) or i < 0 for i in plain
    ):
        raise ValueError(
            f"{owner} expects `{name}` to be ids, ints of at least 0, the same for every batch "
            f"element. Received: {name}={plain!r}"
        )
    return tuple(sorted({int(i) for i in plain}))
