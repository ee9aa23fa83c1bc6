"""Pieces from arguments: by name, as Keras does for activations, by config, or as they are."""

import keras


def resolve_piece(kind: str, interface: type, names: dict, value, dtype=None):
    """Returns the object for `value`: an object, its saved config, or a name.

    Args:
        kind: The kind of object for the error message: "scorer" or "normalizer".
        interface: The base class of this kind.
        names: Dict from names to classes without required arguments.
        value: An instance of `interface`, a config dict, or one of `names`.
        dtype: The dtype policy of an object created from its name. An object keeps its own.

    Raises:
        ValueError: If `value` is none of these; the message lists the names.
    """
    if isinstance(value, dict):
        value = keras.saving.deserialize_keras_object(value)
    if isinstance(value, str) and value in names:
        return names[value](dtype=dtype)
    if isinstance(value, interface):
        if not hasattr(value, "built"):
            raise ValueError(
                f"{type(value).__name__} is a `{interface.__name__}` whose constructor has to "
                "begin with `super().__init__(**kwargs)`. "
                f"Received: {kind}=a {type(value).__name__} that never called it"
            )
        return value
    listed = ", ".join(repr(name) for name in sorted(names))
    raise ValueError(
        f"Expected `{kind}` to be a `{interface.__name__}` object or one of {listed}. An object "
        f"takes arguments, as in `{next(iter(names.values())).__name__}()`. "
        f"Received: {kind}={value!r}"
    )


def resolve_optional_piece(owner: str, name: str, interface: type, value):
    """Returns the `interface` object for `value`, an object or its config; None stays None.

    Raises:
        ValueError: If `value` is none of these.
    """
    if isinstance(value, dict):
        value = keras.saving.deserialize_keras_object(value)
    if value is not None and not isinstance(value, interface):
        raise ValueError(
            f"{owner} expects `{name}` to be a `{interface.__name__}` object or None. "
            f"Received: {name}={value!r}"
        )
    return value
