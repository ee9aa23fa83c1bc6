"""Learning rates over time.

They are Keras schedules: pass them to the optimizer. They count updates from 0, as Keras does;
the papers count steps from 1, so step = updates done + 1.
"""

import keras
from keras import ops

from keras_attention import validation


@keras.saving.register_keras_serializable("examples")
class InverseSqrtSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Warms up linearly, then falls with the square root of the step.

        rate = scale * units^-0.5 * min(step^-0.5, step * warmup^-1.5)

    Args:
        units: Positive int, the model's width d.
        warmup: Positive int, the step of the highest rate.
        scale: Positive float, a factor on the whole curve.

    Example:

    >>> rate = InverseSqrtSchedule(units=512, warmup=4000)
    >>> f"{float(rate(0)):.4e}", f"{float(rate(3999)):.4e}"
    ('1.7469e-07', '6.9877e-04')

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 5.3.
    """

    def __init__(self, units: int, warmup: int = 4000, scale: float = 1.0):
        self.units = validation.check_positive_int("InverseSqrtSchedule", "units", units)
        self.warmup = validation.check_positive_int("InverseSqrtSchedule", "warmup", warmup)
        self.scale = validation.check_number_in_range("InverseSqrtSchedule", "scale", scale, 0.0)

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        peak = self.scale * self.units**-0.5
        return peak * ops.minimum(ops.rsqrt(step), step * self.warmup**-1.5)

    def get_config(self):
        return {"units": self.units, "warmup": self.warmup, "scale": self.scale}


@keras.saving.register_keras_serializable("examples")
class HalvingSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Stays constant, then halves at `first_step` and again every `interval` steps.

    Luong et al. halve after every epoch from the fifth (or eighth) on, Sutskever et al.
    every half epoch after the fifth; `halve_after_epoch` counts in epochs.

    Args:
        rate: Positive float, the first learning rate.
        first_step: Positive int, updates made at the full rate.
        interval: Positive int, updates from one halving to the next.

    Example:

    >>> rate = HalvingSchedule(1.0, first_step=10, interval=5)
    >>> [float(rate(step)) for step in (0, 9, 10, 14, 15)]
    [1.0, 1.0, 0.5, 0.5, 0.25]

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 4.1.
    """

    def __init__(self, rate: float, first_step: int, interval: int):
        self.rate = validation.check_number_in_range("HalvingSchedule", "rate", rate, 0.0)
        self.first_step = validation.check_positive_int("HalvingSchedule", "first_step", first_step)
        self.interval = validation.check_positive_int("HalvingSchedule", "interval", interval)

    def __call__(self, step):
        step = ops.cast(step, "int32")
        halvings = ops.maximum((step - self.first_step) // self.interval + 1, 0)
        return self.rate * ops.power(0.5, ops.cast(halvings, "float32"))

    def get_config(self):
        return {"rate": self.rate, "first_step": self.first_step, "interval": self.interval}


def halve_after_epoch(
    rate: float, epoch: float, batches_per_epoch: int, every: float = 1.0
) -> HalvingSchedule:
    """Returns the schedule that halves after `epoch` epochs and then `every` so many.

    Example:

    >>> schedule = halve_after_epoch(0.7, epoch=5, batches_per_epoch=100, every=0.5)
    >>> schedule.first_step, schedule.interval
    (500, 50)
    """
    validation.check_number_in_range("halve_after_epoch", "epoch", epoch, 0.0)
    validation.check_number_in_range("halve_after_epoch", "every", every, 0.0)
    return HalvingSchedule(
        rate, max(1, round(epoch * batches_per_epoch)), max(1, round(every * batches_per_epoch))
    )


@keras.saving.register_keras_serializable("examples")
class CoolDownSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Follows another schedule, and at the end brings its rate down to nothing in a line.

        rate = base * min(1, (total - step) / cooling)

    Args:
        base: A schedule, or a positive float, the rate until then.
        total: Positive int, updates of the whole training.
        cooling: Positive int, updates of its end in which the rate falls.

    Example:

    >>> rate = CoolDownSchedule(2.0, total=10, cooling=4)
    >>> [float(rate(step)) for step in (0, 6, 7, 9, 12)]
    [2.0, 2.0, 1.5, 0.5, 0.0]

    Reference: the last phase of Zhai et al. 2022, https://arxiv.org/abs/2106.04560, section 3.5.
    """

    def __init__(self, base, total: int, cooling: int):
        if not callable(base):
            validation.check_number_in_range("CoolDownSchedule", "base", base, 0.0)
        self.base = base
        self.total = validation.check_positive_int("CoolDownSchedule", "total", total)
        self.cooling = validation.check_positive_int("CoolDownSchedule", "cooling", cooling)

    def __call__(self, step):
        rate = self.base(step) if callable(self.base) else self.base
        left = self.total - ops.cast(step, "float32")
        return rate * ops.clip(left / self.cooling, 0.0, 1.0)

    def get_config(self):
        return {"base": self.base, "total": self.total, "cooling": self.cooling}

    @classmethod
    def from_config(cls, config):
        base = config["base"]
        if isinstance(base, dict):
            base = keras.saving.deserialize_keras_object(base)
        return cls(**{**config, "base": base})


def cool_down(rate, epochs: float, decay_epochs: float | None, batches_per_epoch: int):
    """Returns `rate`, a float or a schedule, that falls in the last `decay_epochs` of `epochs`.

    Example:

    >>> schedule = cool_down(0.7, epochs=3, decay_epochs=1.5, batches_per_epoch=100)
    >>> schedule.total, schedule.cooling, cool_down(0.7, 3, None, 100)
    (300, 150, 0.7)
    """
    if decay_epochs is None:
        return rate
    total, decay = (max(1, round(number * batches_per_epoch)) for number in (epochs, decay_epochs))
    return CoolDownSchedule(rate, total, decay)
