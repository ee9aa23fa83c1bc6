"""One token drawn from logits, at a temperature, among those that are kept.

    token = argmax_v (logit_v + temperature * gumbel_v)

Kept are the `top_k` likeliest tokens (Fan et al. 2018, https://arxiv.org/abs/1805.04833), and of
those the fewest whose tempered probabilities reach `top_p` (Holtzman et al. 2020,
https://arxiv.org/abs/1904.09751).
"""

from typing import NamedTuple

import keras
from keras import ops

from keras_attention import checks
from keras_attention.decoding import row_noise, steps
from keras_attention.decoding.hypotheses import EXISTS
from keras_attention.decoding.top_tokens import top_tokens

COLDEST = 1e-4  # temperatures below are taken for it where something is divided by them
HOTTEST = 1e6
ROUNDING = 1e-6  # what sums of probabilities are off by: a mass this near is reached
NOWHERE = -1e30  # below every logit that exists, divided by the coldest temperature


class Drawn(NamedTuple):
    """Ids, their logits before the temperature, and their log-probability as drawn, `(rows,)`."""

    ids: object
    logits: object
    log_probs: object


class Drawing:
    """A draw from logits: `drawing(logits, normalizer, keys) -> Drawn`."""

    def __init__(self, owner, temperature, top_k, top_p, batch):
        if top_k is not None:
            checks.positive_int(owner, "top_k", top_k, "Leave it out to keep every token.")
        if top_p is not None:
            hint = "Leave it out to keep every token."
            checks.number_in_range(owner, "top_p", top_p, 0, 1, hint=hint, above=True)
        self.top_k, self.top_p = top_k, top_p
        self.temperature = _temperatures(owner, temperature, batch)

    def __call__(self, logits, normalizer, keys):
        ids = ops.expand_dims(ops.arange(logits.shape[1], dtype="int32"), 0)
        values, sorted_ = logits, self.top_k is not None or self.top_p is not None
        if sorted_:
            values, ids = top_tokens(logits, min(self.top_k or logits.shape[1], logits.shape[1]))
        kept = normalizer(values) > EXISTS  # False for a NaN
        tempered = ops.where(kept, values / ops.maximum(self.temperature, COLDEST), NOWHERE)
        if self.top_p is not None and self.top_p < 1:  # 1 is all of them, rounded or not
            kept = kept & within_mass(tempered, self.top_p)
            tempered = ops.where(kept, tempered, NOWHERE)
        noisy = ops.where(kept, values + self.temperature * row_noise.gumbel(keys, ids), NOWHERE)
        places = top_tokens(noisy, 1)[1]
        log_probs = steps.pick(tempered, places) - ops.logsumexp(tempered, axis=-1, keepdims=True)
        log_probs = ops.where(self.temperature > 0.0, ops.minimum(log_probs, 0.0), 0.0)
        values = steps.pick(values, places)[:, 0]
        ids = steps.pick(ids, places) if sorted_ else places
        return Drawn(ids[:, 0], values, log_probs[:, 0])


def within_mass(logits, mass):
    """Returns True at the fewest tokens whose probabilities reach `mass`, never at none.

    Args:
        logits: Float32 `(rows, tokens)`, sorted, the largest first.
        mass: Number in (0, 1].

    Example:

    >>> logits = ops.log(ops.array([[0.5, 0.3, 0.2]]))
    >>> ops.convert_to_numpy(within_mass(logits, 0.7)).tolist()
    [[True, True, False]]
    """
    reached = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)
    short = reached[:, :-1] < mass - ROUNDING
    return ops.concatenate([ops.ones_like(logits[:, :1], dtype="bool"), short], axis=1)


def _temperatures(owner, temperature, batch):
    """Returns float32 of shape `(1, 1)` or `(batch, 1)`."""
    meaning = "a number from 0 to 1e6, or a float tensor with one a row"
    if not hasattr(temperature, "shape") and not isinstance(temperature, (list, tuple)):
        checks.number_in_range(owner, "temperature", temperature, 0, HOTTEST)
    try:
        tensor = ops.convert_to_tensor(temperature)
        numeric = keras.backend.standardize_dtype(tensor.dtype) not in ("string", "bool")
        values = steps.concrete(tensor) if numeric else None
        inside = numeric and (values is None or ((values >= 0) & (values <= HOTTEST)).all())
    except (TypeError, ValueError):
        inside = False
    if not inside or len(tensor.shape) > 1:
        raise ValueError(
            f"{owner} expects `temperature` to be {meaning}. Received: temperature={temperature!r}"
        )
    if len(tensor.shape) == 1:
        steps.check_rows(owner, "temperature", tensor, batch)
    tensor = ops.cast(tensor, "float32")
    tensor = ops.where(tensor >= 0.0, ops.minimum(tensor, HOTTEST), 0.0)
    return ops.reshape(tensor, (-1, 1))
