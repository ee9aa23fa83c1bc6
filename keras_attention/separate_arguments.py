"""Calls as other attention layers take them, refused with the call to make instead."""

import functools
import inspect

from keras_attention.checks import described


class SeparateArguments:
    """A layer whose tensors and masks are arguments of their own; mixed in before the layer.

    `keras.layers.Attention` takes lists, `layer([query, value], mask=[query_mask, value_mask])`.
    Whoever writes so here is told what to write, before Keras looks at the arguments.
    """

    def __call__(self, *args, **kwargs):
        tensors, masks = _named_arguments(type(self))
        given = args[0] if args else kwargs.get(tensors[0]) if tensors else None
        if tensors and isinstance(given, (list, tuple)):
            raise ValueError(
                f"{type(self).__name__} takes its tensors one by one, not in a list as "
                f"`keras.layers.Attention` does: call {_calls(type(self), tensors)}. "
                f"Received: {tensors[0]}={described(given)}"
            )
        given = dict(zip(tensors, args, strict=False)) | kwargs
        missing = [name for name in tensors if given.get(name, ...) is None]
        if missing:
            raise ValueError(
                f"{type(self).__name__} needs every tensor of {_calls(type(self), tensors)}. "
                f"Received: {missing[0]}=None"
            )
        mask = kwargs.get("mask")
        if mask is not None and masks and ("mask" not in masks or isinstance(mask, (list, tuple))):
            wanted = ", ".join(f"`{name}=...`" for name in masks)
            raise ValueError(
                f"{type(self).__name__} takes the mask of each tensor by its name: pass {wanted}. "
                f"Received: mask={described(mask)}"
            )
        return super().__call__(*args, **kwargs)


@functools.cache
def _named_arguments(layer):
    """Returns the names of the tensors that a class must be called with, and of its masks."""
    parameters = dict(inspect.signature(layer.call).parameters)
    parameters.pop("self")
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    tensors = [
        name for name, one in parameters.items() if one.default is one.empty and one.kind in named
    ]
    masks = [
        name
        for name in parameters
        if name == "mask" or (name.endswith("_mask") and not name.startswith(("use_", "attention")))
    ]
    return tensors, masks


def _calls(layer, tensors):
    """Returns the calls that a class takes, as an error shows them."""
    calls = [f"`layer({', '.join(tensors)})`"]
    if "key" in inspect.signature(layer.call).parameters and "key" not in tensors:
        calls.append(f"`layer({', '.join(tensors)}, key)`")
    return " or ".join(calls)
