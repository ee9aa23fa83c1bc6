"""The methods that a subclass defines, and an error that names them where one cannot be called."""

import inspect


def check_hooks(layer, interface: type, hooks: dict) -> None:
    """Raises unless every hook of `layer` takes the arguments that the library passes.

    Args:
        layer: An object of a subclass of `interface`.
        interface: The abstract class whose hooks they are.
        hooks: Names of methods to the names of their arguments, all of them by position.
    """
    for name, arguments in hooks.items():
        signature = inspect.signature(getattr(layer, name))
        try:
            signature.bind(*arguments)
        except TypeError:
            wanted, given = (
                inspect.signature(getattr(owner, name)) for owner in (interface, type(layer))
            )
            raise TypeError(
                f"{type(layer).__name__} defines `{name}`, which a `{interface.__name__}` is "
                f"called with as `{name}({', '.join(arguments)})`: define it as "
                f"`def {name}{wanted}`. Received: `def {name}{given}`"
            ) from None


def name_missing(layer, interface: type, name: str, does: str) -> None:
    """Raises `NotImplementedError` with the signature of a hook that a class has to define."""
    signature = inspect.signature(getattr(interface, name))
    raise NotImplementedError(
        f"{type(layer).__name__} has to define `{name}{signature}`, which {does}."
    )


def check_result(layer, name: str, tensor, shape: tuple, axes: str) -> None:
    """Raises unless what a hook returned is a tensor of `shape`, of which None is not known."""
    given = getattr(tensor, "shape", None)
    fits = given is not None and len(given) == len(shape)
    if not fits or any(a != b for a, b in zip(given, shape, strict=True) if None not in (a, b)):
        received = type(tensor).__name__ if given is None else f"shape {tuple(given)}"
        raise ValueError(
            f"{type(layer).__name__}.{name} has to return a tensor of shape {axes}, here {shape}. "
            f"Received: {received}"
        )
