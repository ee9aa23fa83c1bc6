"""Shallow fusion with a language model, Gulcehre et al. 2015 (https://arxiv.org/abs/1503.03535).

    log p(y_t) = log p_TM(y_t) + weight * log p_LM(y_t)                           section 4.1

for every token, EOS included. The sum ranks hypotheses; it is not normalized again.
"""

import dataclasses
from typing import Protocol

from keras_attention import validation
from keras_attention._utils.tensor_types import Size, StepResult, Structure, Tensor

MAX_WEIGHT = 100


class LanguageModel(Protocol):
    """A model of the target side alone, which a search runs beside the step of its own model."""

    def start(self, batch: Size) -> Structure:
        """Returns the state before the BOS token, a nest of tensors of shape `(batch, ...)`."""

    def step(self, ids: Tensor, state: Structure, memory: Structure) -> StepResult:
        """Returns the logits, the next state and an alignment, which is not used."""


@dataclasses.dataclass(frozen=True)
class ShallowFusion:
    """Ranks the hypotheses of a search by a language model too.

    Use it where there is more text of the target side than there are pairs. A search runs
    the language model's step beside the model's and carries its state with the hypotheses. What
    it returns as `log_probs` stays the model's own; `scores` and the choice of tokens have
    `weight * log p_LM` added to it, before the length penalty. This is the paper's sum. (A step
    that returns it as logits, as `ensemble_step` does, would be normalized by the search again.)

    A token that the language model rules out is impossible. A `repetition_penalty` or a
    `logits_processor` changes the model's logits alone.

    Args:
        language_model: Object with two methods, such as a `RecurrentLanguageModel`.
            `start(batch)` returns its state, a nest of tensors of shape `(batch, ...)`; `batch` is
            an int, or a scalar tensor in a graph of any batch size. `step(ids, state, memory)`
            returns `(logits, state, alignment)`, as the step of a search does. It reads the ids
            and the `memory` of the search, and may ignore the `memory`. Its alignment is ignored.
            It has the vocabulary of the model, and the same special ids. For an export its
            attribute `variables` lists the Keras variables of its weights, if it has any.
        weight: Number from 0 to 100, the weight of the language model. 0 searches without it.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    >>> import types, keras
    >>> from keras_attention.search import ShallowFusion, greedy_search
    >>> def step(ids, state, memory):  # likes 4 a little more than 5
    ...     logits = keras.ops.array([[-9.0, -9.0, -9.0, -9.0, 1.0, 0.9]])
    ...     return keras.ops.repeat(logits, len(ids), 0), state, keras.ops.zeros((len(ids), 1))
    >>> def prefer_5(ids, state, memory):
    ...     logits = keras.ops.one_hot(keras.ops.zeros_like(ids) + 5, 6)
    ...     return logits, state, keras.ops.zeros((len(ids), 1))
    >>> language_model = types.SimpleNamespace(start=lambda batch: {}, step=prefer_5)
    >>> for weight in (0.0, 0.2):
    ...     fusion = ShallowFusion(language_model, weight=weight)
    ...     found = greedy_search(step, {}, keras.ops.zeros((1, 1)), max_length=2, fusion=fusion)
    ...     print(keras.ops.convert_to_numpy(found["ids"]).tolist())
    [[4, 4]]
    [[5, 5]]

    Source: Gulcehre et al. 2015 (https://arxiv.org/abs/1503.03535), section 4.1.
    """

    language_model: LanguageModel
    weight: float

    def __post_init__(self) -> None:
        owner = "ShallowFusion"
        methods = ("start", "step")
        missing = [m for m in methods if not callable(getattr(self.language_model, m, None))]
        if missing:
            raise ValueError(
                f"{owner} expects `language_model` to have the methods start and step, as a "
                f"`RecurrentLanguageModel` has. Received: {type(self.language_model).__name__} "
                f"without {' and '.join(missing)}"
            )
        weight = validation.check_number_in_range(owner, "weight", self.weight, 0, MAX_WEIGHT)
        object.__setattr__(self, "weight", float(weight))


def check_fusion(owner: str, fusion: ShallowFusion | None) -> None:
    """Raises unless `fusion` is None or a `ShallowFusion`."""
    if fusion is not None and not isinstance(fusion, ShallowFusion):
        raise ValueError(
            f"{owner} expects `fusion` to be None or a `ShallowFusion`, such as "
            f"ShallowFusion(language_model, weight=0.2). Received: fusion={fusion!r}"
        )
