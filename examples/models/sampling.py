"""Scheduled sampling as an option of a system, Bengio et al. 2015
(https://arxiv.org/abs/1506.03099).

constant:SHARE             the true token with probability SHARE
linear:SLOPE[,MINIMUM]     1 - SLOPE a minibatch, down to MINIMUM (0)
exponential:BASE           BASE^minibatches
inverse-sigmoid:SPEED      SPEED / (SPEED + exp(minibatches / SPEED))
"""

import argparse
import math

import keras

from examples.options import Option
from keras_attention import ExponentialDecay, InverseSigmoidDecay, LinearDecay, ScheduledSampling

SCHEDULES = {
    "constant": float,
    "linear": lambda slope, minimum=0.0: LinearDecay(slope, minimum=minimum),
    "exponential": ExponentialDecay,
    "inverse-sigmoid": InverseSigmoidDecay,
}


def schedule(text: str):
    """Returns the schedule that a text such as `"inverse-sigmoid:2000"` names.

    Raises:
        ValueError: If there is no such schedule, or its numbers lie outside their ranges.

    Example:

    >>> schedule("linear:0.01,0.25").minimum
    0.25
    """
    name, _, numbers = text.partition(":")
    try:
        values = [float(number) for number in numbers.split(",")]
        if not all(map(math.isfinite, values)):
            raise ValueError("its numbers must be finite")
        made = SCHEDULES[name](*values)
        if name == "constant" and not 0 <= made <= 1:
            raise ValueError(f"the share must lie between 0 and 1, not be {made}")
    except (KeyError, TypeError, ValueError) as error:
        told = f" ({error})" if isinstance(error, ValueError) else ""
        raise ValueError(
            "Scheduled sampling is constant:SHARE, linear:SLOPE[,MINIMUM], exponential:BASE or "
            f"inverse-sigmoid:SPEED. Received: {text!r}{told}"
        ) from None
    return made


def _checked(text):
    try:
        schedule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


OPTION = Option(
    None,
    "scheduled sampling: constant:SHARE, linear:SLOPE[,MINIMUM], exponential:BASE or "
    "inverse-sigmoid:SPEED, of true tokens (default: all are true)",
    _checked,
)


def sampled(decoder: keras.layers.Layer, text: str | None, seed=None) -> keras.layers.Layer:
    """Returns the decoder, or a layer of its name that trains it on its own predictions too.

    Args:
        decoder: A decoder.
        text: What `schedule` takes, or None for true tokens throughout.
        seed: Optional int, the seed of coins and draws.
    """
    if text is None:
        return decoder
    return ScheduledSampling(
        decoder, schedule(text), seed=seed, dtype=decoder.dtype_policy, name=decoder.name
    )
