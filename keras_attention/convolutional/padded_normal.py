"""The initializer of the embeddings of ConvS2S: normal numbers, and zeros for padding."""

import keras
from keras import initializers, ops

from keras_attention._utils.tensor_types import Config, DType, Shape, TensorLike


@keras.saving.register_keras_serializable(package="keras_attention")
class PaddedNormal(initializers.Initializer):
    """Initializes an embedding from a normal distribution, with zeros in row 0 for padding.

    Args:
        stddev: Number of at least 0, the standard deviation.
        seed: Optional int.

    Example:

    >>> table = PaddedNormal(0.1, seed=1)((5, 3))
    >>> [bool(ops.any(row != 0)) for row in table]
    [False, True, True, True, True]
    """

    def __init__(self, stddev: float = 0.1, seed: int | None = None) -> None:
        self.stddev = stddev
        self.seed = seed
        self._normal = initializers.RandomNormal(0.0, stddev, seed)

    def __call__(self, shape: Shape, dtype: DType | None = None) -> TensorLike:
        rows = ops.expand_dims(ops.arange(shape[0]) > 0, -1)
        return ops.where(rows, self._normal(shape, dtype=dtype), 0)

    def get_config(self) -> Config:
        return {"stddev": self.stddev, "seed": self.seed}
