"""Averages of the weights over training, which usually translate better than the last ones.

Both averages are objects given to the loop. It calls `update()` inside the compiled
step, evaluates and saves inside `applied()`, where the model holds the average, and
calls `end_epoch()` after that; training goes on from its own weights. What they carry
is saved in every checkpoint: `variables` and `snapshots`.

The statistics of batch normalization are averaged with the weights: they are means of what
the layers before give, so those of the last weights do not fit the average. Nothing else that
is not trained is averaged: states of seeds, the baseline of a `ReinforceLoss`, frozen layers.
"""

import contextlib

import keras
import numpy as np
from keras import ops

from examples.training.layers import batch_normalizations
from keras_attention import validation


class WeightAverage:
    """What the loop expects of an average; used by itself it averages nothing."""

    def __init__(self):
        self.model = None
        self.variables = []
        self.snapshots = []

    def build(self, model: keras.Model) -> None:
        """Binds the average to a model; called once, before the first step."""
        self.model = model

    def update(self) -> None:
        """Follows one optimizer update; runs inside the compiled step."""

    def end_epoch(self) -> None:
        """Follows one epoch and its evaluation."""

    @property
    def followed(self) -> list:
        """What is averaged: the trainable variables, then batch normalization's statistics."""
        normalizations = batch_normalizations(self.model)
        statistics = [v for layer in normalizations for v in layer.non_trainable_variables]
        return [*self.model.trainable_variables, *statistics]

    def values(self) -> list:
        """Returns the averages of what is followed, in that order."""
        return [variable.numpy() for variable in self.followed]

    @contextlib.contextmanager
    def applied(self):
        """Lends the averaged weights to the model for the duration of a `with` block."""
        variables = self.followed
        own = [variable.numpy() for variable in variables]
        _assign(variables, self.values())
        try:
            yield
        finally:
            _assign(variables, own)


class NoAverage(WeightAverage):
    """Leaves the weights as the optimizer made them."""

    @contextlib.contextmanager
    def applied(self):
        yield


class ExponentialAverage(WeightAverage):
    """Keeps `average = decay * average + (1 - decay) * weights` after every update.

    During the first updates the decay is `min(decay, (1 + n) / (10 + n))`, so that the
    random first weights are soon forgotten.

    Args:
        decay: Float in [0, 1). 0.999 looks back over about a thousand updates.

    Reference: Polyak and Juditsky 1992, https://doi.org/10.1137/0330046.
    """

    def __init__(self, decay: float = 0.999):
        super().__init__()
        self.decay = validation.check_number_in_range(
            "ExponentialAverage", "decay", decay, 0.0, 1.0, below=True
        )

    def build(self, model):
        super().build(model)
        self._averages = [
            keras.Variable(v.numpy(), dtype=v.dtype, trainable=False, name=f"{v.name}_average")
            for v in self.followed
        ]
        self._updates = keras.Variable(0.0, dtype="float32", trainable=False, name="updates")
        self.variables = [*self._averages, self._updates]

    def update(self):
        count = self._updates + 1.0
        decay = ops.minimum(self.decay, (1.0 + count) / (10.0 + count))
        for average, variable in zip(self._averages, self.followed, strict=True):
            step = ops.cast(1.0 - decay, average.dtype)
            average.assign(average + step * (variable - average))
        self._updates.assign(count)

    def values(self):
        return [average.numpy() for average in self._averages]


class SnapshotAverage(WeightAverage):
    """Averages the weights as they are now and as they were after the epochs before.

    Args:
        count: Int of at least 2, how many are averaged (the Transformer paper takes the
            last 5 or 20 checkpoints).

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 6.1.
    """

    def __init__(self, count: int = 5):
        super().__init__()
        self.count = validation.check_int_at_least("SnapshotAverage", "count", count, 2)

    def end_epoch(self):
        self.snapshots = [*self.snapshots, super().values()][1 - self.count :]

    def values(self):
        arrays = zip(*self.snapshots, super().values(), strict=True)
        return [np.mean(each, axis=0, dtype="float32") for each in arrays]


def make_average(decay: float | None = None, count: int | None = None) -> WeightAverage | None:
    """Returns the average over updates if `decay` is given, over epochs if `count` is, or None."""
    if decay is not None:
        return ExponentialAverage(decay)
    return None if count is None else SnapshotAverage(count)


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
