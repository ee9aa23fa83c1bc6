"""What weights begin from, where one initializer of Keras does not say it.

A Keras initializer object returns the same numbers each time it is called with one shape;
two kernels that share it would start equal.
"""

import keras
from keras import initializers, ops


def independent(initializer, index: int):
    """Returns the initializer for weight number `index` of those that share one argument.

    Example:

    >>> kernels = [independent(initializers.get("glorot_uniform"), i)((2, 2)) for i in (0, 1)]
    >>> bool(ops.all(kernels[0] == kernels[1]))
    False
    """
    if index == 0 or not isinstance(initializer, initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += index  # stays reproducible, and differs
    return type(initializer).from_config(config)


def side_by_side(initializer, count: int):
    """Returns an initializer of `count` matrices side by side, each drawn by itself.

    For an orthogonal initializer this matters: each block is orthogonal, as papers say,
    not the wide matrix.
    """

    def draw(shape, dtype=None):
        block = (*shape[:-1], shape[-1] // count)
        blocks = [independent(initializer, i)(block, dtype=dtype) for i in range(count)]
        return ops.concatenate(blocks, axis=-1)

    return draw


def drawn_wide(initializer):
    """Returns the initializer drawn in at least float32: TensorFlow's QR knows no bfloat16."""

    def draw(shape, dtype=None):
        wide = dtype if dtype == "float64" else "float32"
        return ops.cast(initializer(shape, dtype=wide), dtype or wide)

    return draw


def recurrent_initializer(dtype):
    """Returns the name of the initializer of a recurrent kernel: orthogonal, where it can be.

    TensorFlow's QR, which draws orthogonal matrices, knows no half precision.

    Example:

    >>> recurrent_initializer("float32"), recurrent_initializer("bfloat16")
    ('orthogonal', 'glorot_uniform')
    """
    return "orthogonal" if dtype in ("float32", "float64") else "glorot_uniform"


@keras.saving.register_keras_serializable(package="keras_attention")
class PaddedNormal(initializers.Initializer):
    """Draws an embedding from a normal distribution, with zeros in row 0, that of the padding.

    Args:
        stddev: Number of at least 0, the standard deviation.
        seed: Optional int.

    Example:

    >>> table = PaddedNormal(0.1, seed=1)((5, 3))
    >>> [bool(ops.any(row != 0)) for row in table]
    [False, True, True, True, True]
    """

    def __init__(self, stddev=0.1, seed=None):
        self.stddev = stddev
        self.seed = seed
        self._normal = initializers.RandomNormal(0.0, stddev, seed)

    def __call__(self, shape, dtype=None):
        rows = ops.expand_dims(ops.arange(shape[0]) > 0, -1)
        return ops.where(rows, self._normal(shape, dtype=dtype), 0)

    def get_config(self):
        return {"stddev": self.stddev, "seed": self.seed}
