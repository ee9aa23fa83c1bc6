"""Scheduled sampling as an option of a model, Bengio et al. 2015
(https://arxiv.org/abs/1506.03099).

constant:P                       the true token with probability P
linear:SLOPE[,MINIMUM[,START]]   from START (1) on SLOPE less a minibatch, down to MINIMUM (0)
exponential:BASE                 BASE^minibatches
inverse-sigmoid:SPEED            SPEED / (SPEED + exp(minibatches / SPEED))

The decoder's own token is sampled from its distribution; with `:argmax` behind the numbers it is
the most probable one.
"""

import argparse
import math
import typing

import keras

from keras_attention import ExponentialDecay, InverseSigmoidDecay, LinearDecay, ScheduledSampling
from keras_attention.decoders.scheduled_sampling import CHOICES

SCHEDULES = {
    "constant": float,
    "linear": lambda slope, minimum=0.0, start=1.0: LinearDecay(slope, start, minimum),
    "exponential": ExponentialDecay,
    "inverse-sigmoid": InverseSigmoidDecay,
}
FORMS = "constant:P, linear:SLOPE[,MINIMUM[,START]], exponential:BASE or inverse-sigmoid:SPEED"


def parse_schedule(text: str):
    """Returns the schedule that a text such as `"inverse-sigmoid:2000"` names, and the choice.

    Raises:
        ValueError: If there is no such schedule or choice, or its numbers lie outside their ranges.

    Example:

    >>> decay, choice = parse_schedule("linear:0.01,0.25,0.9:argmax")
    >>> decay.get_config(), choice
    ({'slope': 0.01, 'start': 0.9, 'minimum': 0.25}, 'argmax')
    """
    name, _, rest = text.partition(":")
    numbers, colon, choice = rest.partition(":")
    try:
        if colon and choice not in CHOICES:
            raise ValueError(f"behind the numbers may stand one of {', '.join(CHOICES)}")
        values = [float(number) for number in numbers.split(",")]
        if not all(map(math.isfinite, values)):
            raise ValueError("its numbers must be finite")
        made = SCHEDULES[name](*values)
        if name == "constant" and not 0 <= made <= 1:
            raise ValueError(f"the probability must lie between 0 and 1, not be {made}")
    except (KeyError, TypeError, ValueError) as error:
        reason = f" ({error})" if isinstance(error, ValueError) else ""
        raise ValueError(
            f"Scheduled sampling is {FORMS}, and :argmax behind it where own tokens are not to be "
            f"sampled. Received: {text!r}{reason}"
        ) from None
    return made, choice or CHOICES[0]


def _check(text):
    try:
        parse_schedule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


#: What `parse_schedule` takes: the annotation of an option.
ScheduledSamplingText = typing.Annotated[str, _check]


def add_scheduled_sampling(
    decoder: keras.layers.Layer, text: str | None, seed: int | None = None
) -> keras.layers.Layer:
    """Returns the decoder, or a layer of its name that trains it on its own predictions too.

    Args:
        decoder: A decoder.
        text: What `parse_schedule` takes, or None for true tokens throughout.
        seed: Optional int, the seed of what is sampled.
    """
    if text is None:
        return decoder
    decay, choice = parse_schedule(text)
    return ScheduledSampling(
        decoder, decay, choice, seed, dtype=decoder.dtype_policy, name=decoder.name
    )
