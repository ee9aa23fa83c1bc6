"""Samples one token from logits, with temperature, top-k and nucleus (top-p) sampling.

    token = argmax_v (logit_v + temperature * gumbel_v)

The candidates are the `top_k` most probable tokens (Fan et al. 2018,
https://arxiv.org/abs/1805.04833), and of those the fewest whose probabilities after temperature
reach `top_p` (Holtzman et al. 2020, https://arxiv.org/abs/1904.09751).
"""

from typing import NamedTuple

import keras
from keras import ops

from keras_attention import validation
from keras_attention.search import _stateless_random
from keras_attention.search._argument_tensors import check_rows, get_static_value
from keras_attention.search._indexing import gather_per_row
from keras_attention.search._log_probs import POSSIBLE_THRESHOLD
from keras_attention.search.chunked_top_k import chunked_top_k

MIN_TEMPERATURE = 1e-4  # lower temperatures are replaced by it in divisions
MAX_TEMPERATURE = 1e6
PROBABILITY_TOLERANCE = 1e-6  # rounding error of sums of probabilities
EXCLUDED_LOGIT = -1e30  # below every real logit, divided by the lowest temperature


class SampledTokens(NamedTuple):
    """Ids, their logits before temperature, and their log-probability as sampled, `(rows,)`."""

    ids: object
    logits: object
    log_probs: object


class TokenSampler:
    """Samples from logits: `sampler(logits, denominator, keys) -> SampledTokens`."""

    def __init__(self, owner, temperature, top_k, top_p, batch):
        if top_k is not None:
            validation.check_positive_int(owner, "top_k", top_k, "Omit it to keep every token.")
        if top_p is not None:
            hint = "Omit it to keep every token."
            validation.check_number_in_range(
                owner, "top_p", top_p, 0, 1, hint=hint, exclude_low=True
            )
        self.top_k, self.top_p = top_k, top_p
        self.temperature = _check_temperature(owner, temperature, batch)

    def __call__(self, logits, denominator, keys):
        ids = ops.expand_dims(ops.arange(logits.shape[1], dtype="int32"), 0)
        values, sorted_ = logits, self.top_k is not None or self.top_p is not None
        if sorted_:
            values, ids = chunked_top_k(logits, min(self.top_k or logits.shape[1], logits.shape[1]))
        is_candidate = denominator(values) > POSSIBLE_THRESHOLD  # False for NaN
        tempered = ops.where(
            is_candidate, values / ops.maximum(self.temperature, MIN_TEMPERATURE), EXCLUDED_LOGIT
        )
        if self.top_p is not None and self.top_p < 1:  # 1 keeps all, despite rounding
            is_candidate = is_candidate & select_nucleus(tempered, self.top_p)
            tempered = ops.where(is_candidate, tempered, EXCLUDED_LOGIT)
        noisy = ops.where(
            is_candidate,
            values + self.temperature * _stateless_random.gumbel_noise(keys, ids),
            EXCLUDED_LOGIT,
        )
        places = chunked_top_k(noisy, 1)[1]
        log_probs = gather_per_row(tempered, places) - ops.logsumexp(
            tempered, axis=-1, keepdims=True
        )
        log_probs = ops.where(self.temperature > 0.0, ops.minimum(log_probs, 0.0), 0.0)
        values = gather_per_row(values, places)[:, 0]
        ids = gather_per_row(ids, places) if sorted_ else places
        return SampledTokens(ids[:, 0], values, log_probs[:, 0])


def select_nucleus(logits, mass):
    """Returns True at the fewest tokens whose probabilities reach `mass`, at least one.

    Args:
        logits: Float32 `(rows, tokens)`, sorted, the largest first.
        mass: Number in (0, 1].

    Example:

    >>> logits = ops.log(ops.array([[0.5, 0.3, 0.2]]))
    >>> ops.convert_to_numpy(select_nucleus(logits, 0.7)).tolist()
    [[True, True, False]]
    """
    reached = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)
    short = reached[:, :-1] < mass - PROBABILITY_TOLERANCE
    return ops.concatenate([ops.ones_like(logits[:, :1], dtype="bool"), short], axis=1)


def _check_temperature(owner, temperature, batch):
    """Returns float32 of shape `(1, 1)` or `(batch, 1)`."""
    meaning = "a number from 0 to 1e6, or a float tensor with one per batch element"
    if not hasattr(temperature, "shape") and not isinstance(temperature, (list, tuple)):
        validation.check_number_in_range(owner, "temperature", temperature, 0, MAX_TEMPERATURE)
    try:
        tensor = ops.convert_to_tensor(temperature)
        numeric = keras.backend.standardize_dtype(tensor.dtype) not in ("string", "bool")
        values = get_static_value(tensor) if numeric else None
        inside = numeric and (values is None or ((values >= 0) & (values <= MAX_TEMPERATURE)).all())
    except (TypeError, ValueError):
        inside = False
    if not inside or len(tensor.shape) > 1:
        raise ValueError(
            f"{owner} expects `temperature` to be {meaning}. Received: temperature={temperature!r}"
        )
    if len(tensor.shape) == 1:
        check_rows(owner, "temperature", tensor, batch)
    tensor = ops.cast(tensor, "float32")
    tensor = ops.where(tensor >= 0.0, ops.minimum(tensor, MAX_TEMPERATURE), 0.0)
    return ops.reshape(tensor, (-1, 1))
