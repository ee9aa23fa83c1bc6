"""Initializers that Keras lacks, and copies of initializers with different seeds.

A Keras initializer object returns the same numbers each time it is called with the same shape, so
two kernels that share one would start equal.
"""

import inspect
import zlib

import keras
from keras import initializers, ops


def derive_initializer(initializer, index: int, purpose: str = "weight"):
    """Returns the initializer for weight number `index` of those that share one argument.

    The result is a copy of the initializer with a different seed, so that the numbers differ and
    stay reproducible. Three kinds are returned unchanged: a `SeedGenerator` advances by itself, and
    a copy would start again; a function, or an object without a config, cannot be copied.

    Args:
        initializer: The result of `keras.initializers.get`.
        index: Int of at least 0; 0 returns the initializer itself.
        purpose: "weight", or "head" for a copied layer with its own weights.

    Example:

    >>> glorot = initializers.get("glorot_uniform")
    >>> kernels = [derive_initializer(glorot, index)((2, 2)) for index in (0, 1)]
    >>> bool(ops.all(kernels[0] == kernels[1]))
    False
    """
    base = initializers.Initializer
    if index == 0 or not isinstance(initializer, base) or _has_seed_generator(initializer):
        return initializer
    if type(initializer).get_config is base.get_config:
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] = _derive_seed(config["seed"], index, purpose)
    return type(initializer).from_config(config)


def _has_seed_generator(initializer):
    parts = vars(initializer).values()
    return any(isinstance(part, keras.random.SeedGenerator) for part in parts)


def _derive_seed(seed, index, purpose):
    if purpose == "weight":
        return seed + index
    # A hash, so that the seeds of heads do not collide with those of weights; non-negative int32.
    return zlib.crc32(f"{seed} {purpose} {index}".encode()) >> 1


def column_block_initializer(initializer, count: int):
    """Returns an initializer of `count` matrices side by side, each with its own numbers.

    This matters for an orthogonal initializer: each block is orthogonal, as in the papers, rather
    than the whole matrix.
    """

    def draw(shape, dtype=None):
        block = (*shape[:-1], shape[-1] // count)
        blocks = [derive_initializer(initializer, i)(block, dtype=dtype) for i in range(count)]
        return ops.concatenate(blocks, axis=-1)

    return draw


def copy_layer(layer, index: int):
    """Returns an unbuilt layer like `layer`, whose initializers draw different numbers.

    Initializers and functions are passed as objects rather than through their configs, because an
    unregistered function cannot be restored from its config.

    Args:
        layer: A layer whose `get_config` returns its constructor's arguments.
        index: Positive int, the number of the copy.
    """
    config = {
        name: _copy_config_value(name, value, getattr(layer, name, None), index)
        for name, value in _get_serializable_config(layer).items()
    }
    return type(layer).from_config({**config, "name": f"{layer.name}_{index}"})


def _get_serializable_config(layer):
    """Returns the config of a layer, with stand-ins for its initializers and functions.

    A copy takes those as objects. Serialized with the rest they would have to be serializable,
    which an instance of `functools.partial` is not.
    """
    shadow = object.__new__(type(layer))  # not built by Keras, and never called
    shadow.__dict__.update(vars(layer))
    for name in _get_argument_names(type(layer)):
        if _is_callable_option(shadow.__dict__.get(name)):
            shadow.__dict__[name] = keras.activations.linear
    return shadow.get_config()


def _get_argument_names(layer):
    """Returns the names of the constructor's arguments, with those of the base classes."""
    owners = [owner for owner in layer.__mro__ if "__init__" in vars(owner) and owner is not object]
    return {name for owner in owners for name in inspect.signature(owner.__init__).parameters}


def _is_callable_option(value):
    return callable(value) and not isinstance(value, keras.layers.Layer | type)


def _copy_config_value(name, value, original, index):
    """Returns an entry of a config, with different seeds for everything that is random."""
    if _is_callable_option(original):
        return derive_initializer(original, index, "head")
    if name == "seed" and isinstance(value, int):
        return _derive_seed(value, index, "head")
    if isinstance(value, list):
        return [_copy_config_value(None, item, None, index) for item in value]
    if isinstance(value, dict):
        return {key: _copy_config_value(key, item, None, index) for key, item in value.items()}
    return value


def float32_initializer(initializer):
    """Returns an initializer that draws in at least float32 and casts to the requested dtype.

    TensorFlow's QR decomposition does not support bfloat16.
    """

    def draw(shape, dtype=None):
        wide = dtype if dtype == "float64" else "float32"
        return ops.cast(initializer(shape, dtype=wide), dtype or wide)

    return draw


def recurrent_initializer(dtype):
    """Returns the name of the recurrent kernel's initializer: orthogonal if the dtype allows it.

    TensorFlow's QR, which orthogonal initializers need, does not support half precision.

    Example:

    >>> recurrent_initializer("float32"), recurrent_initializer("bfloat16")
    ('orthogonal', 'glorot_uniform')
    """
    return "orthogonal" if dtype in ("float32", "float64") else "glorot_uniform"
