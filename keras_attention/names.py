"""Looks pieces up by name, as Keras does for activations and initializers."""

import keras


def piece_from(kind: str, interface: type, names: dict, value, dtype=None):
    """Returns the piece `value` stands for: an object, its saved config, or a name.

    Args:
        kind: What the piece is, for the error: "scorer" or "normalizer".
        interface: The class that pieces of this kind derive from.
        names: The names that stand for a piece without required arguments, to classes.
        value: An instance of `interface`, a config dict, or one of `names`.
        dtype: The dtype policy of a piece made from its name. An object keeps its own.

    Raises:
        ValueError: If `value` is none of these; the error lists the names.
    """
    if isinstance(value, dict):
        value = keras.saving.deserialize_keras_object(value)
    if isinstance(value, str) and value in names:
        return names[value](dtype=dtype)
    if isinstance(value, interface):
        return value
    listed = ", ".join(repr(name) for name in sorted(names))
    raise ValueError(
        f"Expected `{kind}` to be a `{interface.__name__}` object or one of {listed}. An object "
        f"takes arguments, as in `{next(iter(names.values())).__name__}()`. "
        f"Received: {kind}={value!r}"
    )
