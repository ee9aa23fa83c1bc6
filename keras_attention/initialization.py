"""What weights begin from, where one initializer of Keras does not say it.

A Keras initializer object returns the same numbers each time it is called with one shape;
two kernels that share it would start equal.
"""

import zlib

import keras
from keras import initializers, ops


def independent(initializer, index: int, axis: str = "weight"):
    """Returns the initializer for number `index` of those that share one argument.

    A copy of an initializer with another seed, so that the numbers differ and stay
    reproducible. A `SeedGenerator` moves on by itself, where a copy would begin again; a function,
    and an object without a config, cannot be copied. These are returned as they are.

    Args:
        initializer: What `keras.initializers.get` returned.
        index: Int of at least 0; 0 is the initializer itself.
        axis: What is counted: "weight", or "head" for a copy whose weights are counted again.

    Example:

    >>> kernels = [independent(initializers.get("glorot_uniform"), i)((2, 2)) for i in (0, 1)]
    >>> bool(ops.all(kernels[0] == kernels[1]))
    False
    """
    base = initializers.Initializer
    if index == 0 or not isinstance(initializer, base) or _moves_on(initializer):
        return initializer
    if type(initializer).get_config is base.get_config:
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] = _other_seed(config["seed"], index, axis)
    return type(initializer).from_config(config)


def _moves_on(initializer):
    parts = vars(initializer).values()
    return any(isinstance(part, keras.random.SeedGenerator) for part in parts)


def _other_seed(seed, index, axis):
    if axis == "weight":
        return seed + index
    return zlib.crc32(f"{seed} {axis} {index}".encode()) >> 1


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


def copy_of(layer, index: int):
    """Returns an unbuilt layer like `layer`, whose initializers draw other numbers.

    Initializers and functions are passed on as objects, not through their configs: a function
    that is not registered has none that can be read.

    Args:
        layer: A layer whose `get_config` names its constructor's arguments.
        index: Positive int, the number of the copy.
    """
    config = {
        name: _for_copy(name, value, getattr(layer, name, None), index)
        for name, value in layer.get_config().items()
    }
    return type(layer).from_config({**config, "name": f"{layer.name}_{index}"})


def _for_copy(name, value, original, index):
    """Returns an entry of a config, with other seeds for everything that draws."""
    if callable(original) and not isinstance(original, keras.layers.Layer | type):
        return independent(original, index, "head")
    if name == "seed" and isinstance(value, int):
        return _other_seed(value, index, "head")
    if isinstance(value, list):
        return [_for_copy(None, item, None, index) for item in value]
    if isinstance(value, dict):
        return {key: _for_copy(key, item, None, index) for key, item in value.items()}
    return value


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
