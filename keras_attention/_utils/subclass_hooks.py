"""Checks of the methods that a subclass defines, with errors that name the method."""

import inspect


def check_hooks(layer, interface: type, hooks: dict) -> None:
    """Raises unless every hook of `layer` takes the arguments that the library passes.

    A hook may name its required arguments as it likes, but not in a different order; one that is
    optional keeps its name, or begins it with an underscore where the hook does not read it.

    Args:
        layer: An object of a subclass of `interface`.
        interface: The abstract class whose hooks they are.
        hooks: Names of methods to the names of their arguments, all of them by position.
    """
    for name, arguments in hooks.items():
        hook, declared = getattr(layer, name), getattr(interface, name)
        if not callable(hook):
            received = f"{name}={hook!r}"
        elif not _takes_arguments(inspect.signature(hook), arguments, inspect.signature(declared)):
            received = f"`def {name}{_format_signature(getattr(type(layer), name))}`"
        else:
            continue
        raise TypeError(
            f"{type(layer).__name__} defines `{name}`, and a `{interface.__name__}` is called "
            f"with positional arguments `{name}({', '.join(arguments)})`. Define it as "
            f"`def {name}{_format_signature(declared)}`. Received: {received}"
        )


def _takes_arguments(given, arguments, wanted):
    """Returns whether a signature takes `arguments` by position, each where it belongs."""
    try:
        given.bind(*arguments)
    except TypeError:
        return False
    takers = [
        one.name
        for one in given.parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    empty = inspect.Parameter.empty
    for argument, taker in zip(arguments, takers, strict=False):
        is_optional = wanted.parameters[argument].default is not empty
        is_renamed = taker != argument and not taker.startswith("_")
        if is_renamed and (is_optional or taker in arguments):
            return False
    return True


def name_missing(layer, interface: type, name: str, does: str) -> None:
    """Raises `NotImplementedError` with the signature of a hook that a class must define."""
    signature = _format_signature(getattr(interface, name))
    raise NotImplementedError(
        f"{type(layer).__name__} must define `{name}{signature}`, which {does}."
    )


def _format_signature(method) -> str:
    """Returns the names and defaults of a method's arguments, as an error shows them: no types."""
    signature, empty = inspect.signature(method), inspect.Signature.empty
    bare = [one.replace(annotation=empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=empty))


def check_hook_result(layer, name: str, tensor, shape: tuple, axes: str) -> None:
    """Raises unless a hook returned a tensor of `shape`, in which None means unknown."""
    given = getattr(tensor, "shape", None)
    fits = given is not None and len(given) == len(shape)
    if not fits or any(a != b for a, b in zip(given, shape, strict=True) if None not in (a, b)):
        received = type(tensor).__name__ if given is None else f"shape {tuple(given)}"
        raise ValueError(
            f"{type(layer).__name__}.{name} must return a tensor of shape {axes}, here {shape}. "
            f"Received: {received}"
        )
