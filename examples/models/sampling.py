"""Scheduled sampling as an option of a system, Bengio et al. 2015
(https://arxiv.org/abs/1506.03099).

constant:SHARE                   the true token with probability SHARE
linear:SLOPE[,MINIMUM[,START]]   from START (1) on SLOPE less a minibatch, down to MINIMUM (0)
exponential:BASE                 BASE^minibatches
inverse-sigmoid:SPEED            SPEED / (SPEED + exp(minibatches / SPEED))

The decoder's own word is drawn from its distribution; with `:argmax` behind the numbers it is the
likeliest.
"""

import argparse
import math

import keras

from examples.options import Option
from keras_attention import ExponentialDecay, InverseSigmoidDecay, LinearDecay, ScheduledSampling
from keras_attention.decoders.scheduled_sampling import CHOICES

SCHEDULES = {
    "constant": float,
    "linear": lambda slope, minimum=0.0, start=1.0: LinearDecay(slope, start, minimum),
    "exponential": ExponentialDecay,
    "inverse-sigmoid": InverseSigmoidDecay,
}
FORMS = "constant:SHARE, linear:SLOPE[,MINIMUM[,START]], exponential:BASE or inverse-sigmoid:SPEED"


def schedule(text: str):
    """Returns the schedule that a text such as `"inverse-sigmoid:2000"` names, and the choice.

    Raises:
        ValueError: If there is no such schedule or choice, or its numbers lie outside their ranges.

    Example:

    >>> decay, choice = schedule("linear:0.01,0.25,0.9:argmax")
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
            raise ValueError(f"the share must lie between 0 and 1, not be {made}")
    except (KeyError, TypeError, ValueError) as error:
        told = f" ({error})" if isinstance(error, ValueError) else ""
        raise ValueError(
            f"Scheduled sampling is {FORMS}, and :argmax behind it where own words are not to be "
            f"drawn. Received: {text!r}{told}"
        ) from None
    return made, choice or CHOICES[0]


def _checked(text):
    try:
        schedule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


OPTION = Option(
    None,
    f"scheduled sampling: {FORMS}, of true tokens; the others are drawn, with :argmax behind it "
    "the likeliest (default: all are true)",
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
    decay, choice = schedule(text)
    return ScheduledSampling(
        decoder, decay, choice, seed, dtype=decoder.dtype_policy, name=decoder.name
    )
